//! The listener whose connections can be cut in the middle of a request.
//!
//! A stand-in that loses replies must lose them the way a network does: the bytes of the request
//! arrived, and the connection is gone. An HTTP status would be an answer.

use std::{
    future::pending,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{extract::connect_info::Connected, serve::IncomingStream, serve::Listener};
use futures::task::AtomicWaker;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};

#[derive(Debug)]
pub(crate) struct Wire(pub(crate) TcpListener);

#[derive(Debug, Default)]
struct Cut {
    done: AtomicBool,
    reader: AtomicWaker,
}

/// One accepted connection as handlers see it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    cut: Arc<Cut>,
}

impl Connection {
    /// Resets the TCP connection. Never returns: the server drops the request with the connection.
    pub(crate) async fn cut(&self) -> std::convert::Infallible {
        self.cut.done.store(true, Ordering::Release);
        self.cut.reader.wake();
        pending().await
    }
}

/// The bytes of one connection.
#[derive(Debug)]
pub(crate) struct Line {
    tcp: TcpStream,
    cut: Arc<Cut>,
}

impl Listener for Wire {
    type Io = Line;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Line, SocketAddr) {
        let (tcp, peer) = Listener::accept(&mut self.0).await;
        // Without it chunks may arrive late, which is no reason to refuse the connection.
        _ = tcp.set_nodelay(true);
        (
            Line {
                tcp,
                cut: Arc::default(),
            },
            peer,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, Wire>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Wire>) -> Self {
        Self {
            peer: *stream.remote_addr(),
            cut: Arc::clone(&stream.io().cut),
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.cut.reader.register(cx.waker());
        if self.cut.done.load(Ordering::Acquire) {
            // Without lingering, closing sends a reset; should it fail, the client sees an early end.
            _ = self.tcp.set_zero_linger();
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

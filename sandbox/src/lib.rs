//! Stand-ins for the outside world behind one address: page, API, issuer, MCP server and model.

mod clock;
mod control;
mod front;
mod guard;
mod llm;
mod mcp;
mod oidc;
mod page;
mod problem;
mod runtime_host;
mod saved;
mod stack;
mod switches;
mod wire;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::{
    mcp::Demo, oidc::Issuer, runtime_host::RuntimeHost, saved::Saved, stack::StackFile,
    switches::Switches, wire::Wire,
};

/// How long open connections may take to end when the sandbox stops.
const FAREWELL: Duration = Duration::from_secs(3);
/// Longer than any function may run, so that the function's own end is seen.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(330);

/// How a sandbox is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Folder for what is kept between runs; `stack.json` is read from it.
    pub state: PathBuf,
    /// Folder with the built web console.
    pub web: PathBuf,
    /// Longest time a chat invocation may take.
    pub function_timeout: Duration,
}

impl Options {
    /// The usual options for a port and a state folder.
    pub fn new(port: u16, state: impl Into<PathBuf>, web: impl Into<PathBuf>) -> Self {
        let function_timeout = Duration::from_secs(300);
        Self {
            port,
            state: state.into(),
            web: web.into(),
            function_timeout,
        }
    }
}

/// What all handlers share.
#[derive(Debug)]
pub(crate) struct App {
    port: u16,
    web: PathBuf,
    saved: Arc<Saved>,
    switches: Switches,
    issuer: Issuer,
    demo: Demo,
    heard: llm::Heard,
    stack: StackFile,
    host: Arc<RuntimeHost>,
    http: reqwest::Client,
}

/// A sandbox that is running.
#[derive(Debug)]
pub struct Sandbox {
    address: SocketAddr,
    app: Arc<App>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<io::Result<()>>,
    writing: JoinHandle<()>,
}

impl Sandbox {
    /// Starts to listen; errors say what to do about them.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let Options {
            port,
            state,
            web,
            function_timeout,
        } = options;
        let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => anyhow::bail!(
                "port {port} is in use: stop what runs there (make stop PORT={port}) or choose \
                 another with PORT=…"
            ),
            bound => bound.with_context(|| format!("cannot listen on port {port}"))?,
        };
        let address = listener.local_addr()?;
        let logs = state.join("logs");
        std::fs::create_dir_all(&logs)
            .with_context(|| format!("cannot make the folder {}", logs.display()))?;
        let saved = Arc::new(Saved::open(&state)?);
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(UPSTREAM_TIMEOUT)
            .build()?;
        let app = Arc::new(App {
            port: address.port(),
            web,
            switches: Switches::new(Arc::clone(&saved)),
            issuer: Issuer::open(&state, Arc::clone(&saved), address.port())?,
            demo: Demo::default(),
            heard: llm::Heard::default(),
            stack: StackFile::new(&state),
            host: RuntimeHost::new(&logs.join("chat.log"), function_timeout),
            http,
            saved,
        });
        let service = front::router(Arc::clone(&app))
            .into_make_service_with_connect_info::<wire::Connection>();
        let (stop, stopped) = oneshot::channel();
        let server = axum::serve(Wire(listener), service).with_graceful_shutdown(async {
            // A dropped sender means stop as well.
            _ = stopped.await;
        });
        let saved = Arc::clone(&app.saved);
        Ok(Self {
            address,
            app,
            stop: Some(stop),
            serving: tokio::spawn(server.into_future()),
            writing: tokio::spawn(async move { saved.keep_writing().await }),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: functions are killed, connections ended, the state written.
    pub async fn stop(mut self) -> io::Result<()> {
        self.writing.abort();
        if let Some(stop) = self.stop.take() {
            // Nobody listens when serving has ended by itself.
            _ = stop.send(());
        }
        self.app.host.stop().await;
        if tokio::time::timeout(FAREWELL, &mut self.serving)
            .await
            .is_err()
        {
            self.serving.abort();
        }
        self.app.saved.write()
    }
}

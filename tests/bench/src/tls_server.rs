//! An HTTPS server with a certificate of its own, for the first TLS of a process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

#[derive(Debug)]
pub struct TlsServer {
    address: SocketAddr,
    root: PathBuf,
}

impl TlsServer {
    /// Serves as long as the process lives; the certificate lies beside it in a file.
    pub fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
        let certificate = made.cert.der().clone();
        let root = std::env::temp_dir().join(format!("toshi-{:016x}.der", rand::random::<u64>()));
        std::fs::write(&root, &certificate).expect("the certificate is written");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a server's certificate");
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                // A client that turns away is not the server's business.
                std::thread::spawn(move || drop(answer(config, stream)));
            }
        });
        Self { address, root }
    }

    pub fn url(&self) -> String {
        format!("https://localhost:{}/", self.address.port())
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.root));
    }
}

fn answer(config: Arc<ServerConfig>, stream: TcpStream) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut head = [0_u8; 4096];
    let _ = stream.read(&mut head)?;
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
    stream.flush()
}

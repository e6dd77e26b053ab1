//! A function's own binary as a process: what its start costs, and what its work does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::share::Share;

/// Everything that a start needs beside the binary.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    pub binary: PathBuf,
    pub variables: Vec<(String, String)>,
}

impl Setting {
    pub fn new(binary: impl Into<PathBuf>, variables: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            binary: binary.into(),
            variables: variables.iter().map(owned).collect(),
        }
    }

    /// The process, asking for its invocations at this address, within its share of a CPU.
    pub fn spawn(&self, runtime: SocketAddr, share: Option<&Share>) -> Running {
        let mut command = Command::new(&self.binary);
        command
            .env_clear()
            .envs(self.variables.iter().cloned())
            .env("AWS_LAMBDA_RUNTIME_API", runtime.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "bench")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut spawn = || {
            command
                .spawn()
                .unwrap_or_else(|error| panic!("{}: {error}", self.binary.display()))
        };
        Running(match share {
            Some(share) => share.run(spawn),
            None => spawn(),
        })
    }
}

/// Killed when it is dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// CPU time of all its threads.
    pub fn cpu(&self) -> Duration {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.0.id()));
        let Ok(found) = std::fs::read_dir(tasks) else {
            return Duration::ZERO;
        };
        let nanoseconds = found.flatten().filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// The most memory that it ever held, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
        kilobytes
            .and_then(|text| text.trim().parse::<u64>().ok())
            .unwrap_or_default()
            * 1024
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, and there is nothing to do about either.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One start: until the process asks for its first invocation.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub wall: Duration,
    pub cpu: Duration,
    pub memory: u64,
}

/// Listens as a Runtime API that never has an invocation.
#[derive(Debug)]
pub struct Starts(TcpListener);

impl Starts {
    pub fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    /// Starts the process once.
    pub fn once(&self, setting: &Setting, share: Option<&Share>) -> Start {
        let address = self.0.local_addr().expect("an address");
        let began = Instant::now();
        let running = setting.spawn(address, share);
        let (mut asking, _) = self.0.accept().expect("a connection");
        asking
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        let mut head = [0_u8; 64];
        let read = asking.read(&mut head).expect("a request");
        let wall = began.elapsed();
        let asked = String::from_utf8_lossy(&head[..read]).into_owned();
        assert!(
            asked.starts_with("GET /2018-06-01/runtime/invocation/next"),
            "{} said {asked}",
            setting.binary.display()
        );
        Start {
            wall,
            cpu: running.cpu(),
            memory: running.peak_memory(),
        }
    }
}

impl Default for Starts {
    fn default() -> Self {
        Self::new()
    }
}

/// Says no to everything at once: what a function's start may ask of the cloud fails fast, so that
/// only its own work is measured.
#[derive(Debug)]
pub struct Refusing(SocketAddr);

impl Refusing {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || refuse(stream));
            }
        });
        Self(address)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.0)
    }
}

fn refuse(mut stream: std::net::TcpStream) {
    const BODY: &str = r#"{"__type":"AccessDeniedException","message":"no"}"#;
    let mut buffer = [0_u8; 16 * 1024];
    while let Ok(read) = stream.read(&mut buffer) {
        if read == 0 {
            return;
        }
        let answer = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/x-amz-json-1.0\r\n\
             content-length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Where the functions' binaries lie.
pub fn functions() -> Option<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the measurement's own configuration"
    )]
    let folder = std::env::var("TOSHI_BENCH_FUNCTIONS").ok()?;
    Some(Path::new(&folder).to_owned())
}

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Stack, eventually, fresh};

/// A second stack on a port of its own, started and stopped as a person would.
pub(crate) struct Own {
    port: u16,
    log: PathBuf,
    process: Option<Child>,
}

impl Own {
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let mut own = Self::reserved();
        own.run(settings).await;
        own
    }

    /// One that does not run yet; its settings may name its address.
    pub(crate) fn reserved() -> Self {
        let log = std::env::temp_dir()
            .join(fresh("toshi-own"))
            .with_extension("log");
        Self {
            port: free_port(),
            log,
            process: None,
        }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts it on what was kept of it.
    pub(crate) async fn run(&mut self, settings: &[(&str, &str)]) {
        let output = File::create(&self.log).expect("a log file");
        let mut command = self.command(&["run"]);
        command.envs(settings.iter().copied());
        command
            .stdout(output.try_clone().expect("the file"))
            .stderr(output);
        let child = command.spawn().expect("python3");
        let child = self.process.insert(child);
        let log = self.log.clone();
        eventually("a second stack", 300, async || {
            let told = std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = child.try_wait().expect("a status") {
                panic!("the second stack ended ({status}):\n{told}");
            }
            told.contains("Toshi runs at").then_some(())
        })
        .await;
    }

    pub(crate) fn stack(&self) -> Stack {
        Stack::own(
            &self.base(),
            root().join(".toshi").join(self.port.to_string()),
        )
    }

    /// Ends all its processes; its data is kept.
    pub(crate) fn stop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        let stopped = self.command(&["stop"]).stdout(Stdio::null()).status();
        assert!(
            stopped.is_ok_and(|status| status.success()),
            "the second stack does not stop"
        );
        process.wait().expect("its end");
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("python3");
        command
            .arg("infra/dev.py")
            .args(words)
            .args(["--port", &self.port.to_string()]);
        command.current_dir(root()).stdin(Stdio::null());
        for name in cargo_variables() {
            command.env_remove(name);
        }
        command
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let told = std::fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("the second stack said:\n{told}");
        }
        self.stop();
        let removed = self.command(&["reset"]).stdout(Stdio::null()).status();
        if removed.is_err() {
            eprintln!("the data of port {} could not be removed", self.port);
        }
        _ = std::fs::remove_file(&self.log);
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
}

/// What cargo tells its tests of this crate would mislead the cargo of the second stack.
#[expect(
    clippy::disallowed_methods,
    reason = "a child's environment is made from ours"
)]
fn cargo_variables() -> Vec<String> {
    let kept = ["CARGO_HOME", "CARGO_TARGET_DIR"];
    let names = std::env::vars().map(|(name, _)| name);
    names
        .filter(|name| name.starts_with("CARGO_") && !kept.contains(&name.as_str()))
        .collect()
}

/// A free port below those that the kernel and the development commands choose from; never the
/// same twice, since a stack takes a while until it listens.
fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = std::process::id() + TRIED.fetch_add(1, Ordering::Relaxed);
        let port = 12_000 + u16::try_from(step % 5_000).expect("small");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

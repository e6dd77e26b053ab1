//! `toshi-sandbox`: the stand-ins for the outside world, as one process.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use toshi_sandbox::{Options, Sandbox};

#[derive(Debug, Parser)]
#[command(
    name = "toshi-sandbox",
    version,
    about = "Stand-ins for the outside world of Toshi"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the page, the API and the stand-ins on 127.0.0.1 until SIGTERM or Ctrl-C
    Serve {
        /// Port to listen on
        #[arg(long, default_value_t = 8080)]
        port: u16,
        /// Folder for what is kept between runs
        #[arg(long)]
        state: PathBuf,
        /// Folder with the built web console
        #[arg(long, default_value = "web/dist")]
        web: PathBuf,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Serve { port, state, web } = Arguments::parse().command;
    match serve(Options::new(port, state, web)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("toshi-sandbox: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let sandbox = Sandbox::start(options).await?;
    eprintln!("toshi-sandbox: listening on http://{}", sandbox.address());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    sandbox.stop().await?;
    Ok(())
}

//! `toshi`: secrets, the model's health, demo data, the OpenAPI document.

mod cloud;
mod demo;
mod llm;
mod people;
mod say;
mod secret;
mod seed;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use toshi_http::openapi;
use toshi_http::start::Environment;

use say::say;

/// Works on one deployment of Toshi. Settings come from the same environment variables as the
/// functions'.
#[derive(Debug, Parser)]
#[command(name = "toshi", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Store the demo schools: people, connections, reviewed tools. Only with TOSHI_DEV=1
    Seed {
        /// Address of the sandbox, such as http://127.0.0.1:8080
        #[arg(long)]
        front: String,
    },
    /// Secrets of the platform
    Secret {
        #[command(subcommand)]
        command: SecretCommand,
    },
    /// Ask the configured model for one word
    LlmHealth,
    /// Print the OpenAPI document
    Openapi,
}

#[derive(Debug, Subcommand)]
enum SecretCommand {
    /// Set a secret: from standard input, or typed at a prompt, never from the command line
    Set {
        name: String,
        /// Leave one that exists as it is
        #[arg(long)]
        keep: bool,
        /// Make a random value instead of reading one
        #[arg(long)]
        generate: bool,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Arguments::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::problem(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    let environment = Environment::read();
    match command {
        Command::Seed { front } => seed::seed(&environment, &front).await,
        Command::Secret {
            command:
                SecretCommand::Set {
                    name,
                    keep,
                    generate,
                },
        } => secret::set(&environment, &name, keep, generate).await,
        Command::LlmHealth => llm::health(&environment).await,
        Command::Openapi => {
            say(openapi::text()?.trim_end());
            Ok(())
        }
    }
}

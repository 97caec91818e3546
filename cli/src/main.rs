//! `onejob`: the command line. One file a command; `client` talks to the API, `timeline` shows jobs.

mod bench;
mod certify;
mod client;
mod demo;
mod jobs;
mod keys;
mod timeline;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use onejob_common::config::{Config, DatabaseConfig};
use onejob_common::store::Store;

/// OneJob: one click, one job, one result.
///
/// Commands about jobs talk to the API (ONEJOB_URL, ONEJOB_API_KEY; an operator's: ONEJOB_OPERATOR_KEY). migrate, keys and
/// certify talk to PostgreSQL (DATABASE_URL). After `./dev up`, .dev/env has all of them:
///
///     set -a; . .dev/env; set +a
///     onejob submit --contract ticket-triage@1 --provider primary --input '{"message": "I was charged twice."}' --wait
#[derive(Debug, Parser)]
#[command(name = "onejob", version, about, long_about, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Brings the database's schema up to date; safe to repeat, and to run from several places at once
    Migrate(Database),
    /// Makes, lists and revokes API keys
    #[command(subcommand)]
    Keys(keys::Command),
    /// Runs a contract's golden cases on a provider, and writes the certificate that lets it take over
    Certify(certify::Args),
    /// Sends a job; the same --key again gives the same job back
    Submit(jobs::Submit),
    /// Shows a job's attempts as they move, until it is closed or unknown
    Watch(jobs::Watch),
    /// Lists jobs, newest first
    Jobs(jobs::List),
    /// Starts another attempt of a job
    Attempt(jobs::NewAttempt),
    /// Cancels a job
    Cancel(jobs::Cancel),
    /// Lists the attempts whose outcome is not known (operators)
    Unknowns(jobs::Unknowns),
    /// Says what became of an unknown attempt (operators)
    Resolve(jobs::Resolve),
    /// Lists the contracts that the API knows
    Contracts(jobs::Names),
    /// Lists the providers that the API knows
    Providers(jobs::Names),
    /// Plays the story of somebody who was billed twice, on a running stack; used by ./dev demo
    Demo(demo::Args),
    /// Drives jobs through API, broker and simulator, and measures them against PostgreSQL's own limit
    Bench(bench::Args),
}

/// Where PostgreSQL is.
#[derive(Debug, Args)]
struct Database {
    /// PostgreSQL: postgres://user:password@host:port/database
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: String,
}

impl Database {
    fn store(&self) -> Result<Store> {
        let config = DatabaseConfig {
            acquire_timeout_ms: 10_000,
            ..DatabaseConfig::default()
        };
        Store::new(&self.database_url, &config, "onejob").context("DATABASE_URL is not a PostgreSQL address")
    }
}

/// Where the configuration is.
#[derive(Debug, Args)]
struct ConfigFile {
    /// The configuration
    #[arg(long, env = "ONEJOB_CONFIG", default_value = "onejob.toml", value_name = "FILE")]
    config: PathBuf,
}

impl ConfigFile {
    fn load(&self) -> Result<Config> {
        Ok(Config::load(&self.config)?)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("onejob: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Migrate(database) => {
            database
                .store()?
                .migrate()
                .await
                .context("the schema could not be brought up to date")?;
            println!("The schema is up to date.");
            Ok(())
        }
        Command::Keys(command) => keys::run(command).await,
        Command::Certify(args) => certify::run(args).await,
        Command::Submit(args) => jobs::submit(args).await,
        Command::Watch(args) => jobs::watch(args).await,
        Command::Jobs(args) => jobs::list(args).await,
        Command::Attempt(args) => jobs::attempt(args).await,
        Command::Cancel(args) => jobs::cancel(args).await,
        Command::Unknowns(args) => jobs::unknowns(args).await,
        Command::Resolve(args) => jobs::resolve(args).await,
        Command::Contracts(args) => jobs::names(args, "/v1/contracts", "certified_providers").await,
        Command::Providers(args) => jobs::names(args, "/v1/providers", "certified_for").await,
        Command::Demo(args) => demo::run(args).await,
        Command::Bench(args) => bench::run(args).await,
    }
}

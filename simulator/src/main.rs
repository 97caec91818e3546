//! `onejob-simulator`: speaks the providers' APIs with scripted faults and keeps a log of every call.
//!
//! People test their own integration against it, so what it does is decided by the script and the request alone: there
//! is no chance in it. `server` owns the connections (and cuts them), `control` is `/_sim`, `state` holds the scripts
//! and the log, `answer` plays an answer in time. Each API is a module of its own beside `chat`.

mod answer;
mod args;
mod behaviour;
mod chat;
mod clock;
mod control;
mod log;
mod server;
mod state;
#[cfg(test)]
mod tests;

use anyhow::Context;
use clap::Parser;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Args;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    // JSON on stdout, flat, like every other process of OneJob: whoever starts it on port 0 reads the address there.
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info")),
        )
        .init();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime; is the limit on threads (ulimit -u) too low?")?
        .block_on(run(args))
}

async fn run(args: Args) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let listener = TcpListener::bind(&args.listen)
        .await
        .with_context(|| format!("cannot listen on {}; choose another address with --listen", args.listen))?;
    let address = listener.local_addr().context("the listening socket has no address")?;
    tracing::info!(listen = %address, "listening");
    // Calls in flight are not waited for: a script may keep them open for a day, and whoever stops the simulator wants
    // it gone. To their clients it looks as if the provider had died.
    tokio::select! {
        () = server::serve(listener, control::router()) => {}
        _ = terminate.recv() => tracing::info!("stopping on SIGTERM"),
        _ = interrupt.recv() => tracing::info!("stopping on SIGINT"),
    }
    Ok(())
}

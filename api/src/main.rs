//! `onejob-api`: see [`onejob_api`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use onejob_api::accept::Accepter;
use onejob_api::auth::Keys;
use onejob_api::wait::Waiters;
use onejob_api::{App, routes, server};
use onejob_common::broker::{Broker, Link, Publisher, Topology};
use onejob_common::config::{Config, ms};
use onejob_common::contract::Contracts;
use onejob_common::domain::ProviderName;
use onejob_common::store::Store;
use onejob_common::store::certificate::Gate;
use onejob_common::telemetry::admin::{Check, Readiness};
use onejob_common::telemetry::{admin, log, metrics};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The limit of readiness's own question to the database.
const PING: Duration = Duration::from_secs(1);
/// How long messages of accepted jobs are still waited for at the end; the relay publishes the rest.
const LAST_MESSAGES: Duration = Duration::from_secs(3);

/// Takes jobs over HTTP, and says what became of them.
///
/// It needs DATABASE_URL and AMQP_URL. It is ready (GET /readyz on the admin address) while PostgreSQL answers; a broker
/// that is away delays jobs and is named there. SIGTERM stops it: it takes no new connections, finishes open requests, and
/// exits with status 0.
#[derive(Debug, Parser)]
#[command(name = "onejob-api", version, about, long_about)]
struct Args {
    /// The configuration
    #[arg(long, env = "ONEJOB_CONFIG", default_value = "onejob.toml", value_name = "FILE")]
    config: PathBuf,
    /// Where it listens [default: the configuration's]
    #[arg(long, env = "ONEJOB_LISTEN", value_name = "HOST:PORT")]
    listen: Option<SocketAddr>,
    /// Where /livez, /readyz and /metrics are [default: the configuration's]
    #[arg(long, env = "ONEJOB_ADMIN_LISTEN", value_name = "HOST:PORT")]
    admin_listen: Option<SocketAddr>,
    /// PostgreSQL: postgres://user:password@host:port/database
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: String,
    /// RabbitMQ: amqp://user:password@host:port/vhost
    #[arg(long, env = "AMQP_URL", hide_env_values = true, value_name = "URL")]
    amqp_url: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    log::init();
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<()> {
    let config = Arc::new(Config::load(&args.config)?);
    let contracts = Arc::new(Contracts::load(&config.contracts.dir)?);
    let providers: Vec<ProviderName> = config.providers.keys().cloned().collect();
    let names: Vec<_> = contracts.iter().map(|contract| contract.name().clone()).collect();
    let rendered = metrics::install(metrics::Process::Api, &providers, &names)?;
    let store = Store::new(&args.database_url, &config.database, "onejob-api")?;
    let broker = Broker::new(&args.amqp_url, "onejob-api", &config.broker)?;
    let publisher = Publisher::start(&broker, Topology::new(config.providers.keys()))?;
    let listener = bind(args.listen.unwrap_or(config.api.listen), "--listen").await?;
    let admin_listener = bind(args.admin_listen.unwrap_or(config.api.admin_listen), "--admin-listen").await?;
    let (listen, admin) = (listener.local_addr()?, admin_listener.local_addr()?);

    let (tasks, services) = (TaskTracker::new(), TaskTracker::new());
    let (stop, closed) = (CancellationToken::new(), CancellationToken::new());
    let waiters = Arc::new(Waiters::default());
    let republish_after = ms(config.reconciler.republish_after_ms);
    let app = App {
        accepter: Accepter::start(store.clone(), publisher.clone(), republish_after, tasks.clone()),
        gate: Arc::new(Gate::new(&config, &contracts)),
        keys: Arc::new(Keys::new(ms(config.api.key_cache_ms))),
        waiters: Arc::clone(&waiters),
        store: store.clone(),
        publisher: publisher.clone(),
        tasks: tasks.clone(),
        contracts,
        config: Arc::clone(&config),
    };
    let health = (store.clone(), publisher.clone());
    let look = move || -> std::pin::Pin<Box<dyn Future<Output = Readiness> + Send>> { Box::pin(ready(health.clone())) };
    services.spawn(admin::serve(admin_listener, rendered, look, closed.clone()));
    services.spawn(Arc::clone(&waiters).run(store));
    let served = tokio::spawn(server::serve(
        listener,
        routes::router(app),
        ms(config.api.header_timeout_ms),
        stop.clone(),
    ));
    tracing::info!(%listen, %admin, "listening");

    stopped().await?;
    tracing::info!("stopping: open requests are finished");
    waiters.stop.cancel();
    stop.cancel();
    served.await?;
    tasks.close();
    if tokio::time::timeout(LAST_MESSAGES, tasks.wait()).await.is_err() {
        tracing::warn!("messages were not confirmed in time; the relay publishes them");
    }
    closed.cancel();
    services.close();
    services.wait().await;
    publisher.close().await;
    tracing::info!("stopped");
    Ok(())
}

async fn bind(address: SocketAddr, option: &str) -> Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen at {address}; name another address with {option}"))
}

async fn ready((store, publisher): (Store, Publisher)) -> Readiness {
    let database = match store.ping(PING).await {
        Ok(()) => Check::required("postgresql", true, "answers"),
        Err(error) => Check::required("postgresql", false, error.to_string()),
    };
    let state = publisher.state();
    let detail = state
        .reason
        .unwrap_or_else(|| format!("{:?}", state.link).to_lowercase());
    vec![
        database,
        Check::optional("rabbitmq", state.link == Link::Connected, detail),
    ]
}

async fn stopped() -> Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

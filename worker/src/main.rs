//! `onejob-worker`: see [`onejob_worker`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use onejob_common::broker::{Broker, Consumers, Publisher, Subscription, Topology, UNKNOWN_QUEUE, attempts_queue};
use onejob_common::clock;
use onejob_common::config::{Config, ms};
use onejob_common::contract::Contracts;
use onejob_common::domain::ProviderName;
use onejob_common::store::Store;
use onejob_common::store::certificate::Gate;
use onejob_common::store::worker::WorkerProcess;
use onejob_common::telemetry::{admin, log, metrics};
use onejob_worker::pipeline::{Parts, Pipeline, Route};
use onejob_worker::process::{Health, heartbeat};
use onejob_worker::provider;
use onejob_worker::reconcile::{Reconciler, keep_gauges, watch_dead_letters};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long writes are still tried after the drain time, before the process ends all the same.
const LAST_WRITES: Duration = Duration::from_secs(10);
/// Dead letters that are looked at together.
const DEAD_LETTERS: u16 = 100;

/// Calls providers for queued attempts and settles them; in the reconciler role, puts right what was left.
///
/// It needs DATABASE_URL and AMQP_URL. It starts while they are away, and is ready (GET /readyz on the admin address)
/// once they are there. SIGTERM stops it: it takes nothing more, finishes what is in flight up to drain_ms of the
/// configuration, marks the rest unknown, and exits with status 0.
#[derive(Debug, Parser)]
#[command(name = "onejob-worker", version, about, long_about)]
struct Args {
    /// The configuration
    #[arg(long, env = "ONEJOB_CONFIG", default_value = "onejob.toml", value_name = "FILE")]
    config: PathBuf,
    /// What this process does; repeat it for several [default: both]
    #[arg(long, value_enum, value_name = "ROLE")]
    role: Vec<Role>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Calls providers
    Attempts,
    /// Publishes what was not confirmed, looks for dead workers, deadlines and hedges. Run at least one
    Reconciler,
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
    let config = Config::load(&args.config)?;
    let contracts = Arc::new(Contracts::load(&config.contracts.dir)?);
    let calls = args.role.is_empty() || args.role.contains(&Role::Attempts);
    let reconciles = args.role.is_empty() || args.role.contains(&Role::Reconciler);
    let role = match (calls, reconciles) {
        (true, false) => "attempts",
        (false, _) => "reconciler",
        (true, true) => "attempts,reconciler",
    };
    provider::install_tls();
    let names: Vec<ProviderName> = config.providers.keys().cloned().collect();
    let kinds = if reconciles {
        metrics::Process::Reconciler
    } else {
        metrics::Process::Worker
    };
    let rendered = metrics::install(
        kinds,
        &names,
        &contracts.iter().map(|c| c.name().clone()).collect::<Vec<_>>(),
    )?;
    let store = Store::new(&args.database_url, &config.database, "onejob-worker")?;
    let broker = Broker::new(&args.amqp_url, "onejob-worker", &config.broker)?;
    let topology = Topology::new(config.providers.keys());
    let publisher = Publisher::start(&broker, topology.clone())?;
    let gate = Gate::new(&config, &contracts);
    let worker = WorkerProcess {
        id: clock::new_id(),
        role: role.to_owned(),
        host: hostname(),
        pid: i32::try_from(std::process::id()).unwrap_or_default(),
    };

    let mut routes = BTreeMap::new();
    let mut subscriptions = Vec::new();
    for (name, provider) in config
        .consumed()
        .filter(|(_, provider)| calls && provider.adapter.is_built())
    {
        let adapter = provider::build(name, provider).with_context(|| format!("[providers.{name}]"))?;
        routes.insert(
            name.clone(),
            Route {
                config: provider.clone(),
                provider: adapter,
            },
        );
        subscriptions.push(Subscription {
            queue: attempts_queue(name),
            prefetch: provider.concurrency,
        });
    }
    if reconciles {
        subscriptions.push(Subscription {
            queue: UNKNOWN_QUEUE.to_owned(),
            prefetch: DEAD_LETTERS,
        });
    }
    let (consumers, mut queues) = Consumers::start(&broker, topology, subscriptions);
    let consumers = Arc::new(tokio::sync::RwLock::new(Some(consumers)));

    // The order of stopping: `stop` (nothing new), `end` (the last writes are done), `closed` (heartbeat, admin).
    let (stop, closed) = (CancellationToken::new(), CancellationToken::new());
    let (attempts, watches, services) = (TaskTracker::new(), TaskTracker::new(), TaskTracker::new());

    let health = Health {
        store: store.clone(),
        publisher: publisher.clone(),
        consumers: Arc::clone(&consumers),
    };
    let admin_listen = args.admin_listen.unwrap_or(config.worker.admin_listen);
    let listener = tokio::net::TcpListener::bind(admin_listen)
        .await
        .with_context(|| format!("cannot listen at {admin_listen}; name another address with --admin-listen"))?;
    let admin = listener.local_addr()?;
    services.spawn(admin::serve(
        listener,
        rendered,
        move || Box::pin(health.clone().look()),
        closed.clone(),
    ));
    let beat = ms(config.worker.heartbeat_ms);
    services.spawn(heartbeat(store.clone(), worker.clone(), beat, closed.clone()));

    if reconciles {
        let reconciler = Arc::new(Reconciler {
            store: store.clone(),
            publisher: publisher.clone(),
            gate: gate.clone(),
            limits: config
                .providers
                .iter()
                .map(|(name, p)| (name.clone(), ms(p.timeout_ms)))
                .collect(),
            config: config.reconciler.clone(),
            worker: config.worker.clone(),
        });
        watches.spawn(Arc::clone(&reconciler).run(stop.clone()));
        watches.spawn(keep_gauges(
            Arc::clone(&reconciler),
            Arc::clone(&contracts),
            stop.clone(),
        ));
        if let Some(dead_letters) = queues.pop() {
            watches.spawn(watch_dead_letters(reconciler, dead_letters, stop.clone()));
        }
    }
    let pipeline = Pipeline::new(Parts {
        store,
        publisher: publisher.clone(),
        contracts,
        gate,
        routes,
        worker: worker.id,
        config: config.worker.clone(),
        grace: ms(config.reconciler.call_grace_ms),
    });
    for queue in queues {
        watches.spawn(Arc::clone(&pipeline).consume(queue, attempts.clone()));
    }
    tracing::info!(%admin, role, worker_id = %worker.id, "listening");

    stopped().await?;
    tracing::info!(in_flight = pipeline.in_flight(), "stopping: nothing more is taken");
    stop.cancel();
    pipeline.stop.cancel();
    let taken = consumers.write().await.take();
    let channels = match taken {
        Some(consumers) => Some(consumers.stop().await),
        None => None,
    };
    watches.close();
    watches.wait().await;
    drain(&pipeline, &attempts, ms(config.worker.drain_ms)).await;
    if let Some(channels) = channels {
        channels.close().await;
    }
    closed.cancel();
    services.close();
    services.wait().await;
    publisher.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Waits for what is in flight; past the drain time it becomes unknown, and past [`LAST_WRITES`] even that is given up.
async fn drain(pipeline: &Pipeline, attempts: &TaskTracker, limit: Duration) {
    attempts.close();
    if tokio::time::timeout(limit, attempts.wait()).await.is_ok() {
        return;
    }
    tracing::warn!(
        in_flight = pipeline.in_flight(),
        "the drain time is over: what is still in flight becomes unknown"
    );
    pipeline.drained.cancel();
    if tokio::time::timeout(LAST_WRITES, attempts.wait()).await.is_err() {
        pipeline.end.cancel();
        drop(tokio::time::timeout(Duration::from_secs(1), attempts.wait()).await);
    }
}

async fn stopped() -> Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

//! The process: its heartbeat, what readiness asks, and the order of stopping.
//!
//! Stopping: stop consuming, hand back what was not claimed, finish what is in flight up to the drain time, mark the rest
//! unknown, ack, stop the heartbeat, close. The heartbeat goes on until the last attempt is settled: else others would
//! take it for dead while it is still at work.

use std::sync::Arc;
use std::time::Duration;

use onejob_common::broker::{Consumers, Link, Publisher};
use onejob_common::store::Store;
use onejob_common::store::worker::WorkerProcess;
use onejob_common::telemetry::admin::{Check, Readiness};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// The limit of readiness's own question to the database.
const PING: Duration = Duration::from_secs(1);

/// Says every `every` that the process lives, until `stop`; then that it has ended.
pub async fn heartbeat(store: Store, worker: WorkerProcess, every: Duration, stop: CancellationToken) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => break,
        }
        match tokio::time::timeout(every.max(PING), store.heartbeat(&worker)).await {
            Ok(Ok(())) => {
                if failing {
                    tracing::info!("the heartbeat is stored again");
                }
                failing = false;
            }
            Ok(Err(error)) => {
                if !failing {
                    tracing::warn!(%error, "the heartbeat could not be stored; others may take this process for dead");
                }
                failing = true;
            }
            Err(_elapsed) => {
                if !failing {
                    tracing::warn!("the heartbeat was not stored in time; others may take this process for dead");
                }
                failing = true;
            }
        }
    }
    if let Ok(Err(error)) = tokio::time::timeout(PING, store.stopped(worker.id)).await {
        tracing::warn!(%error, "the end of the process could not be stored; it counts as dead a little later");
    }
}

/// What readiness looks at.
#[derive(Clone)]
pub struct Health {
    /// PostgreSQL.
    pub store: Store,
    /// Publishing.
    pub publisher: Publisher,
    /// Consuming.
    pub consumers: Arc<tokio::sync::RwLock<Option<Consumers>>>,
}

impl Health {
    /// Whether the process can do its work now.
    pub async fn look(self) -> Readiness {
        let database = match self.store.ping(PING).await {
            Ok(()) => Check::required("postgresql", true, "answers"),
            Err(error) => Check::required("postgresql", false, error.to_string()),
        };
        let (consuming, detail) = match self.consumers.read().await.as_ref() {
            Some(consumers) => (
                consumers.is_ready(),
                format!("{:?}", consumers.state().link).to_lowercase(),
            ),
            None => (false, "stopped".to_owned()),
        };
        let link = self.publisher.state();
        let said = link.reason.unwrap_or_else(|| format!("{:?}", link.link).to_lowercase());
        vec![
            database,
            Check::required("rabbitmq-consuming", consuming, detail),
            Check::optional("rabbitmq-publishing", link.link == Link::Connected, said),
        ]
    }
}

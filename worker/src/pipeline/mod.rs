//! The pipeline: one task an attempt, from the delivery to its ack.
//!
//! ```text
//! delivery ─► claim (commit) ─► render ─► call ─► check ─► settle (commit) ─► ack
//!                │                         │        └ broken ─► failed (commit) ─► ack
//!                │                         └ nothing certain ─► unknown (commit) ─► reject ─► onejob.unknown
//!                └ not ours to call ─► ack, or reject where its worker is dead
//! ```
//!
//! No connection to the database is held across the call: each write borrows one and gives it back. Acks are late: what a
//! delivery asked for is in PostgreSQL before the broker forgets it.

mod attempt;
mod outcome;
pub mod writers;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use onejob_common::broker::{Deliveries, Delivery, Publisher, Unreadable};
use onejob_common::config::{ProviderConfig, WorkerConfig, ms};
use onejob_common::contract::Contracts;
use onejob_common::domain::{AttemptId, ProviderName};
use onejob_common::retry::Retry;
use onejob_common::store::Store;
use onejob_common::store::certificate::Gate;
use onejob_common::telemetry::metrics;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::provider::Provider;
use writers::Writers;

/// Deliveries that are taken from the broker's client at a time.
const TAKEN: usize = 64;

/// A provider as the pipeline needs it.
pub struct Route {
    /// What the configuration says of it.
    pub config: ProviderConfig,
    /// The adapter.
    pub provider: Arc<dyn Provider>,
}

/// What every attempt of this process needs.
pub struct Pipeline {
    /// The record.
    pub store: Store,
    /// The grouped writes.
    pub writers: Writers,
    /// For what may not be delivered again.
    pub publisher: Publisher,
    /// What answers must keep.
    pub contracts: Arc<Contracts>,
    /// Who may take over.
    pub gate: Gate,
    /// Who is called, by name.
    pub routes: BTreeMap<ProviderName, Route>,
    /// This process.
    pub worker: Uuid,
    /// Limits.
    pub config: WorkerConfig,
    /// Nothing new is begun.
    pub stop: CancellationToken,
    /// What is in flight is given up.
    pub drained: CancellationToken,
    /// Writes are given up too: the process ends.
    pub end: CancellationToken,
    in_flight: Mutex<HashSet<AttemptId>>,
}

/// What is put together into a pipeline.
pub struct Parts {
    /// The record.
    pub store: Store,
    /// For what may not be delivered again.
    pub publisher: Publisher,
    /// What answers must keep.
    pub contracts: Arc<Contracts>,
    /// Who may take over.
    pub gate: Gate,
    /// Who is called, by name.
    pub routes: BTreeMap<ProviderName, Route>,
    /// This process.
    pub worker: Uuid,
    /// Limits.
    pub config: WorkerConfig,
    /// How long past its limit a call of a living worker is left alone.
    pub grace: Duration,
}

impl Pipeline {
    /// Puts a pipeline together, and starts its writers.
    #[must_use]
    pub fn new(parts: Parts) -> Arc<Self> {
        let Parts {
            store,
            publisher,
            contracts,
            gate,
            routes,
            worker,
            config,
            grace,
        } = parts;
        Arc::new(Self {
            writers: Writers::start(&store, worker, grace, ms(config.dead_after_ms)),
            store,
            publisher,
            contracts,
            gate,
            routes,
            worker,
            config,
            stop: CancellationToken::new(),
            drained: CancellationToken::new(),
            end: CancellationToken::new(),
            in_flight: Mutex::default(),
        })
    }

    /// Works through one queue until its consumers are stopped. What is in flight then goes on in `tasks`.
    pub async fn consume(self: Arc<Self>, mut deliveries: Deliveries, tasks: TaskTracker) {
        loop {
            let taken = deliveries.next_many(TAKEN).await;
            if taken.is_empty() {
                return;
            }
            for delivery in taken {
                let pipeline = Arc::clone(&self);
                tasks.spawn(async move { pipeline.deliver(delivery).await });
            }
        }
    }

    /// How many attempts this process works on.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.held().len()
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashSet<AttemptId>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn deliver(&self, delivery: Delivery) {
        let message = match &delivery.message {
            Ok(message) => message.clone(),
            Err(unreadable) => {
                let reason = unreadable.clone();
                park(&self.publisher, delivery, &reason, &self.stop).await;
                return;
            }
        };
        // A second delivery of what this process is working on. The first one has it.
        let Some(_held) = Held::new(self, message.attempt) else {
            metrics::duplicate_suppressed(metrics::Layer::Worker);
            tracing::info!(attempt_id = %message.attempt, redelivered = delivery.redelivered, "a second message for an attempt in flight was dropped");
            delivery.acker.ack().await;
            return;
        };
        self.attempt(message.attempt, delivery.acker, delivery.redelivered)
            .await;
    }
}

/// Publishes what can't be read to `onejob.poison`, confirmed, and only then acks it.
pub async fn park(publisher: &Publisher, delivery: Delivery, why: &Unreadable, stop: &CancellationToken) {
    let reason = why.to_string();
    let mut retry = Retry::new();
    loop {
        match publisher.publish_poison(&delivery.raw, &reason).await {
            Ok(()) => break,
            Err(error) => tracing::warn!(%error, "a message that can't be read could not be parked yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(retry.delay()) => {}
            () = stop.cancelled() => {
                delivery.acker.hand_back().await;
                return;
            }
        }
    }
    tracing::error!(reason, "a message that can't be read was parked in onejob.poison");
    metrics::message_poisoned();
    delivery.acker.ack().await;
}

/// Marks an attempt as being worked on by this process, while it lives.
struct Held<'a> {
    pipeline: &'a Pipeline,
    attempt: AttemptId,
}

impl<'a> Held<'a> {
    fn new(pipeline: &'a Pipeline, attempt: AttemptId) -> Option<Self> {
        // Only then is there something to drop: a mark that was never made would take the other delivery's away.
        let is_new = pipeline.held().insert(attempt);
        is_new.then(|| Self { pipeline, attempt })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.pipeline.held().remove(&self.attempt);
    }
}

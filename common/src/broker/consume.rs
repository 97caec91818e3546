//! Consuming: one connection a process, one channel a queue, kept alive until told to stop.
//!
//! The tasks that keep them are in [`supervise`](super::supervise). A worker reads [`Deliveries`] until they end:
//!
//! ```text
//! start ──► deliveries … ──► stop: cancel, hand back what was not taken, deliveries end
//!                              └► finish what is in flight, ack it (the channels are still open) ──► close
//! ```
//!
//! The prefetch of a queue is the limit of what is in flight from it: a delivery counts until it is answered. What was
//! taken before a channel died is worked on to its end; its late ack is dropped ([`Acked::Gone`](super::Acked::Gone)),
//! and the message comes again, which the attempt's state makes harmless.

use std::sync::Arc;

use lapin::{Channel, Connection};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::acker::Acker;
use super::connection::{Broker, BrokerState, Link};
use super::message::{AttemptMessage, Raw, Unreadable};
use super::supervise::{QueueTask, keep_connected};
use super::topology::Topology;

/// A queue to be consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its name.
    pub queue: String,
    /// How many deliveries may be in flight at a time, unanswered; 0 counts as 1, since AMQP means no limit by it.
    pub prefetch: u16,
}

/// A message from a queue.
#[derive(Debug)]
pub struct Delivery {
    /// What it says, or why it can't be read.
    pub message: Result<AttemptMessage, Unreadable>,
    /// The message as it came, headers and all.
    pub raw: Raw,
    /// True if it was delivered before, to anyone: it may have been begun. False promises nothing.
    pub redelivered: bool,
    /// Answers it.
    pub acker: Acker,
}

/// What the tasks of one process share.
pub(super) struct Shared {
    pub(super) broker: Broker,
    pub(super) topology: Topology,
    /// The connection, while there is one.
    pub(super) connection: watch::Sender<Option<Arc<Connection>>>,
    /// How many queues have a consumer now.
    pub(super) live: watch::Sender<usize>,
    pub(super) state: watch::Sender<BrokerState>,
    /// No more deliveries are wanted.
    pub(super) stop: CancellationToken,
    /// The channels are no longer needed either.
    pub(super) closing: CancellationToken,
}

/// The deliveries of one queue.
#[derive(Debug)]
pub struct Deliveries {
    queue: String,
    from: mpsc::Receiver<Delivery>,
    stop: CancellationToken,
}

impl Deliveries {
    /// The queue's name.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The next delivery; none once the consumers were stopped. What had come by then and was not taken is handed back
    /// here, so read to the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.next_many(1).await.pop()
    }

    /// What is there, at most `most` and at least one; nothing once the consumers were stopped. Cancel-safe.
    pub async fn next_many(&mut self, most: usize) -> Vec<Delivery> {
        let mut taken = Vec::new();
        while !self.stop.is_cancelled() {
            let came = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                came = self.from.recv_many(&mut taken, most.max(1)) => came,
            };
            // Its channel died while it waited here: the broker delivers it again.
            taken.retain(|delivery| delivery.acker.usable());
            if came == 0 || !taken.is_empty() {
                return taken;
            }
        }
        self.from.close();
        while let Some(delivery) = self.from.recv().await {
            delivery.acker.hand_back().await;
        }
        Vec::new()
    }
}

/// The consumers of a process. Dropping them ends everything without a goodbye; the broker delivers again.
pub struct Consumers {
    shared: Arc<Shared>,
    queues: usize,
    /// Each ends with its channel, which is kept so that what is in flight can still be acked.
    tasks: Vec<JoinHandle<Option<Channel>>>,
    connection: JoinHandle<()>,
}

impl std::fmt::Debug for Consumers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumers")
            .field("state", &self.state())
            .field("live", &*self.shared.live.borrow())
            .field("queues", &self.queues)
            .finish_non_exhaustive()
    }
}

impl Consumers {
    /// Starts consuming; the [`Deliveries`] are in the order of `subscriptions`. Must be called in a tokio runtime;
    /// returns before the first connection stands. `topology` is declared on every new connection, and again when a
    /// queue is gone.
    #[must_use]
    pub fn start(broker: &Broker, topology: Topology, subscriptions: Vec<Subscription>) -> (Self, Vec<Deliveries>) {
        let shared = Arc::new(Shared {
            broker: broker.clone(),
            topology,
            connection: watch::Sender::new(None),
            live: watch::Sender::new(0),
            state: watch::Sender::new(BrokerState::new(Link::Connecting, None)),
            stop: CancellationToken::new(),
            closing: CancellationToken::new(),
        });
        let mut all = Vec::with_capacity(subscriptions.len());
        let mut tasks = Vec::with_capacity(subscriptions.len());
        for Subscription { queue, prefetch } in subscriptions {
            let prefetch = prefetch.max(1);
            let (to, from) = mpsc::channel(usize::from(prefetch));
            let task = QueueTask {
                shared: shared.clone(),
                queue: queue.clone(),
                prefetch,
                to,
            };
            tasks.push(tokio::spawn(task.run()));
            all.push(Deliveries {
                queue,
                from,
                stop: shared.stop.clone(),
            });
        }
        let connection = tokio::spawn(keep_connected(shared.clone()));
        let consumers = Self {
            shared,
            queues: all.len(),
            tasks,
            connection,
        };
        (consumers, all)
    }

    /// True while every queue has its consumer: the worker's readiness.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self.shared.live.borrow() == self.queues
    }

    /// Waits until [`is_ready`](Self::is_ready) is `ready`; for ever if that never is.
    pub async fn wait_ready(&self, ready: bool) {
        let mut live = self.shared.live.subscribe();
        // The sender lives as long as `self`, so that the wait can't fail.
        drop(live.wait_for(|live| (*live == self.queues) == ready).await);
    }

    /// What the consuming connection is like now.
    #[must_use]
    pub fn state(&self) -> BrokerState {
        self.shared.state.borrow().clone()
    }

    /// Stops consuming: cancels every consumer and hands back, untouched, what no one has taken. Deliveries in flight
    /// can still be answered. Ends within a few limits, whatever the broker does.
    pub async fn stop(self) -> Stopped {
        self.shared.stop.cancel();
        let mut this = self;
        let mut channels = Vec::new();
        for task in std::mem::take(&mut this.tasks) {
            channels.extend(task.await.ok().flatten());
        }
        Stopped {
            consumers: this,
            channels,
        }
    }
}

impl Drop for Consumers {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.shared.closing.cancel();
    }
}

/// Consumers that take nothing more; their channels are open until [`close`](Self::close).
#[derive(Debug)]
pub struct Stopped {
    consumers: Consumers,
    channels: Vec<Channel>,
}

impl Stopped {
    /// Closes channels and connection, after everything in flight was answered. What was not is delivered again.
    pub async fn close(mut self) {
        let broker = self.consumers.shared.broker.clone();
        for channel in self.channels.drain(..) {
            // Its answer comes after all acks that were sent before it.
            if let Err(error) = broker
                .within("the end of a channel", channel.close(200, "OK".into()))
                .await
            {
                tracing::debug!(%error, "a channel was not closed cleanly");
            }
        }
        let connection = self.consumers.shared.connection.borrow().clone();
        if let Some(connection) = connection {
            broker.close(&connection).await;
        }
        self.consumers.shared.closing.cancel();
        if let Err(error) = (&mut self.consumers.connection).await {
            tracing::error!(%error, "the task of the consuming connection ended badly");
        }
    }
}

//! Publishing: mandatory, confirmed, in groups.
//!
//! Callers put messages into one queue. The lanes (confirm channels, see [`lane`](super::lane)) take what has gathered,
//! publish it in one go and wait for all its confirms, so that a single message waits for one round trip and a
//! thousand share a few. A message counts as published only if the broker acked it *and* did not return it.
//!
//! Nothing waits for a broker that is known to be away: while there is no connection, or while it is blocked, a publish
//! fails at once. The attempt is in PostgreSQL, and the relay publishes it later. An error does not say that the
//! message is not there: it may have arrived. Publishing it again is harmless, since an attempt is claimed once.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use lapin::BasicProperties;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Broker, BrokerError, BrokerState, Link};
use super::link::Supervisor;
use super::message::{Outgoing, Raw};
use super::topology::{ATTEMPTS_EXCHANGE, DEAD_EXCHANGE, POISON_QUEUE, Topology};

/// The most messages that a lane publishes in one go.
pub(super) const BATCH: usize = 256;

/// Why a message does not count as published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// No queue took it. The broker acks such a message all the same, after returning it.
    #[error(
        "no queue took the message for exchange {exchange} and key {routing_key}; it is declared again, and the message published again later"
    )]
    Unroutable {
        /// Where it was published to.
        exchange: String,
        /// With which key.
        routing_key: String,
    },
    /// The broker could not keep it, or the queue is full.
    #[error(
        "RabbitMQ refused to keep the message (nack): the queue is at its length limit, or a quorum of its nodes is down"
    )]
    Nack,
    /// No answer within the limit: it may have arrived.
    #[error("RabbitMQ did not confirm the message within {} ms; look at its log and its load", limit.as_millis())]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// There is no connection, or it ended before the confirm: it may have arrived.
    #[error("not connected to RabbitMQ: {reason}; the connection is rebuilt, and the message published again later")]
    Disconnected {
        /// What the client or the broker said.
        reason: String,
    },
    /// The broker takes no messages at present.
    #[error("RabbitMQ takes no messages ({reason}); free memory or disk on its node: the message is published later")]
    Blocked {
        /// What the broker said.
        reason: String,
    },
}

/// Where the message goes, and what it is.
pub(super) struct Parcel {
    pub(super) exchange: &'static str,
    pub(super) routing_key: String,
    pub(super) properties: BasicProperties,
    pub(super) body: Vec<u8>,
}

/// A message, and who waits for its fate.
pub(super) struct Request {
    pub(super) parcel: Parcel,
    pub(super) answer: oneshot::Sender<Result<(), PublishError>>,
}

/// What callers and supervisors share.
pub(super) struct Shared {
    /// Taken from by every lane of every connection.
    pub(super) requests: Mutex<mpsc::Receiver<Request>>,
    /// One a connection.
    pub(super) links: Vec<watch::Sender<BrokerState>>,
    pub(super) closing: CancellationToken,
}

impl Shared {
    /// The best that any connection can do: one that works is enough to publish.
    pub(super) fn state(&self) -> BrokerState {
        let rank = |state: &BrokerState| match state.link {
            Link::Connected => 0,
            Link::Connecting => 1,
            Link::Blocked => 2,
            Link::Disconnected => 3,
        };
        let states = self.links.iter().map(|link| link.borrow().clone());
        states
            .min_by_key(rank)
            .unwrap_or_else(|| BrokerState::new(Link::Disconnected, Some("no connection is configured".into())))
    }

    /// Why nothing can be published now, if so.
    pub(super) fn refusal(&self) -> Option<PublishError> {
        let BrokerState { link, reason, .. } = self.state();
        let reason = reason.unwrap_or_default();
        match link {
            Link::Connected | Link::Connecting => None,
            Link::Blocked => Some(PublishError::Blocked { reason }),
            Link::Disconnected => Some(PublishError::Disconnected { reason }),
        }
    }
}

/// Publishes. Cheap to clone; every clone uses the same connections, which end when the last clone is gone.
#[derive(Clone)]
pub struct Publisher {
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
    supervisors: TaskTracker,
    limit: Duration,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Publisher {
    /// Starts the tasks that keep the connections, and declare `topology` on each new one. Must be called in a tokio
    /// runtime; returns before the first connection stands.
    ///
    /// # Errors
    ///
    /// Only if the configuration of the pool is impossible. A broker that is away is not an error.
    pub fn start(broker: &Broker, topology: Topology) -> Result<Self, BrokerError> {
        let pool = broker.pool()?;
        let lanes = broker.publish_connections * broker.channels_per_connection;
        // Room for one full round of every lane, and the next one gathering.
        let (requests, receiver) = mpsc::channel(2 * BATCH * lanes.max(1));
        let links =
            (0..broker.publish_connections).map(|_| watch::Sender::new(BrokerState::new(Link::Connecting, None)));
        let shared = Arc::new(Shared {
            requests: Mutex::new(receiver),
            links: links.collect(),
            closing: CancellationToken::new(),
        });
        let supervisors = TaskTracker::new();
        let topology = Arc::new(topology);
        for index in 0..broker.publish_connections {
            let supervisor = Supervisor::new(broker, &pool, &topology, &shared, index);
            supervisors.spawn(supervisor.run());
        }
        supervisors.close();
        Ok(Self {
            requests,
            shared,
            supervisors,
            limit: broker.limit,
        })
    }

    /// Publishes one attempt and waits for its confirm, not longer than the configured limit.
    ///
    /// # Errors
    ///
    /// Why it does not count as published. It may have arrived all the same; publishing it again is harmless.
    pub async fn publish(&self, message: &Outgoing) -> Result<(), PublishError> {
        self.deliver(attempt(message), Instant::now() + self.limit).await
    }

    /// Publishes many attempts together; the answers are in their order. All of it ends within the configured limit.
    pub async fn publish_all(&self, messages: &[Outgoing]) -> Vec<Result<(), PublishError>> {
        let deadline = Instant::now() + self.limit;
        join_all(messages.iter().map(|message| self.deliver(attempt(message), deadline))).await
    }

    /// Parks a message in `onejob.poison` with its reason in the header [`REASON_HEADER`](super::REASON_HEADER). Only
    /// once this is `Ok` may the original be acked.
    ///
    /// # Errors
    ///
    /// Why it does not count as parked: leave the original unacked, or hand it back.
    pub async fn publish_poison(&self, raw: &Raw, reason: &str) -> Result<(), PublishError> {
        let parcel = Parcel {
            exchange: DEAD_EXCHANGE,
            routing_key: POISON_QUEUE.into(),
            properties: raw.parked(reason),
            body: raw.body.clone(),
        };
        self.deliver(parcel, Instant::now() + self.limit).await
    }

    async fn deliver(&self, parcel: Parcel, deadline: Instant) -> Result<(), PublishError> {
        if let Some(refusal) = self.shared.refusal() {
            return Err(refusal);
        }
        let closed = || PublishError::Disconnected {
            reason: "the publisher is closed".into(),
        };
        let (answer, answered) = oneshot::channel();
        let delivered = async {
            let request = Request { parcel, answer };
            self.requests.send(request).await.map_err(|_| closed())?;
            answered.await.map_err(|_| closed())?
        };
        // A request that nobody waits for any more is left out by the lane that finds it.
        match timeout_at(deadline, delivered).await {
            Ok(outcome) => outcome,
            Err(_) => Err(PublishError::Timeout { limit: self.limit }),
        }
    }

    /// What publishing is like now.
    #[must_use]
    pub fn state(&self) -> BrokerState {
        self.shared.state()
    }

    /// Waits until publishing is possible; for ever if it never is.
    pub async fn connected(&self) {
        let waits = self.shared.links.iter().map(|link| {
            let mut link = link.subscribe();
            Box::pin(async move { link.wait_for(|state| state.link == Link::Connected).await.map(drop) })
        });
        // The senders live as long as `self`, so that a wait can't fail.
        drop(futures::future::select_all(waits).await.0);
    }

    /// Takes nothing more, publishes what has been taken, and closes the connections; every step has a limit.
    pub async fn close(&self) {
        self.shared.closing.cancel();
        self.supervisors.wait().await;
    }
}

fn attempt(message: &Outgoing) -> Parcel {
    let (properties, body) = message.encode();
    Parcel {
        exchange: ATTEMPTS_EXCHANGE,
        routing_key: message.provider.to_string(),
        properties,
        body,
    }
}

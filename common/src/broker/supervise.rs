//! The tasks that keep the consuming connection and its consumers alive.
//!
//! Hazards:
//! - lapin's stream of deliveries ends with an error and then `None` when channel or connection die, and with a bare
//!   `None` when the broker cancels the consumer (queue deleted, consumer time-out from RabbitMQ 4.3). Both are
//!   failures; only our own cancel is an end.
//! - A new consumer always gets a new channel, with its QoS before it: tags of the old one can't be mistaken for its own.
//! - After our cancel, deliveries that were under way still come, before the end of the stream. They are handed back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, Consumer, Event};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep, timeout};

use super::acker::Acker;
use super::connection::{BrokerError, BrokerState, Link};
use super::consume::{Delivery, Shared};
use super::message::{AttemptMessage, Raw};
use crate::retry::Retry;

/// How often the connection's own word is asked, beside its events.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps the connection until it is no longer needed.
pub(super) async fn keep_connected(shared: Arc<Shared>) {
    let mut retry = Retry::new();
    loop {
        let connected = tokio::select! {
            biased;
            // No reconnecting once it is stopped: what is in flight can't be acked on another connection.
            () = shared.stop.cancelled() => return,
            connected = connect(&shared) => connected,
        };
        let lost = match connected {
            Ok(connection) => {
                tracing::info!(address = %shared.broker.address(), "consuming connection is up");
                retry.reset();
                let connection = Arc::new(connection);
                shared.state.send_replace(BrokerState::new(Link::Connected, None));
                shared.connection.send_replace(Some(connection.clone()));
                let lost = tokio::select! {
                    biased;
                    () = shared.closing.cancelled() => None,
                    lost = end_of(&connection, &shared) => Some(lost),
                };
                shared.connection.send_replace(None);
                let Some(lost) = lost else { return };
                lost
            }
            Err(error) => error.to_string(),
        };
        tracing::warn!(reason = %lost, "consuming connection is down; it is rebuilt");
        shared
            .state
            .send_replace(BrokerState::new(Link::Disconnected, Some(lost)));
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = sleep(retry.delay()) => {}
        }
    }
}

async fn connect(shared: &Shared) -> Result<Connection, BrokerError> {
    let broker = &shared.broker;
    let connection = broker.connect("consume").await?;
    let channel = broker.within("a new channel", connection.create_channel()).await?;
    // Unlike a publisher, a worker must not go on with other queues than those it knows: without their dead-letter
    // exchange, what it rejects would be dropped.
    shared.topology.declare(&channel, broker.limit).await?;
    Ok(connection)
}

/// Waits for the end of a connection, and says why.
async fn end_of(connection: &Connection, shared: &Shared) -> String {
    let mut events = std::pin::pin!(connection.events_listener());
    let mut look = interval(LOOK);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Event::Error(error)) if !connection.status().connected() => return error.to_string(),
                // Not expected on a connection that publishes nothing; acks would be held back.
                Some(Event::ConnectionBlocked(reason)) => {
                    shared.state.send_replace(BrokerState::new(Link::Blocked, Some(reason)));
                }
                Some(Event::ConnectionUnblocked) => {
                    shared.state.send_replace(BrokerState::new(Link::Connected, None));
                }
                Some(_) => {}
                None => return "its events ended".into(),
            },
            _ = look.tick() => if !connection.status().connected() {
                return "it was closed".into();
            },
        }
    }
}

/// Keeps the consumer of one queue.
pub(super) struct QueueTask {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: String,
    pub(super) prefetch: u16,
    pub(super) to: mpsc::Sender<Delivery>,
}

/// Counts a consumer as live while it is held.
struct Live<'a>(&'a Shared);

impl<'a> Live<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.live.send_modify(|live| *live += 1);
        Self(shared)
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.0.live.send_modify(|live| *live -= 1);
    }
}

/// Makes the ackers of a channel useless when the channel is given up, unless it was kept.
struct Alive(Arc<AtomicBool>, bool);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Release);
    }
}

impl QueueTask {
    /// Consumes until it is stopped; then gives the channel, on which what is in flight may still be acked.
    pub(super) async fn run(self) -> Option<Channel> {
        let mut connections = self.shared.connection.subscribe();
        let mut used: Option<Arc<Connection>> = None;
        let mut retry = Retry::new();
        loop {
            let connection = tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return None,
                connection = connections.wait_for(|c| c.as_ref().is_some_and(|c| c.status().connected())) => {
                    connection.ok()?.clone()?
                }
            };
            // The connection's task has declared everything; a second consumer on it means that something went.
            let again = used.as_ref().is_some_and(|used| Arc::ptr_eq(used, &connection));
            let opened = tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return None,
                opened = self.open(&connection, again) => opened,
            };
            let lost = match opened {
                Ok((channel, consumer)) => {
                    tracing::info!(queue = %self.queue, prefetch = self.prefetch, "consuming");
                    retry.reset();
                    match self.forward(&channel, consumer).await {
                        None => return Some(channel),
                        Some(lost) => lost,
                    }
                }
                Err(error) => error.to_string(),
            };
            used = Some(connection);
            tracing::warn!(queue = %self.queue, reason = %lost, "the consumer is gone; it is rebuilt");
            tokio::select! {
                () = self.shared.stop.cancelled() => return None,
                () = sleep(retry.delay()) => {}
            }
        }
    }

    async fn open(&self, connection: &Connection, declare: bool) -> Result<(Channel, Consumer), BrokerError> {
        let broker = &self.shared.broker;
        let channel = broker.within("a new channel", connection.create_channel()).await?;
        if declare {
            self.shared.topology.declare(&channel, broker.limit).await?;
        }
        // Before the consumer: what is delivered before a limit is set has none.
        let qos = channel.basic_qos(self.prefetch, BasicQosOptions { global: false });
        broker.within("the prefetch", qos).await?;
        // An empty tag: the broker makes one that is unique.
        let consume = channel.basic_consume(
            self.queue.as_str().into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = broker.within("a new consumer", consume).await?;
        Ok((channel, consumer))
    }

    /// Passes deliveries on. None: it was stopped. Else why the consumer is gone.
    async fn forward(&self, channel: &Channel, mut consumer: Consumer) -> Option<String> {
        let mut alive = Alive(Arc::new(AtomicBool::new(true)), false);
        let live = Live::new(&self.shared);
        loop {
            let came = tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => break,
                came = consumer.next() => came,
            };
            match came {
                Some(Ok(delivery)) => {
                    // Never waits while the worker reads: no more are under way than the queue of `to` holds, unless a
                    // channel has died and its deliveries still lie there.
                    if let Err(mpsc::error::SendError(unwanted)) = self.to.send(self.delivery(delivery, &alive.0)).await
                    {
                        unwanted.acker.hand_back().await;
                        if !self.shared.stop.is_cancelled() {
                            tracing::error!(queue = %self.queue, "nobody reads the deliveries any more; consuming ends");
                        }
                        break;
                    }
                }
                Some(Err(error)) => return Some(error.to_string()),
                None => {
                    return Some("the broker cancelled it: the queue was deleted, or its consumer time-out ran".into());
                }
            }
        }
        drop(live);
        alive.1 = true;
        self.cancel(channel, consumer, &alive.0).await;
        None
    }

    /// Cancels the consumer, and hands back what still comes.
    async fn cancel(&self, channel: &Channel, mut consumer: Consumer, alive: &Arc<AtomicBool>) {
        let broker = &self.shared.broker;
        let cancel = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
        if let Err(error) = broker.within("the end of a consumer", cancel).await {
            // The channel is dead or dying; what was unanswered comes back by itself.
            tracing::debug!(queue = %self.queue, %error, "a consumer was not cancelled cleanly");
            return;
        }
        let mut handed_back = 0_usize;
        while let Ok(Some(Ok(delivery))) = timeout(broker.limit, consumer.next()).await {
            self.delivery(delivery, alive).acker.hand_back().await;
            handed_back += 1;
        }
        tracing::info!(queue = %self.queue, handed_back, "consuming has stopped");
    }

    fn delivery(&self, delivery: lapin::message::Delivery, alive: &Arc<AtomicBool>) -> Delivery {
        let lapin::message::Delivery {
            redelivered,
            properties,
            data,
            acker,
            ..
        } = delivery;
        let id = properties
            .message_id()
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        Delivery {
            message: AttemptMessage::parse(&properties, &data),
            raw: Raw { properties, body: data },
            redelivered,
            acker: Acker::new(acker, alive.clone(), self.shared.broker.limit, id),
        }
    }
}

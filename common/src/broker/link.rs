//! One publishing connection: connects, serves it with its lanes, and begins again when it is lost.
//!
//! Hazards:
//! - Nothing may wait in the queue that nobody takes: while no connection works, what comes is refused here.
//! - On a blocked connection lapin writes nothing. It is kept, since a new one would be blocked as soon as it publishes.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use deadpool_lapin::{Object, Pool};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use lapin::{Connection, Event};
use tokio::sync::{Mutex, watch};
use tokio::time::{interval, sleep};

use super::connection::{Broker, BrokerError, BrokerState, Link};
use super::lane::{End, Lane, declare, tell};
use super::publish::{PublishError, Shared};
use super::topology::Topology;
use crate::retry::Retry;

/// How often the connection's own word is asked, beside its events.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps one publishing connection alive.
pub(super) struct Supervisor {
    broker: Broker,
    pool: Pool,
    topology: Arc<Topology>,
    shared: Arc<Shared>,
    index: usize,
}

impl Supervisor {
    pub(super) fn new(
        broker: &Broker,
        pool: &Pool,
        topology: &Arc<Topology>,
        shared: &Arc<Shared>,
        index: usize,
    ) -> Self {
        Self {
            broker: broker.clone(),
            pool: pool.clone(),
            topology: topology.clone(),
            shared: shared.clone(),
            index,
        }
    }

    /// Connects, serves, and begins again, until the publisher is closed.
    pub(super) async fn run(self) {
        let mut retry = Retry::new();
        loop {
            let lost = match self.connect().await {
                Ok(connection) => {
                    tracing::info!(address = %self.broker.address(), "publishing connection is up");
                    self.set(Link::Connected, None);
                    retry.reset();
                    let end = self.serve(&connection).await;
                    // Out of the pool: a connection that disappointed is never handed out again.
                    let connection = Object::take(connection);
                    match end {
                        End::Closed => return self.broker.close(&connection).await,
                        End::Lost(reason) => reason,
                    }
                }
                Err(error) => error.to_string(),
            };
            tracing::warn!(reason = %lost, "publishing connection is down; it is rebuilt");
            self.set(Link::Disconnected, Some(lost));
            if self.refuse_for(retry.delay()).await {
                return;
            }
        }
    }

    fn set(&self, link: Link, reason: Option<String>) {
        if let Some(state) = self.shared.links.get(self.index) {
            state.send_replace(BrokerState::new(link, reason));
        }
    }

    async fn connect(&self) -> Result<Object, BrokerError> {
        let connection = self.pool.get().await.map_err(|error| self.broker.unreachable(&error))?;
        // A message can be routed before any worker has ever run. If it can't be declared, publishing goes on:
        // `mandatory` tells of each message whether a queue took it.
        if let Err(error) = declare(&self.broker, &self.topology, &connection).await {
            tracing::error!(%error, "the exchanges and queues could not be declared");
        }
        Ok(connection)
    }

    async fn serve(&self, connection: &Connection) -> End {
        let blocked = watch::Sender::new(None);
        let redeclared = Mutex::new(None);
        let lane = || Lane {
            broker: &self.broker,
            topology: &self.topology,
            shared: &self.shared,
            connection,
            blocked: blocked.subscribe(),
            redeclared: &redeclared,
        };
        let mut lanes: FuturesUnordered<_> = (0..self.broker.channels_per_connection).map(|_| lane().run()).collect();
        let mut refusing = std::pin::pin!(self.refuse_blocked(blocked.subscribe()));
        // A lane whose messages a block holds back would otherwise keep a closing process for as long as the block lasts.
        let mut overdue = std::pin::pin!(async {
            self.shared.closing.cancelled().await;
            sleep(self.broker.limit).await;
        });
        // The only listener: several compete for the events of a connection.
        let mut events = std::pin::pin!(connection.events_listener());
        let mut look = interval(LOOK);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Event::ConnectionBlocked(reason)) => {
                        tracing::warn!(%reason, "RabbitMQ blocks publishing");
                        self.set(Link::Blocked, Some(reason.clone()));
                        blocked.send_replace(Some(reason));
                    }
                    Some(Event::ConnectionUnblocked) => {
                        tracing::info!("RabbitMQ takes messages again");
                        self.set(Link::Connected, None);
                        blocked.send_replace(None);
                    }
                    Some(Event::Error(error)) if !connection.status().connected() => return End::Lost(error.to_string()),
                    Some(_) => {}
                    None => return End::Lost("its events ended".into()),
                },
                _ = look.tick() => if !connection.status().connected() {
                    return End::Lost("it was closed".into());
                },
                () = &mut refusing => return End::Lost("its blocked state ended".into()),
                () = &mut overdue => return End::Closed,
                end = lanes.next() => match end {
                    Some(End::Lost(reason)) => return End::Lost(reason),
                    // All lanes end when there is nothing more to take; the last one has finished its group.
                    Some(End::Closed) => {}
                    None => return End::Closed,
                },
            }
        }
    }

    /// Waits, and meanwhile refuses what is in the queue, unless another connection works. True if the publisher was
    /// closed.
    async fn refuse_for(&self, delay: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => {
                // Lanes of another connection that wait for the lock's holder close the queue themselves.
                if let Ok(mut requests) = self.shared.requests.try_lock() {
                    requests.close();
                    while let Ok(request) = requests.try_recv() {
                        let reason = "the publisher is closed".into();
                        tell(request.answer, Err(PublishError::Disconnected { reason }));
                    }
                }
                true
            }
            () = self.refuse_queued() => true,
            () = sleep(delay) => false,
        }
    }

    /// Refuses while the connection is blocked: its lanes may all wait for the block to end, or have no channel yet.
    async fn refuse_blocked(&self, mut blocked: watch::Receiver<Option<String>>) {
        while blocked.wait_for(Option::is_some).await.is_ok() {
            let refuse = async {
                self.refuse_queued().await;
                pending::<()>().await;
            };
            tokio::select! {
                biased;
                _ = blocked.wait_for(Option::is_none) => {}
                () = refuse => {}
            }
        }
    }

    /// Answers what comes, as long as no connection works. Ends only when nothing more can come.
    async fn refuse_queued(&self) {
        if self.shared.refusal().is_some() {
            let mut requests = self.shared.requests.lock().await;
            while let Some(request) = requests.recv().await {
                let refusal = self.shared.refusal();
                let works = refusal.is_none();
                let reason = "the connection is being rebuilt".into();
                tell(
                    request.answer,
                    Err(refusal.unwrap_or(PublishError::Disconnected { reason })),
                );
                if works {
                    // Another connection has come up; its lanes wait for the lock that is held here.
                    drop(requests);
                    return pending().await;
                }
            }
        } else {
            pending().await
        }
    }
}

//! A lane: one confirm channel that publishes in groups.
//!
//! Hazards:
//! - lapin hands a returned message to whichever confirm of the channel comes next, not to its own. So a lane has one
//!   group in flight and judges it when all its confirms are in: each return has come before its own ack, and every
//!   confirm took one return if any was waiting, so none is left over, and none belongs to another group. Which message
//!   it was is told by exchange, key and `message_id`.
//! - On a blocked connection a confirm may take hours. The callers get their answer at once; the lane waits on, since
//!   the frames lie in lapin's buffer and go out when the block ends.
//! - A lane whose confirm did not come in time can't tell what its channel will still answer: the connection is given
//!   up with all of its lanes.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, Connection};
use tokio::sync::{Mutex, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::connection::{Broker, BrokerError};
use super::publish::{BATCH, Parcel, PublishError, Request, Shared};
use super::topology::Topology;

/// A missing queue is declared again at most so often: a thousand unroutable messages are one reason.
const REDECLARE: Duration = Duration::from_secs(1);

/// Why serving a connection ended.
pub(super) enum End {
    /// The publisher was closed, or nobody has it any more.
    Closed,
    /// The connection is of no use any more.
    Lost(String),
}

/// One confirm channel.
pub(super) struct Lane<'a> {
    pub(super) broker: &'a Broker,
    pub(super) topology: &'a Topology,
    pub(super) shared: &'a Shared,
    pub(super) connection: &'a Connection,
    /// Why the broker blocks the connection, while it does.
    pub(super) blocked: watch::Receiver<Option<String>>,
    /// When the queues were last declared again, by any lane.
    pub(super) redeclared: &'a Mutex<Option<Instant>>,
}

impl Lane<'_> {
    pub(super) async fn run(mut self) -> End {
        loop {
            let channel = match self.open().await {
                Ok(channel) => channel,
                Err(error) => return End::Lost(error.to_string()),
            };
            loop {
                let Some(group) = self.take().await else {
                    return End::Closed;
                };
                match self.publish(&channel, group).await {
                    Fate::Kept => {}
                    Fate::Unroutable => self.redeclare().await,
                    // Only this channel: the exchange is not there, or may not be written to.
                    Fate::Broken(_) if self.connection.status().connected() => {
                        self.redeclare().await;
                        break;
                    }
                    Fate::Broken(reason) | Fate::Late(reason) => return End::Lost(reason),
                }
            }
        }
    }

    async fn open(&self) -> Result<Channel, BrokerError> {
        let Self { broker, connection, .. } = self;
        let channel = broker.within("a new channel", connection.create_channel()).await?;
        broker
            .within("confirm mode", channel.confirm_select(ConfirmSelectOptions::default()))
            .await?;
        Ok(channel)
    }

    /// What has gathered, at least one message; none once everything is published and no more can come.
    async fn take(&self) -> Option<Vec<Request>> {
        let shared = self.shared;
        loop {
            let mut group = Vec::with_capacity(BATCH);
            let mut requests = shared.requests.lock().await;
            let taken = tokio::select! {
                biased;
                () = shared.closing.cancelled(), if !requests.is_closed() => {
                    requests.close();
                    continue;
                }
                taken = requests.recv_many(&mut group, BATCH) => taken,
            };
            drop(requests);
            if taken == 0 {
                return None;
            }
            group.retain(|request| !request.answer.is_closed());
            let blocked = self.blocked.borrow().clone();
            if let Some(reason) = blocked {
                refuse(
                    group.into_iter().map(|request| request.answer),
                    &PublishError::Blocked { reason },
                );
            } else if !group.is_empty() {
                return Some(group);
            }
        }
    }

    /// Publishes a group and answers each of it.
    async fn publish(&mut self, channel: &Channel, group: Vec<Request>) -> Fate {
        let limit = self.broker.limit;
        let late = || Fate::Late(format!("RabbitMQ did not confirm within {} ms", limit.as_millis()));
        let (parcels, answers): (Vec<_>, Vec<_>) = group.into_iter().map(|r| (r.parcel, r.answer)).unzip();
        let mut confirms = std::pin::pin!(join_all(parcels.iter().map(|parcel| confirm(channel, parcel))));
        tokio::select! {
            confirmed = &mut confirms => {
                let (outcomes, fate) = judge(&parcels, confirmed);
                answers.into_iter().zip(outcomes).for_each(|(answer, outcome)| tell(answer, outcome));
                return fate;
            }
            Ok(reason) = self.blocked.wait_for(Option::is_some) => {
                refuse(answers, &PublishError::Blocked { reason: reason.clone().unwrap_or_default() });
            }
            () = sleep(limit) => {
                refuse(answers, &PublishError::Timeout { limit });
                return late();
            }
        }
        // Blocked: what lapin holds back goes out when the block ends, and only then is the channel clean again.
        let unblocked = async { self.blocked.wait_for(Option::is_none).await.map(drop) };
        tokio::select! {
            confirmed = &mut confirms => judge(&parcels, confirmed).1,
            Ok(()) = unblocked => match timeout(limit, &mut confirms).await {
                Ok(confirmed) => judge(&parcels, confirmed).1,
                Err(_) => late(),
            },
        }
    }

    /// Declares everything again after a message found no queue, so that the next one does.
    async fn redeclare(&self) {
        let mut last = self.redeclared.lock().await;
        if last.is_some_and(|last| last.elapsed() < REDECLARE) {
            return;
        }
        *last = Some(Instant::now());
        match declare(self.broker, self.topology, self.connection).await {
            Ok(()) => tracing::warn!("a message found no queue; exchanges and queues are declared again"),
            Err(error) => tracing::error!(%error, "a message found no queue, and they could not be declared again"),
        }
    }
}

/// What a group says of its channel.
enum Fate {
    Kept,
    Unroutable,
    /// The channel is closed.
    Broken(String),
    /// Confirms are missing.
    Late(String),
}

async fn confirm(channel: &Channel, parcel: &Parcel) -> lapin::Result<Confirmation> {
    // Without it, what no queue takes is dropped and acked.
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let published = channel.basic_publish(
        parcel.exchange.into(),
        parcel.routing_key.as_str().into(),
        options,
        &parcel.body,
        parcel.properties.clone(),
    );
    published.await?.await
}

/// What became of each message of a group whose confirms are all in.
fn judge(parcels: &[Parcel], confirmed: Vec<lapin::Result<Confirmation>>) -> (Vec<Result<(), PublishError>>, Fate) {
    type Key = (ShortString, ShortString, Option<ShortString>);
    let mut returned: HashSet<Key> = HashSet::new();
    let mut broken = None;
    let acked: Vec<_> = confirmed
        .into_iter()
        .map(|confirmed| match confirmed {
            Ok(Confirmation::Ack(message)) => {
                returned.extend(message.map(|m| key_of(&m.exchange, &m.routing_key, &m.properties)));
                Ok(())
            }
            Ok(Confirmation::Nack(message)) => {
                returned.extend(message.map(|m| key_of(&m.exchange, &m.routing_key, &m.properties)));
                Err(PublishError::Nack)
            }
            // Not in confirm mode: nothing is known, and nothing can be, on this channel.
            Ok(Confirmation::NotRequested) => Err(disconnected(&mut broken, "the channel is not in confirm mode")),
            Err(error) => Err(disconnected(&mut broken, &error.to_string())),
        })
        .collect();
    // A confirm that never came may have been the one that another message's return would have been told by.
    let untold = broken.clone().filter(|_| !returned.is_empty());
    let outcomes = parcels.iter().zip(acked).map(|(parcel, acked)| {
        let key = key_of(
            &parcel.exchange.into(),
            &parcel.routing_key.as_str().into(),
            &parcel.properties,
        );
        if returned.contains(&key) {
            return Err(PublishError::Unroutable {
                exchange: parcel.exchange.into(),
                routing_key: parcel.routing_key.clone(),
            });
        }
        match &untold {
            Some(reason) => Err(PublishError::Disconnected { reason: reason.clone() }),
            None => acked,
        }
    });
    let outcomes = outcomes.collect();
    let fate = match broken {
        Some(reason) => Fate::Broken(reason),
        None if returned.is_empty() => Fate::Kept,
        None => Fate::Unroutable,
    };
    (outcomes, fate)
}

fn key_of(
    exchange: &ShortString,
    routing_key: &ShortString,
    properties: &lapin::BasicProperties,
) -> (ShortString, ShortString, Option<ShortString>) {
    (exchange.clone(), routing_key.clone(), properties.message_id().clone())
}

fn disconnected(broken: &mut Option<String>, reason: &str) -> PublishError {
    broken.get_or_insert_with(|| reason.into());
    PublishError::Disconnected { reason: reason.into() }
}

pub(super) type Answer = oneshot::Sender<Result<(), PublishError>>;

pub(super) fn tell(answer: Answer, outcome: Result<(), PublishError>) {
    // Fails if the caller has stopped waiting: then nobody wants to know.
    drop(answer.send(outcome));
}

fn refuse(answers: impl IntoIterator<Item = Answer>, refusal: &PublishError) {
    for answer in answers {
        tell(answer, Err(refusal.clone()));
    }
}

/// Declares everything on a channel of its own: the broker closes it if it refuses.
pub(super) async fn declare(broker: &Broker, topology: &Topology, connection: &Connection) -> Result<(), BrokerError> {
    let channel = broker.within("a new channel", connection.create_channel()).await?;
    topology.declare(&channel, broker.limit).await?;
    Ok(())
}

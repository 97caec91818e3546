//! The exchanges and queues, and the reason of each argument.
//!
//! ```text
//! onejob (direct) ── <provider> ──► onejob.attempts.<provider>
//!                                     │ rejected, or delivered too often
//!                                     ▼
//! onejob.dead (direct) ─┬─ onejob.unknown ──► onejob.unknown  (the reconciler looks the attempt up)
//!                       │                       │ delivered too often
//!                       │                       ▼
//!                       └─ onejob.poison ───► onejob.poison   (for people: nothing consumes it)
//! ```
//!
//! Keys: into `onejob` the provider's name; into `onejob.dead` the name of the queue itself.
//!
//! Declaring is idempotent. What a broker holds with other arguments is refused by it (406), and never changed by us:
//! the error says what an operator does. Only structural arguments stand here. What is tuned (delivery limit, consumer
//! time-out, lengths) are policies, since an argument beats a policy and can't be changed on a living queue. All of them
//! work from RabbitMQ 3.10 to 4.3.

use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ErrorKind, ExchangeKind};
use tokio::time::timeout;

use crate::domain::ProviderName;

/// The exchange that attempts are published to; the routing key is the provider's name.
pub const ATTEMPTS_EXCHANGE: &str = "onejob";
/// The exchange of dead letters; the routing key is the queue's name.
pub const DEAD_EXCHANGE: &str = "onejob.dead";
/// Where the attempts go that a worker cannot account for.
pub const UNKNOWN_QUEUE: &str = "onejob.unknown";
/// Where the messages go that can't be read, or may not be delivered again.
pub const POISON_QUEUE: &str = "onejob.poison";

/// The queue of a provider's attempts.
#[must_use]
pub fn attempts_queue(provider: &ProviderName) -> String {
    format!("onejob.attempts.{provider}")
}

/// Why the exchanges and queues could not be declared.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The broker has it, with other arguments.
    #[error(
        "{what} exists with other arguments ({reason}); let it run empty, delete it (`rabbitmqctl delete_queue NAME`, or \
         in the management), and it is declared again within seconds. What was queued is published again from PostgreSQL"
    )]
    Differs {
        /// Which exchange or queue.
        what: String,
        /// What the broker said: it names the argument.
        reason: String,
    },
    /// The broker refused for another reason.
    #[error(
        "cannot declare {what}: {source}; the user of AMQP_URL needs the permissions configure, write and read on onejob.*"
    )]
    Refused {
        /// Which exchange, queue or binding.
        what: String,
        /// What the broker said.
        source: lapin::Error,
    },
    /// The broker did not answer in time.
    #[error("RabbitMQ did not answer the declaration of {what} within {} ms; look at its log: a quorum queue needs a majority of its nodes", limit.as_millis())]
    TimedOut {
        /// Which exchange, queue or binding.
        what: String,
        /// The limit.
        limit: Duration,
    },
}

/// Everything that must exist before a message can be routed.
#[derive(Debug, Clone)]
pub struct Topology {
    providers: Vec<ProviderName>,
}

impl Topology {
    /// The queues of these providers, and what all of them share.
    pub fn new<'a>(providers: impl IntoIterator<Item = &'a ProviderName>) -> Self {
        Self {
            providers: providers.into_iter().cloned().collect(),
        }
    }

    /// Declares all of it, each step within `limit`. The channel is closed by the broker if it refuses.
    ///
    /// # Errors
    ///
    /// The first that was refused or not answered.
    pub async fn declare(&self, channel: &Channel, limit: Duration) -> Result<(), TopologyError> {
        let declare = Declare { channel, limit };
        // What a dead letter needs comes first: a queue whose DLX does not exist keeps its rejected messages.
        declare.exchange(DEAD_EXCHANGE).await?;
        declare.queue(POISON_QUEUE, last_stop()).await?;
        declare.binding(POISON_QUEUE, DEAD_EXCHANGE, POISON_QUEUE).await?;
        // A hint that the reconciler can't take (RabbitMQ 4 limits deliveries to 20 by itself) is kept for people.
        declare.queue(UNKNOWN_QUEUE, dead_lettering_to(POISON_QUEUE)).await?;
        declare.binding(UNKNOWN_QUEUE, DEAD_EXCHANGE, UNKNOWN_QUEUE).await?;
        declare.exchange(ATTEMPTS_EXCHANGE).await?;
        for provider in &self.providers {
            let queue = attempts_queue(provider);
            declare.queue(&queue, dead_lettering_to(UNKNOWN_QUEUE)).await?;
            declare.binding(&queue, ATTEMPTS_EXCHANGE, provider.as_str()).await?;
        }
        Ok(())
    }
}

/// The arguments of a queue that nothing leaves by itself.
fn last_stop() -> FieldTable {
    let mut arguments = FieldTable::default();
    // Replicated and fsynced before a confirm: a confirmed message survives the loss of a node.
    set(&mut arguments, "x-queue-type", "quorum");
    // If an operator limits the length, new messages are refused (nack) and stay in PostgreSQL or in the queue that
    // dead-letters them. The default, drop-head, silently drops the oldest, which were confirmed.
    set(&mut arguments, "x-overflow", "reject-publish");
    arguments
}

/// The arguments of a queue whose rejected messages go on to `key` of the exchange of dead letters.
fn dead_lettering_to(key: &str) -> FieldTable {
    let mut arguments = last_stop();
    // Without it, what is rejected or delivered too often is dropped.
    set(&mut arguments, "x-dead-letter-exchange", DEAD_EXCHANGE);
    // Without it a dead letter keeps its own key, the provider's name, for which onejob.dead has no binding.
    set(&mut arguments, "x-dead-letter-routing-key", key);
    // Without it a dead letter is published unconfirmed, and lost if the target is not there. It needs x-overflow =
    // reject-publish, or falls back silently.
    set(&mut arguments, "x-dead-letter-strategy", "at-least-once");
    arguments
}

fn set(arguments: &mut FieldTable, name: &str, value: &str) {
    arguments.insert(ShortString::from(name), AMQPValue::LongString(value.into()));
}

struct Declare<'a> {
    channel: &'a Channel,
    limit: Duration,
}

impl Declare<'_> {
    async fn exchange(&self, name: &str) -> Result<(), TopologyError> {
        let options = ExchangeDeclareOptions {
            // Survives a restart of the broker, as the queues do.
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let asked = self
            .channel
            .exchange_declare(name.into(), ExchangeKind::Direct, options, FieldTable::default());
        self.within(format!("exchange {name}"), asked).await
    }

    async fn queue(&self, name: &str, arguments: FieldTable) -> Result<(), TopologyError> {
        let options = QueueDeclareOptions {
            // Quorum queues are durable, or refused.
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let asked = async {
            self.channel
                .queue_declare(name.into(), options, arguments)
                .await
                .map(drop)
        };
        self.within(format!("queue {name}"), asked).await
    }

    async fn binding(&self, queue: &str, exchange: &str, key: &str) -> Result<(), TopologyError> {
        let asked = self.channel.queue_bind(
            queue.into(),
            exchange.into(),
            key.into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        self.within(format!("binding of {queue} to {exchange} by {key}"), asked)
            .await
    }

    async fn within(&self, what: String, asked: impl Future<Output = lapin::Result<()>>) -> Result<(), TopologyError> {
        match timeout(self.limit, asked).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(match precondition_failed(&source) {
                Some(reason) => TopologyError::Differs { what, reason },
                None => TopologyError::Refused { what, source },
            }),
            Err(_) => Err(TopologyError::TimedOut {
                what,
                limit: self.limit,
            }),
        }
    }
}

/// What the broker said, if it closed the channel since something exists with other arguments.
fn precondition_failed(error: &lapin::Error) -> Option<String> {
    const PRECONDITION_FAILED: u16 = 406;
    if let ErrorKind::ProtocolError(error) = error.kind()
        && error.get_id() == PRECONDITION_FAILED
    {
        return Some(error.get_message().to_string());
    }
    None
}

//! All AMQP of OneJob: one direct exchange, one quorum queue a provider, and where their dead letters go.
//!
//! RabbitMQ carries ids and nothing else. A message that is lost, doubled or late changes when something happens, never
//! what: PostgreSQL is the record. So everything here prefers an honest error, after which the caller's message is
//! published again, over a guess that it arrived.
//!
//! - [`Topology`] declares the exchanges and queues; each argument stands there with its reason.
//! - [`Publisher`] publishes mandatory and confirmed, over a pool of connections of its own.
//! - [`Consumers`] keeps one connection and one channel a queue alive, and hands out [`Delivery`]s.
//! - [`AttemptMessage`] is what a message says.
//!
//! Publishing and consuming never share a connection: on one that the broker blocks (memory or disk alarm) nothing is
//! written any more, acknowledgements too. lapin's own recovery stays off: it answers pending confirms only once it has
//! reconnected, and gives up without telling consumers. Every wait for the broker has a limit.

mod acker;
mod connection;
mod consume;
mod lane;
mod link;
mod message;
mod publish;
mod supervise;
mod topology;

pub use acker::{Acked, Acker};
pub use connection::{Broker, BrokerError, BrokerState, Link};
pub use consume::{Consumers, Deliveries, Delivery, Stopped, Subscription};
pub use message::{AttemptMessage, Death, Outgoing, REASON_HEADER, Raw, Unreadable};
pub use publish::{PublishError, Publisher};
pub use topology::{
    ATTEMPTS_EXCHANGE, DEAD_EXCHANGE, POISON_QUEUE, Topology, TopologyError, UNKNOWN_QUEUE, attempts_queue,
};

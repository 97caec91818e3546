//! How this process reaches RabbitMQ, and what is known of a connection.
//!
//! Hazards:
//! - The address holds the password. It never reaches an error or a log: both name host, port and virtual host only.
//! - `amqps` needs a rustls crypto provider for the whole process. lapin panics at the first use of TLS if two are
//!   compiled in and none is chosen, so [`Broker::new`] installs `ring` if nobody has chosen before.
//! - lapin runs one thread a connection. A broker that accepts TCP and then says nothing leaves that thread waiting for
//!   as long as the socket lives, even after our limit: the waits of [`Retry`](super::retry::Retry) keep them few.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use deadpool_lapin::{Pool, PoolConfig, Runtime, Timeouts};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Connection, ConnectionProperties};
use serde::Serialize;
use tokio::time::timeout;

use super::topology::TopologyError;
use crate::clock;
use crate::config::{BrokerConfig, ms};

/// Why the broker can't be used.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The address is not one.
    #[error("AMQP_URL is not an AMQP address; set it to amqp://USER:PASSWORD@HOST:5672/VHOST (amqps and 5671 for TLS)")]
    Address,
    /// The pool of connections was given values that it refuses.
    #[error("the pool of publishing connections can't be made: {0}; check [broker] in the configuration")]
    Pool(String),
    /// There is no connection, or it ended.
    #[error("no connection to RabbitMQ at {address}: {reason}; check that it runs and that AMQP_URL is right")]
    Unreachable {
        /// Host, port and virtual host.
        address: String,
        /// What the client or the broker said.
        reason: String,
    },
    /// The broker did not answer in time.
    #[error("RabbitMQ did not answer {what} within {} ms; look at its log and its alarms", limit.as_millis())]
    TimedOut {
        /// What was asked.
        what: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The broker refused.
    #[error("RabbitMQ refused {what}: {source}; look at its log, and at the user's permissions on the virtual host")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// What it said.
        source: lapin::Error,
    },
    /// The exchanges and queues are not what they must be.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// What is known of the way to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// The first try has not ended yet.
    Connecting,
    /// It works.
    Connected,
    /// Connected, but the broker takes no messages (memory or disk alarm).
    Blocked,
    /// There is none; it is being rebuilt.
    Disconnected,
}

/// The way to the broker, for readiness bodies and metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokerState {
    /// What it is like.
    pub link: Link,
    /// Since when, by this process's clock.
    pub since: DateTime<Utc>,
    /// Why, if it is not connected.
    pub reason: Option<String>,
}

impl BrokerState {
    pub(super) fn new(link: Link, reason: Option<String>) -> Self {
        Self {
            link,
            since: clock::now(),
            reason,
        }
    }
}

/// Where the broker is, and how this process talks to it. Cheap to clone; holds no connection.
#[derive(Clone)]
pub struct Broker {
    uri: Arc<AMQPUri>,
    process: Arc<str>,
    /// The limit of every wait for the broker.
    pub(super) limit: Duration,
    pub(super) publish_connections: usize,
    pub(super) channels_per_connection: usize,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker")
            .field("address", &self.address())
            .field("process", &self.process)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Broker {
    /// Takes the address (`AMQP_URL`) and the name under which the process shows up in RabbitMQ's management, such as
    /// `onejob-worker`. Connects to nothing.
    ///
    /// # Errors
    ///
    /// [`BrokerError::Address`] if `url` is not an AMQP address.
    pub fn new(url: &str, process: &str, config: &BrokerConfig) -> Result<Self, BrokerError> {
        // The parser's own error may quote the address, and with it the password.
        let mut uri: AMQPUri = url.parse().map_err(|_| BrokerError::Address)?;
        let limit = ms(config.timeout_ms);
        uri.query.heartbeat.get_or_insert(config.heartbeat_s);
        uri.query.connection_timeout.get_or_insert(config.timeout_ms);
        if uri.scheme == AMQPScheme::AMQPS
            && rustls::crypto::CryptoProvider::get_default().is_none()
            && rustls::crypto::ring::default_provider().install_default().is_err()
        {
            tracing::debug!("another part of the process has just installed a TLS provider");
        }
        Ok(Self {
            uri: Arc::new(uri),
            process: process.into(),
            limit,
            publish_connections: config.publish_connections.max(1),
            channels_per_connection: config.channels_per_connection.max(1),
        })
    }

    /// Host, port and virtual host: what may be shown.
    #[must_use]
    pub fn address(&self) -> String {
        let authority = &self.uri.authority;
        format!("{}:{} vhost {}", authority.host, authority.port, self.uri.vhost)
    }

    /// The name under which connections for `purpose` show up.
    fn properties(process: &str, purpose: &str) -> ConnectionProperties {
        ConnectionProperties::default().with_connection_name(format!("{process} {purpose}").into())
    }

    /// A connection of its own.
    ///
    /// # Errors
    ///
    /// [`BrokerError::TimedOut`], or [`BrokerError::Unreachable`] with what the broker said.
    pub(super) async fn connect(&self, purpose: &str) -> Result<Connection, BrokerError> {
        let connecting = Connection::connect_uri((*self.uri).clone(), Self::properties(&self.process, purpose));
        match timeout(self.limit, connecting).await {
            Ok(connected) => connected.map_err(|error| self.unreachable(&error)),
            Err(_) => Err(BrokerError::TimedOut {
                what: "a new connection",
                limit: self.limit,
            }),
        }
    }

    /// The pool that publishing connections come from.
    pub(super) fn pool(&self) -> Result<Pool, BrokerError> {
        let config = deadpool_lapin::Config {
            url: Some(self.uri.to_string()),
            pool: Some(PoolConfig {
                max_size: self.publish_connections,
                timeouts: Timeouts {
                    wait: Some(self.limit),
                    create: Some(self.limit),
                    recycle: Some(self.limit),
                },
                ..PoolConfig::default()
            }),
        };
        let process = self.process.clone();
        config
            .create_pool(move || Self::properties(&process, "publish"), Runtime::Tokio1)
            .map_err(|error| BrokerError::Pool(error.to_string()))
    }

    pub(super) fn unreachable(&self, reason: &impl ToString) -> BrokerError {
        BrokerError::Unreachable {
            address: self.address(),
            reason: reason.to_string(),
        }
    }

    /// Waits for the broker's answer to `what`, not longer than the limit.
    pub(super) async fn within<T>(
        &self,
        what: &'static str,
        asked: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, BrokerError> {
        match timeout(self.limit, asked).await {
            Ok(answered) => answered.map_err(|source| BrokerError::Refused { what, source }),
            Err(_) => Err(BrokerError::TimedOut {
                what,
                limit: self.limit,
            }),
        }
    }

    /// Says goodbye, so that the broker's log shows no lost connection.
    pub(super) async fn close(&self, connection: &Connection) {
        if let Err(error) = self
            .within("the end of a connection", connection.close(200, "OK".into()))
            .await
        {
            tracing::debug!(%error, "a connection was not closed cleanly");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_errors_nor_debug_output_show_the_password() {
        let config = BrokerConfig::default();
        let broker = Broker::new("amqp://user:geheim@host:5672/v", "test", &config).unwrap();
        assert!(!format!("{broker:?}").contains("geheim"));
        assert!(!broker.unreachable(&"refused").to_string().contains("geheim"));
        let error = Broker::new("user:geheim@host", "test", &config).unwrap_err();
        assert!(!format!("{error:?} {error}").contains("geheim"));
    }

    #[test]
    fn the_heartbeat_of_the_configuration_reaches_the_connection_unless_the_address_names_one() {
        let config = BrokerConfig::default();
        let broker = Broker::new("amqp://host", "test", &config).unwrap();
        assert_eq!(broker.uri.query.heartbeat, Some(5));
        let broker = Broker::new("amqp://host/%2f?heartbeat=9", "test", &config).unwrap();
        assert_eq!(broker.uri.query.heartbeat, Some(9));
    }
}

//! Configuration: one TOML file (`onejob.toml`), with `${NAME}` and `${NAME:-default}` taken from the environment.
//!
//! Unknown fields are refused, and an error names the file, the line and the field. Secrets never stand in the file:
//! it names the environment variable that holds them.

mod provider;
mod substitute;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::domain::ProviderName;
pub use provider::{Adapter, Price, ProviderConfig, Secret};

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("cannot read {path}: {source}; name another file with --config or ONEJOB_CONFIG")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path}: {message}")]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// What is wrong, with line and field.
        message: String,
    },
}

/// The whole configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// PostgreSQL.
    #[serde(default)]
    pub database: DatabaseConfig,
    /// RabbitMQ.
    #[serde(default)]
    pub broker: BrokerConfig,
    /// The HTTP API.
    #[serde(default)]
    pub api: ApiConfig,
    /// The workers.
    #[serde(default)]
    pub worker: WorkerConfig,
    /// The reconciler.
    #[serde(default)]
    pub reconciler: ReconcilerConfig,
    /// Where the contracts are.
    #[serde(default)]
    pub contracts: ContractsConfig,
    /// The providers by name.
    pub providers: BTreeMap<ProviderName, ProviderConfig>,
}

/// PostgreSQL. The address comes from `DATABASE_URL`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// The most connections of one process.
    pub max_connections: u32,
    /// How long a caller waits for a connection, in milliseconds.
    pub acquire_timeout_ms: u64,
    /// The limit of one statement, in milliseconds (`statement_timeout`).
    pub statement_timeout_ms: u64,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            max_connections: 10,
            acquire_timeout_ms: 2_000,
            statement_timeout_ms: 5_000,
        }
    }
}

/// RabbitMQ. The address comes from `AMQP_URL`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BrokerConfig {
    /// Connections for publishing, of one process.
    pub publish_connections: usize,
    /// Confirm channels on each of them.
    pub channels_per_connection: usize,
    /// The limit of every wait for the broker, in milliseconds.
    pub timeout_ms: u64,
    /// AMQP heartbeat, in seconds.
    pub heartbeat_s: u16,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            publish_connections: 1,
            channels_per_connection: 4,
            timeout_ms: 5_000,
            heartbeat_s: 5,
        }
    }
}

/// The HTTP API.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where `/livez`, `/readyz` and `/metrics` are.
    pub admin_listen: SocketAddr,
    /// The largest body, in bytes, after decompression.
    pub max_body_bytes: usize,
    /// How deep arrays and objects of a body may nest.
    pub max_depth: usize,
    /// The limit of a request without `?wait=`, in milliseconds.
    pub request_timeout_ms: u64,
    /// How long a client may take to send a request's head, in milliseconds.
    pub header_timeout_ms: u64,
    /// How long a key that was looked up is believed, in milliseconds; a revoked one stops working after that.
    pub key_cache_ms: u64,
    /// The most `?wait=` requests of one process at a time; more are answered at once.
    pub max_waiters: usize,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin_listen: SocketAddr::from(([127, 0, 0, 1], 8081)),
            max_body_bytes: 1024 * 1024,
            max_depth: 64,
            request_timeout_ms: 8_000,
            header_timeout_ms: 10_000,
            key_cache_ms: 5_000,
            max_waiters: 10_000,
        }
    }
}

/// The workers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkerConfig {
    /// Where `/livez`, `/readyz` and `/metrics` are.
    pub admin_listen: SocketAddr,
    /// The providers whose queues it consumes; empty: all.
    pub providers: Vec<ProviderName>,
    /// How often the process says that it lives, in milliseconds.
    pub heartbeat_ms: u64,
    /// Without a heartbeat for so long a process counts as dead, in milliseconds.
    pub dead_after_ms: u64,
    /// How long a drain waits for calls in flight, in milliseconds; what is left then becomes unknown.
    pub drain_ms: u64,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            admin_listen: SocketAddr::from(([127, 0, 0, 1], 8082)),
            providers: Vec::new(),
            heartbeat_ms: 1_000,
            dead_after_ms: 5_000,
            drain_ms: 60_000,
        }
    }
}

/// The reconciler.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReconcilerConfig {
    /// How often it looks for what is due, in milliseconds.
    pub tick_ms: u64,
    /// How many attempts it takes at a time.
    pub batch: i64,
    /// How long after an accept the relay publishes what no worker has claimed, in milliseconds.
    pub republish_after_ms: u64,
    /// How long past its call deadline an attempt of a living worker is left alone, in milliseconds.
    pub call_grace_ms: u64,
}

impl Default for ReconcilerConfig {
    fn default() -> Self {
        Self {
            tick_ms: 200,
            batch: 500,
            republish_after_ms: 10_000,
            call_grace_ms: 30_000,
        }
    }
}

/// Where the contracts are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContractsConfig {
    /// A folder of `*.toml`, beside the configuration file if it is relative.
    pub dir: PathBuf,
}

impl Default for ContractsConfig {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("contracts"),
        }
    }
}

impl Config {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    ///
    /// If the file can't be read, is not TOML, has unknown or missing fields, or names what does not exist.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.into(),
            source,
        })?;
        let mut config =
            Self::parse(&text, |name| std::env::var(name).ok()).map_err(|message| ConfigError::Invalid {
                path: path.into(),
                message,
            })?;
        if config.contracts.dir.is_relative() {
            let beside = path.parent().unwrap_or(Path::new("."));
            config.contracts.dir = beside.join(&config.contracts.dir);
        }
        Ok(config)
    }

    /// Reads a configuration from its text; `env` looks up the variables that it names.
    ///
    /// # Errors
    ///
    /// A sentence that names line and field.
    pub fn parse(text: &str, env: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let text = substitute::substitute(text, env)?;
        let config: Self = toml::from_str(&text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.providers.is_empty() {
            return Err("[providers] is empty; name at least one provider".into());
        }
        for (name, provider) in &self.providers {
            provider
                .check()
                .map_err(|problem| format!("[providers.{name}] {problem}"))?;
        }
        if let Some(unknown) = self
            .worker
            .providers
            .iter()
            .find(|name| !self.providers.contains_key(name))
        {
            return Err(format!(
                "[worker] providers names {unknown}, which [providers] does not have"
            ));
        }
        if self.worker.dead_after_ms < self.worker.heartbeat_ms.saturating_mul(3) {
            return Err("[worker] dead_after_ms must be at least three times heartbeat_ms".into());
        }
        if self.database.max_connections == 0 || self.broker.publish_connections == 0 {
            return Err("[database] max_connections and [broker] publish_connections must be at least 1".into());
        }
        if self.broker.channels_per_connection == 0 || self.reconciler.batch < 1 {
            return Err("[broker] channels_per_connection and [reconciler] batch must be at least 1".into());
        }
        Ok(())
    }

    /// A provider by name.
    #[must_use]
    pub fn provider(&self, name: &ProviderName) -> Option<&ProviderConfig> {
        self.providers.get(name)
    }

    /// The providers that a worker consumes.
    pub fn consumed(&self) -> impl Iterator<Item = (&ProviderName, &ProviderConfig)> {
        let chosen = &self.worker.providers;
        self.providers
            .iter()
            .filter(move |(name, _)| chosen.is_empty() || chosen.contains(name))
    }
}

/// Milliseconds of a configuration as a duration.
#[must_use]
pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[cfg(test)]
mod tests;

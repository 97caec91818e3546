//! All SQL. Postgres is the record: what is not here did not happen.
//!
//! - [`job`]: jobs with their attempts. The plain way (accept, claim, acknowledge, settle) is one statement each, grouped;
//!   `change` is everything else: load under a lock on the job, [`decide`](crate::domain::decide), write the
//!   effects; `read` is for the API; `due` is the reconciler's.
//! - [`worker`]: liveness. [`certificate`]: who may take over. [`api_key`]: who is asking.
//!
//! **Lock order**, everywhere: the job, then its attempts by number; many jobs by ascending id. A statement that waits
//! re-reads what it waited for (READ COMMITTED), so each guard is repeated in the `WHERE` of the write itself.

pub mod api_key;
pub mod certificate;
mod error;
pub mod job;
pub mod worker;

use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::config::{DatabaseConfig, ms};
pub use error::StoreError;

/// The schema, embedded in every binary.
pub static MIGRATOR: Migrator = sqlx::migrate!("../migrations");

/// A pool of connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
}

impl Store {
    /// A store on `url`. Nothing is connected yet: a database that is down delays, and is seen when it is used.
    ///
    /// # Errors
    ///
    /// If the address is not a PostgreSQL URL.
    pub fn new(url: &str, config: &DatabaseConfig, application: &str) -> Result<Self, StoreError> {
        let statement_timeout = format!("{}ms", config.statement_timeout_ms);
        let options = PgConnectOptions::from_str(url)?.application_name(application).options([
            ("statement_timeout", statement_timeout.as_str()),
            ("lock_timeout", statement_timeout.as_str()),
            ("idle_in_transaction_session_timeout", statement_timeout.as_str()),
            // A batched `UPDATE … FROM unnest(…)` first planned on an empty table would keep its sequential scan for as
            // long as the connection lives. Planning again costs 0.1 ms a statement.
            ("plan_cache_mode", "force_custom_plan"),
        ]);
        let pool = PgPoolOptions::new()
            .max_connections(config.max_connections)
            .acquire_timeout(ms(config.acquire_timeout_ms))
            .idle_timeout(Duration::from_secs(300))
            .connect_lazy_with(options);
        Ok(Self { pool })
    }

    /// A store on a pool that exists already.
    #[must_use]
    pub const fn from_pool(pool: PgPool) -> Self {
        Self { pool }
    }

    /// The pool itself.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Applies what is missing of the schema. Processes that do it together take turns.
    ///
    /// # Errors
    ///
    /// If the database can't be reached, or has migrations that this version does not know.
    pub async fn migrate(&self) -> Result<(), sqlx::migrate::MigrateError> {
        MIGRATOR.run(&self.pool).await
    }

    /// Whether the database answers, within `limit`.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub async fn ping(&self, limit: Duration) -> Result<(), StoreError> {
        let ping = sqlx::query!(r#"SELECT 1 AS "one!""#).fetch_one(&self.pool);
        match tokio::time::timeout(limit, ping).await {
            Ok(answer) => Ok(answer.map(drop)?),
            Err(_elapsed) => Err(StoreError::Unavailable(sqlx::Error::PoolTimedOut)),
        }
    }
}

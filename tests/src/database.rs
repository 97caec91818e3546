//! A database of its own for each test, with OneJob's schema.

use onejob_common::config::DatabaseConfig;
use onejob_common::store::Store;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

use crate::env;

/// A database; dropped with the value.
pub struct Database {
    /// Its address, for `DATABASE_URL` of what is tested.
    pub url: String,
    /// The test's own way into it.
    pub store: Store,
    name: String,
    server: String,
}

impl Database {
    /// Makes one.
    ///
    /// # Panics
    ///
    /// If the environment names no PostgreSQL in which databases may be made.
    pub async fn create() -> Self {
        Self::with_connections(20).await
    }

    /// Makes one; the test's own pool has so many connections.
    ///
    /// # Panics
    ///
    /// As [`Database::create`].
    pub async fn with_connections(max_connections: u32) -> Self {
        let server = env("DATABASE_URL");
        let name = format!("test_{}", Uuid::new_v4().simple());
        run(&server, format!("CREATE DATABASE {name}"))
            .await
            .expect("a role that may create databases");
        let (host, _) = server.rsplit_once('/').expect("DATABASE_URL names a database");
        let url = format!("{host}/{name}");
        let config = DatabaseConfig {
            max_connections,
            acquire_timeout_ms: 20_000,
            statement_timeout_ms: 20_000,
        };
        let store = Store::new(&url, &config, "onejob-test").unwrap();
        store.migrate().await.expect("the migrations apply");
        Self {
            url,
            store,
            name,
            server,
        }
    }

    /// One number out of the database.
    ///
    /// # Panics
    ///
    /// If the statement fails.
    pub async fn count(&self, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement)
            .fetch_one(self.store.pool())
            .await
            .unwrap()
    }

    /// Runs a statement.
    ///
    /// # Errors
    ///
    /// The database's own.
    pub async fn execute(&self, statement: &str) -> Result<(), sqlx::Error> {
        let statement = AssertSqlSafe(statement.to_owned());
        sqlx::query(statement).execute(self.store.pool()).await.map(drop)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, statement) = (
            self.server.clone(),
            format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name),
        );
        // On a thread of its own: there is no waiting in here.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(run(&server, statement)).map_err(std::io::Error::other)
        });
        drop(dropped.join());
    }
}

async fn run(server: &str, statement: String) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(server).await?;
    sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await
}

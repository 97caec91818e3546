//! Liveness: one row a process. Its cost grows with workers, not with jobs.

use std::time::Duration;

use uuid::Uuid;

use super::{Store, StoreError};

/// A worker process.
#[derive(Debug, Clone)]
pub struct WorkerProcess {
    /// Made when it starts: a process that comes back is another one.
    pub id: Uuid,
    /// `attempts`, `reconciler`, or both.
    pub role: String,
    /// Where it runs.
    pub host: String,
    /// Its process id there.
    pub pid: i32,
}

impl Store {
    /// Says that the process lives, by the database's clock. One that was counted as dead is alive again.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn heartbeat(&self, worker: &WorkerProcess) -> Result<(), StoreError> {
        sqlx::query!(
            r#"INSERT INTO workers (id, role, host, pid) VALUES ($1, $2, $3, $4)
               ON CONFLICT (id) DO UPDATE SET heartbeat_at = clock_timestamp(), stopped_at = NULL"#,
            worker.id,
            worker.role,
            worker.host,
            worker.pid,
        )
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// Says that the process has ended by itself.
    ///
    /// # Errors
    ///
    /// If the database can't do it; it counts as dead a little later then.
    pub async fn stopped(&self, worker: Uuid) -> Result<(), StoreError> {
        sqlx::query!(
            "UPDATE workers SET stopped_at = clock_timestamp() WHERE id = $1",
            worker
        )
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// Puts dead processes away once nothing of theirs is in flight, so that they are not looked for again.
    ///
    /// Guard: the heartbeat, else one that has just come back would count as stopped.
    pub(super) async fn put_away(&self, workers: &[Uuid], dead_after: Duration) -> Result<(), StoreError> {
        sqlx::query!(
            r#"UPDATE workers SET stopped_at = now()
               WHERE id = ANY($1) AND stopped_at IS NULL AND heartbeat_at < now() - $2 * interval '1 millisecond'"#,
            workers,
            dead_after.as_secs_f64() * 1000.0,
        )
        .execute(self.pool())
        .await?;
        Ok(())
    }
}

//! Who waits for a job is told when something happened to it. A notice that is lost costs a second: waiters also poll.

use sqlx::postgres::PgListener;

use super::super::{Store, StoreError};
use crate::domain::JobId;

/// The channel that notices go through.
const CHANNEL: &str = "onejob_jobs";

/// What others say of jobs, on a connection of its own.
#[derive(Debug)]
pub struct Notices(PgListener);

impl Notices {
    /// The next job that something happened to.
    ///
    /// # Errors
    ///
    /// If the connection is lost: what was said meanwhile is not known.
    pub async fn next(&mut self) -> Result<JobId, StoreError> {
        loop {
            // `None`: the connection was lost. It is an error here, so that the caller looks at everything again.
            let Some(notice) = self.0.try_recv().await? else {
                return Err(StoreError::Unavailable(sqlx::Error::PoolClosed));
            };
            if let Ok(job) = notice.payload().parse() {
                return Ok(job);
            }
        }
    }
}

impl Store {
    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn notices(&self) -> Result<Notices, StoreError> {
        let mut listener = PgListener::connect_with(self.pool()).await?;
        listener.listen(CHANNEL).await?;
        Ok(Notices(listener))
    }

    /// Wakes the clients that wait for these jobs. Apart from the statements that close them: a notification takes a lock
    /// for the whole database at its commit.
    ///
    /// # Errors
    ///
    /// If the database can't do it; a waiting client then finds out by its slow poll.
    pub async fn notify(&self, jobs: &[JobId]) -> Result<(), StoreError> {
        let ids: Vec<String> = jobs.iter().map(ToString::to_string).collect();
        sqlx::query!(
            "SELECT pg_notify('onejob_jobs', id) FROM unnest($1::text[]) AS t(id)",
            &ids
        )
        .fetch_all(self.pool())
        .await?;
        Ok(())
    }
}

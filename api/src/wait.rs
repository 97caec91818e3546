//! `?wait=`: a client waits until its job is closed or turns unknown, without asking again and again.
//!
//! Whoever changes a job says so through the database (one listening connection a process). Beside that everything that is
//! waited for is looked at once a second in one statement, so that a lost notice costs a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use onejob_common::domain::JobId;
use onejob_common::retry::Retry;
use onejob_common::store::Store;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

const POLL_EVERY: Duration = Duration::from_secs(1);

/// Who waits for what.
#[derive(Default)]
pub struct Waiters {
    waiting: Mutex<HashMap<JobId, Weak<Notify>>>,
    /// Nobody waits any more: the process is stopping.
    pub stop: CancellationToken,
}

/// One that waits, for as long as it is held.
pub struct Waiter {
    waiters: Arc<Waiters>,
    job: JobId,
    /// Told when the job may be worth reading.
    pub notify: Arc<Notify>,
}

impl Waiters {
    /// Waits for `job` from now on; none, if there are `most` already.
    pub fn join(self: &Arc<Self>, job: JobId, most: usize) -> Option<Waiter> {
        let mut waiting = self.lock();
        let there = waiting.get(&job).and_then(Weak::upgrade);
        if there.is_none() && waiting.len() >= most {
            return None;
        }
        let notify = there.unwrap_or_default();
        waiting.insert(job, Arc::downgrade(&notify));
        Some(Waiter {
            waiters: Arc::clone(self),
            job,
            notify,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, Weak<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, job: JobId) {
        if let Some(notify) = self.lock().get(&job).and_then(Weak::upgrade) {
            notify.notify_waiters();
        }
    }

    fn jobs(&self) -> Vec<JobId> {
        self.lock().keys().copied().collect()
    }

    /// Listens and polls until the process stops.
    pub async fn run(self: Arc<Self>, store: Store) {
        let listening = Arc::clone(&self).listen(store.clone());
        tokio::join!(listening, Arc::clone(&self).poll(store));
    }

    async fn listen(self: Arc<Self>, store: Store) {
        let mut retry = Retry::new();
        while !self.stop.is_cancelled() {
            let heard = async {
                let mut notices = store.notices().await?;
                retry.reset();
                loop {
                    self.wake(notices.next().await?);
                }
            };
            let ended: Result<(), onejob_common::store::StoreError> = tokio::select! {
                ended = heard => ended,
                () = self.stop.cancelled() => return,
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "notices can't be heard; waiting clients are looked after by the poll");
            }
            tokio::select! {
                () = tokio::time::sleep(retry.delay()) => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    async fn poll(self: Arc<Self>, store: Store) {
        let mut ticks = interval(POLL_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.stop.cancelled() => return,
            }
            let jobs = self.jobs();
            if jobs.is_empty() {
                continue;
            }
            match store.worth_reading(&jobs).await {
                Ok(jobs) => jobs.into_iter().for_each(|job| self.wake(job)),
                Err(error) => tracing::debug!(%error, "the poll for waiting clients failed"),
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        // The last one that waits for this job.
        if Arc::strong_count(&self.notify) == 1 {
            waiting.remove(&self.job);
        }
    }
}

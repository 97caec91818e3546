//! The reconciler: puts right what was left. It works from PostgreSQL alone; `onejob.unknown` only tells it to look now.
//!
//! Several may run: `SKIP LOCKED` shares the work, and every write is guarded by the state it was decided on.

mod dead_letters;
mod gauges;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use onejob_common::broker::{Outgoing, Publisher};
use onejob_common::config::{ReconcilerConfig, WorkerConfig, ms};
use onejob_common::domain::{AttemptId, Effect, Event, JobId, ProviderName};
use onejob_common::store::certificate::Gate;
use onejob_common::store::job::{Change, ChangeError, Due, Facts};
use onejob_common::store::{Store, StoreError};
use onejob_common::telemetry::{metrics, record};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

pub use dead_letters::watch as watch_dead_letters;
pub use gauges::keep as keep_gauges;

/// How soon a message that the broker did not confirm is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// How often workers are looked at.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// What the reconciler works with.
pub struct Reconciler {
    /// The record.
    pub store: Store,
    /// The way to the workers.
    pub publisher: Publisher,
    /// Who may take over.
    pub gate: Gate,
    /// The providers' own call limits.
    pub limits: BTreeMap<ProviderName, Duration>,
    /// Its own limits.
    pub config: ReconcilerConfig,
    /// When a worker counts as dead.
    pub worker: WorkerConfig,
}

impl Reconciler {
    /// Looks at what is due, until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = interval(ms(self.config.tick_ms));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut swept = Instant::now();
        let mut failing = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = stop.cancelled() => return,
            }
            let mut result = self.look(&stop).await;
            if result.is_ok() && swept.elapsed() >= SWEEP_EVERY {
                swept = Instant::now();
                result = self.sweep().await;
            }
            match &result {
                Ok(()) if failing => tracing::info!("the database answers the reconciler again"),
                Ok(()) => {}
                Err(error) if failing => tracing::debug!(%error, "the reconciler still waits for the database"),
                Err(error) => tracing::warn!(%error, "the reconciler waits for the database"),
            }
            failing = result.is_err();
        }
    }

    /// One look; a full batch means that there is more.
    async fn look(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        let republish_after = ms(self.config.republish_after_ms);
        let grace = ms(self.config.call_grace_ms);
        loop {
            let due = self
                .store
                .due(self.config.batch, republish_after, &self.limits, grace)
                .await?;
            let more = i64::try_from(due.len()).unwrap_or(i64::MAX) >= self.config.batch;
            let mut outgoing = Vec::new();
            for one in due {
                match one {
                    Due::Publish {
                        attempt,
                        provider,
                        traceparent,
                    } => {
                        outgoing.push(Outgoing {
                            attempt,
                            provider,
                            traceparent,
                        });
                    }
                    Due::Deadline { job } => self.change(job, Event::DeadlineDue, None).await?,
                    Due::Hedge { attempt } => {
                        self.change(attempt.job, Event::HedgeDue { number: attempt.number }, None)
                            .await?;
                    }
                    Due::Overdue { attempt } => {
                        self.lose(
                            attempt,
                            "the call should have ended long ago, and its worker said nothing",
                        )
                        .await?;
                    }
                }
            }
            self.publish(&outgoing).await?;
            if !more || stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// The relay: publishes queued attempts whose message may be lost, or whose time has come.
    async fn publish(&self, outgoing: &[Outgoing]) -> Result<(), StoreError> {
        if outgoing.is_empty() {
            return Ok(());
        }
        let answers = self.publisher.publish_all(outgoing).await;
        let mut failed = Vec::new();
        for (message, answer) in outgoing.iter().zip(answers) {
            if let Err(error) = answer {
                tracing::debug!(attempt_id = %message.attempt, %error, "not published");
                failed.push((message.attempt, error));
            }
        }
        if let Some((_, error)) = failed.first() {
            let state = self.publisher.state();
            tracing::warn!(messages = failed.len(), %error, link = ?state.link, "the broker did not take messages; the attempts stay queued and are published again");
            let attempts: Vec<AttemptId> = failed.into_iter().map(|(attempt, _)| attempt).collect();
            self.store.bring_forward(&attempts, AGAIN_AFTER).await?;
        }
        Ok(())
    }

    /// Attempts whose worker has died are unknown: the request may have left.
    async fn sweep(&self) -> Result<(), StoreError> {
        loop {
            let lost = self
                .store
                .of_dead_workers(ms(self.worker.dead_after_ms), self.config.batch)
                .await?;
            if lost.is_empty() {
                return Ok(());
            }
            for attempt in lost {
                self.lose(
                    attempt,
                    "its worker stopped giving signs of life in the middle of the call",
                )
                .await?;
            }
        }
    }

    /// Contact to an attempt is lost.
    pub(crate) async fn lose(&self, attempt: AttemptId, why: &str) -> Result<(), StoreError> {
        tracing::warn!(attempt_id = %attempt, job_id = %attempt.job, why, "its outcome is unknown");
        self.change(
            attempt.job,
            Event::ContactLost { number: attempt.number },
            Some(why.to_owned()),
        )
        .await
    }

    async fn change(&self, job: JobId, event: Event, detail: Option<String>) -> Result<(), StoreError> {
        let facts = Facts {
            detail,
            ..Facts::default()
        };
        let change = Change {
            job,
            owner: None,
            event,
            facts,
            actor: "reconciler".to_owned(),
        };
        match self.store.change(&self.gate, &change).await {
            Ok(changed) => {
                record(&changed, metrics::ResolvedBy::Probe, None);
                if changed
                    .effects
                    .iter()
                    .any(|effect| !matches!(effect, Effect::Blocked { .. }))
                {
                    self.store.notify(&[job]).await?;
                }
                Ok(())
            }
            Err(ChangeError::Store(error)) if error.is_transient() => Err(error),
            // One job that can't be changed must not keep the others waiting.
            Err(error) => {
                tracing::error!(job_id = %job, %error, "the reconciler could not change a job");
                Ok(())
            }
        }
    }
}

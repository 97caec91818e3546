//! The end of an attempt: write it, count it, answer the delivery.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use onejob_common::broker::{Acker, Outgoing};
use onejob_common::clock;
use onejob_common::domain::{
    AttemptId, AttemptState, Definite, Effect, Event, JobState, LossReason, ProviderName, Usage,
};
use onejob_common::retry::Retry;
use onejob_common::store::job::{Change, ChangeError, Changed, Claimed, Facts, Settled, Settlement};
use onejob_common::telemetry::{metrics, record};
use tokio::time::Instant;

use super::Pipeline;
use super::writers::wait;

/// How an attempt ended, as far as this worker can tell.
pub(super) enum Outcome<'a> {
    /// With a result that keeps the contract.
    Answered {
        /// What was claimed.
        claimed: &'a Claimed,
        /// The bytes that came.
        result: Bytes,
        /// What the provider counted.
        usage: Option<Usage>,
        /// What it cost, in US dollars.
        cost: Option<f64>,
        /// When the provider gave its first sign.
        acknowledged_at: Option<DateTime<Utc>>,
    },
    /// Without a result, for certain.
    Failed {
        /// How.
        definite: Definite,
        /// What it cost all the same, in US dollars.
        cost: Option<f64>,
    },
    /// Nothing is certain.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl Outcome<'_> {
    /// A failure before anything was sent.
    pub(super) const fn failed(definite: Definite) -> Self {
        Self::Failed { definite, cost: None }
    }
}

/// What became of the write.
enum Written {
    /// It is in PostgreSQL.
    Done,
    /// The process ends before the database answered: the message must come back.
    Not,
}

impl Pipeline {
    /// Writes the outcome, for as long as it takes, and answers the delivery after the commit.
    pub(super) async fn finish(&self, attempt: AttemptId, outcome: Outcome<'_>, acker: Acker) {
        let mut unknown = false;
        let written = match outcome {
            Outcome::Answered {
                claimed,
                result,
                usage,
                cost,
                acknowledged_at,
            } => {
                let settlement = Settlement {
                    attempt,
                    result,
                    usage,
                    cost,
                    acknowledged_at,
                    actor: self.actor(),
                };
                self.answered(claimed, settlement).await
            }
            Outcome::Failed { definite, cost } => self.failed(attempt, definite, cost).await,
            Outcome::Unknown { reason } => {
                unknown = true;
                self.unknown(attempt, reason).await
            }
        };
        match written {
            // Recorded first, then dead-lettered: the reconciler is told to look now.
            Written::Done if unknown => drop(acker.reject_to_dlx().await),
            Written::Done => drop(acker.ack().await),
            Written::Not => {
                tracing::error!(attempt_id = %attempt, "its outcome could not be stored before the process ended; found in flight at a stopped worker, it will be unknown");
                drop(acker);
            }
        }
    }

    async fn answered(&self, claimed: &Claimed, settlement: Settlement) -> Written {
        let (began, attempt) = (Instant::now(), settlement.attempt);
        let (bytes, cost) = (settlement.result.len(), settlement.cost);
        match self.writers.settle(settlement, &self.end).await {
            Ok(Ok(settled)) => {
                metrics::settle(began.elapsed());
                self.settled(claimed, settled, bytes, cost);
                Written::Done
            }
            // A row that breaks a constraint breaks it again. What is known stays visible as unknown.
            Ok(Err(error)) => {
                tracing::error!(attempt_id = %attempt, %error, "the database refuses the result");
                self.unknown(
                    attempt,
                    format!("the provider answered, and the database refused the result: {error}"),
                )
                .await
            }
            Err(_given_up) => Written::Not,
        }
    }

    fn settled(&self, claimed: &Claimed, settled: Settled, bytes: usize, cost: Option<f64>) {
        let attempt = claimed.identity.attempt;
        let (provider, cause) = (&claimed.provider, claimed.cause);
        match settled {
            Settled::Won {
                was: AttemptState::Succeeded,
            } => {
                tracing::info!(attempt_id = %attempt, "its result had been stored already");
            }
            Settled::Won { was } => {
                metrics::attempt(provider, cause, AttemptState::Succeeded);
                let age = (clock::now() - claimed.created_at).to_std().unwrap_or_default();
                metrics::job_done(&claimed.contract, JobState::Succeeded, age);
                resolved_by_evidence(provider, was, AttemptState::Succeeded);
                tracing::info!(attempt_id = %attempt, bytes, "it won: its result is the job's");
                self.writers.notify(attempt.job);
            }
            Settled::Lost { was, reason } => {
                metrics::attempt(provider, cause, AttemptState::Lost);
                metrics::race_lost(provider, reason, cost);
                resolved_by_evidence(provider, was, AttemptState::Lost);
                tracing::warn!(attempt_id = %attempt, bytes, reason = reason.as_str(), cost_usd = cost, "it lost the race: its payload was dropped");
                self.writers.notify(attempt.job);
            }
            Settled::Contradicted { stands, first } => {
                if first {
                    metrics::race_lost(provider, LossReason::AfterResolution, cost);
                }
                tracing::warn!(attempt_id = %attempt, bytes, %stands, cost_usd = cost, "it answered after it had been settled otherwise: kept as an event, nothing changed");
            }
            Settled::LostBefore => tracing::info!(attempt_id = %attempt, "its loss had been stored already"),
            Settled::Impossible => {
                tracing::error!(attempt_id = %attempt, "it has an answer, and nobody claimed it; the answer was dropped");
            }
        }
    }

    async fn failed(&self, attempt: AttemptId, definite: Definite, cost: Option<f64>) -> Written {
        let Definite {
            kind,
            detail,
            retry_after,
            raw,
            usage,
        } = definite;
        tracing::warn!(attempt_id = %attempt, kind = kind.as_str(), detail, "it failed");
        let event = Event::Failed {
            number: attempt.number,
            kind,
            retry_after,
        };
        self.change(
            attempt,
            event,
            Facts {
                detail: Some(detail),
                raw,
                usage,
                cost,
                ..Facts::default()
            },
        )
        .await
    }

    async fn unknown(&self, attempt: AttemptId, reason: String) -> Written {
        tracing::warn!(attempt_id = %attempt, reason, "its outcome is unknown");
        let event = Event::ContactLost { number: attempt.number };
        self.change(
            attempt,
            event,
            Facts {
                detail: Some(reason),
                ..Facts::default()
            },
        )
        .await
    }

    async fn change(&self, attempt: AttemptId, event: Event, facts: Facts) -> Written {
        let change = Change {
            job: attempt.job,
            owner: None,
            event,
            facts,
            actor: self.actor(),
        };
        let mut retry = Retry::new();
        loop {
            match self.store.change(&self.gate, &change).await {
                Ok(changed) => {
                    record(&changed, metrics::ResolvedBy::Evidence, change.facts.cost);
                    self.follow(&changed).await;
                    return Written::Done;
                }
                Err(ChangeError::Store(error)) if error.is_transient() => {
                    if wait(&mut retry, &error, "change", &self.end).await.is_err() {
                        return Written::Not;
                    }
                }
                Err(error) => {
                    tracing::error!(attempt_id = %attempt, %error, "the change is not possible; the reconciler sees to the attempt");
                    return Written::Done;
                }
            }
        }
    }

    /// Publishes what was started for now, and wakes who waits.
    async fn follow(&self, changed: &Changed) {
        if !changed.effects.is_empty() {
            self.writers.notify(changed.job.id);
        }
        for effect in &changed.effects {
            if let Effect::Start {
                number,
                provider,
                run_at,
                ..
            } = effect
                && *run_at <= changed.at
            {
                let outgoing = Outgoing {
                    attempt: AttemptId::new(changed.job.id, *number),
                    provider: provider.clone(),
                    traceparent: changed.traceparent.clone(),
                };
                if let Err(error) = self.publisher.publish(&outgoing).await {
                    tracing::warn!(attempt_id = %outgoing.attempt, %error, "it could not be published; the relay does it");
                }
            }
        }
    }

    fn actor(&self) -> String {
        format!("worker {}", self.worker)
    }
}

fn resolved_by_evidence(provider: &ProviderName, was: AttemptState, outcome: AttemptState) {
    if was == AttemptState::Unknown {
        metrics::unknown_resolved(provider, metrics::ResolvedBy::Evidence, outcome);
    }
}

//! Every change of a job that is not its creation: a new attempt, a cancel, a resolution.

use axum::http::StatusCode;
use onejob_common::config::ms;
use onejob_common::domain::{AttemptId, Effect, Event, Illegal, JobId};
use onejob_common::store::job::{Change, ChangeError, Changed, Facts};
use onejob_common::telemetry::{metrics, record};

use crate::App;
use crate::accept::{outgoing, publish};
use crate::auth::Caller;
use crate::problem::Problem;
use crate::view::JobView;

impl App {
    /// Does it, in a task of its own: a client that goes away in the middle leaves the whole change or none.
    ///
    /// # Errors
    ///
    /// A problem; then nothing was changed, or (503) it is not known.
    pub async fn act(&self, caller: &Caller, job: JobId, event: Event, facts: Facts) -> Result<JobView, Problem> {
        let change = Change {
            job,
            owner: caller.sees().cloned(),
            event,
            facts: Facts {
                // The API publishes what it starts itself; the relay is for what gets lost.
                look_in: Some(ms(self.config.reconciler.republish_after_ms)),
                ..facts
            },
            actor: caller.actor(),
        };
        let app = self.clone();
        let done = tokio::spawn(async move { app.change(change).await });
        match done.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(refusal(job, error)),
            Err(error) => {
                tracing::error!(%error, job_id = %job, "a change broke down");
                return Err(Problem::internal());
            }
        }
        let record = self.store.job(job, caller.sees()).await?;
        Ok(JobView::of(record.ok_or_else(|| Problem::not_found("job"))?)?)
    }

    async fn change(&self, change: Change) -> Result<(), ChangeError> {
        let changed = self.store.change(&self.gate, &change).await.inspect_err(|error| {
            if let ChangeError::Illegal(Illegal::NotCertified(provider, contract)) = error {
                metrics::failover_blocked(provider, contract);
            }
        })?;
        record(&changed, metrics::ResolvedBy::Operator, change.facts.cost);
        for effect in &changed.effects {
            tracing::info!(job_id = %changed.job.id, owner = %changed.job.owner, actor = change.actor, ?effect, "changed");
        }
        publish(&self.store, &self.publisher, started(&changed), &self.tasks);
        if !changed.effects.is_empty()
            && let Err(error) = self.store.notify(&[changed.job.id]).await
        {
            tracing::debug!(%error, "waiting clients were not woken; they find out by their slow poll");
        }
        Ok(())
    }
}

fn started(changed: &Changed) -> Vec<onejob_common::broker::Outgoing> {
    let now = |effect: &Effect| match effect {
        Effect::Start {
            number,
            provider,
            run_at,
            ..
        } if *run_at <= changed.at => {
            let attempt = AttemptId::new(changed.job.id, *number);
            Some(outgoing(attempt, provider.clone(), changed.traceparent.clone()))
        }
        Effect::Start { .. }
        | Effect::Move { .. }
        | Effect::Close { .. }
        | Effect::Reopen
        | Effect::Loss { .. }
        | Effect::Blocked { .. }
        | Effect::AskCancel { .. } => None,
    };
    changed.effects.iter().filter_map(now).collect()
}

fn refusal(job: JobId, error: ChangeError) -> Problem {
    let conflict = |slug, title, detail| Problem::new(StatusCode::CONFLICT, slug, title, detail);
    match error {
        ChangeError::Store(error) => error.into(),
        ChangeError::NoSuchJob => Problem::not_found("job"),
        ChangeError::Illegal(illegal) => match illegal {
            Illegal::NoSuchAttempt(_) => Problem::not_found("attempt"),
            Illegal::JobFinished(state) => conflict(
                "job-finished",
                "The job is finished",
                format!("The job is {state}, which does not allow this. For another result, send a new job."),
            )
            .with("state", state.as_str()),
            Illegal::DeadlinePassed(deadline) => conflict(
                "job-finished",
                "The job's deadline has passed",
                format!("The job's deadline passed at {deadline}, and nothing new starts under it. Send a new job."),
            ),
            Illegal::Unsettled(attempt) => {
                let id = AttemptId::new(job, attempt.number);
                let (state, since) = (attempt.state, attempt.since.to_rfc3339());
                let advice = match state {
                    onejob_common::domain::AttemptState::Unknown => {
                        "Its outcome is not known, and it may still be running and billed: it has to be settled first, \
                         by the provider's evidence or an operator (POST /v1/attempts/{id}/resolution)."
                    }
                    onejob_common::domain::AttemptState::Running => {
                        "Wait for it, or send \"hedge\": true to start a competitor on a certified provider."
                    }
                    onejob_common::domain::AttemptState::Queued
                    | onejob_common::domain::AttemptState::Starting
                    | onejob_common::domain::AttemptState::Succeeded
                    | onejob_common::domain::AttemptState::Lost
                    | onejob_common::domain::AttemptState::Failed
                    | onejob_common::domain::AttemptState::Cancelled => "Wait until it runs or has ended.",
                };
                conflict(
                    "attempt-unsettled",
                    "An attempt is not settled",
                    format!("Attempt {id} is {state} since {since}. {advice}"),
                )
                .with("attempt_id", id.to_string())
                .with("attempt_state", state.as_str())
                .with("since", since)
            }
            Illegal::NotCertified(provider, contract) => Problem::not_certified(provider.as_str(), contract.as_str()),
            Illegal::NotUnknown(state) | Illegal::NotClaimable(state) => conflict(
                "attempt-not-unknown",
                "The attempt is not unknown",
                format!("The attempt is {state}. Only an unknown attempt can be resolved, and only once."),
            )
            .with("attempt_state", state.as_str()),
            Illegal::TooManyAttempts => conflict(
                "job-finished",
                "The job can hold no more attempts",
                "The job has as many attempts as it can hold. Send a new job.".to_owned(),
            ),
        },
    }
}

//! One attempt: claim, render, call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use onejob_common::broker::Acker;
use onejob_common::clock;
use onejob_common::config::ms;
use onejob_common::contract::{BLOCKING_ABOVE, Contract, Prompt};
use onejob_common::domain::intent::Json;
use onejob_common::domain::{AttemptId, AttemptState, Definite, FailureKind, Meaning, Usage, WireSeen};
use onejob_common::store::job::{Acknowledgement, Claim, Claimed, NotClaimed};
use onejob_common::telemetry::metrics;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument;

use super::outcome::Outcome;
use super::{Pipeline, Route};
use crate::provider::{Acknowledged, Call};

/// An answer that ends so soon after its first sign needs no mark of its own: settling writes both.
const SIGN_AFTER: Duration = Duration::from_millis(10);

/// How a call ended, with what it left.
pub(super) struct Called {
    pub(super) meaning: Meaning,
    /// When the first sign came, if one did.
    pub(super) acknowledged_at: Option<DateTime<Utc>>,
}

impl Pipeline {
    /// Claims an attempt and sees it through, or finds out why it is not to be called.
    pub(super) async fn attempt(&self, attempt: AttemptId, acker: Acker, redelivered: bool) {
        // The queue's provider is the attempt's own; should it be another's, the longest limit does no harm.
        let limit = self
            .routes
            .values()
            .map(|route| route.config.timeout_ms)
            .max()
            .unwrap_or(60_000);
        let Ok((began, claiming)) = self
            .writers
            .claim(
                Claim {
                    attempt,
                    limit: ms(limit),
                },
                &self.stop,
            )
            .await
        else {
            acker.hand_back().await;
            return;
        };
        match claiming {
            Ok(Ok(claimed)) => {
                let span = tracing::info_span!(
                    "attempt",
                    attempt_id = %attempt,
                    job_id = %attempt.job,
                    owner = %claimed.identity.owner,
                    trace_id = %claimed.identity.trace_id(),
                    provider = %claimed.provider,
                );
                self.claimed(claimed, acker, began).instrument(span).await;
            }
            Ok(Err(NotClaimed::OwnClaim)) => {
                // The answer to the claim was lost, so nothing can have been sent.
                let why = "the database's answer to the claim was lost; nothing was sent";
                let definite = Definite::new(FailureKind::NotExecuted, why);
                self.finish(attempt, Outcome::failed(definite), acker).await;
            }
            Ok(Err(why)) => self.not_ours(attempt, why, acker, redelivered).await,
            Err(error) => {
                tracing::error!(attempt_id = %attempt, %error, "the database refuses the claim");
                acker.reject_to_dlx().await;
            }
        }
    }

    async fn not_ours(&self, attempt: AttemptId, why: NotClaimed, acker: Acker, redelivered: bool) {
        match why {
            NotClaimed::Orphaned => {
                tracing::warn!(attempt_id = %attempt, "its worker is gone in the middle of the call: it goes to onejob.unknown");
                acker.reject_to_dlx().await;
            }
            NotClaimed::Missing => {
                metrics::duplicate_suppressed(metrics::Layer::Worker);
                tracing::warn!(attempt_id = %attempt, "a message for an attempt that does not exist was dropped");
                acker.ack().await;
            }
            NotClaimed::Busy | NotClaimed::Done(_) | NotClaimed::OwnClaim => {
                metrics::duplicate_suppressed(metrics::Layer::Worker);
                tracing::info!(attempt_id = %attempt, ?why, redelivered, "a message for an attempt that is under way or settled was dropped");
                acker.ack().await;
            }
            NotClaimed::NotNow => {
                tracing::info!(attempt_id = %attempt, "it is not due; the relay publishes it again");
                acker.ack().await;
            }
        }
    }

    async fn claimed(&self, claimed: Claimed, acker: Acker, began: Instant) {
        let attempt = claimed.identity.attempt;
        metrics::attempt(&claimed.provider, claimed.cause, AttemptState::Starting);
        metrics::queue_wait(claimed.waited);
        let outcome = self.work(&claimed, began).await.unwrap_or_else(Outcome::failed);
        self.finish(attempt, outcome, acker).await;
    }

    /// Renders, calls, checks. An error means that nothing was sent.
    async fn work<'a>(&self, claimed: &'a Claimed, began: Instant) -> Result<Outcome<'a>, Definite> {
        let not_sent = |kind, why: String| Definite::new(kind, why);
        let route = self.routes.get(&claimed.provider).ok_or_else(|| {
            not_sent(
                FailureKind::NotExecuted,
                format!("this worker has no provider {}", claimed.provider),
            )
        })?;
        let contract = self.contracts.get(&claimed.contract).cloned().ok_or_else(|| {
            not_sent(
                FailureKind::NotExecuted,
                format!("this worker has no contract {}", claimed.contract),
            )
        })?;
        let (input, prompt) = render(&contract, claimed.input.clone())
            .await
            .map_err(|why| not_sent(FailureKind::Poison, why))?;
        // It was frozen since it claimed: others may have decided meanwhile that it is dead.
        if began.elapsed() > ms(self.config.dead_after_ms) / 2 {
            let why = "the worker stood still between its claim and the call; nothing was sent";
            return Err(not_sent(FailureKind::NotExecuted, why.to_owned()));
        }
        let called = self.call(claimed, route, prompt).await;
        Ok(check(claimed, route, contract, input, called).await)
    }

    /// One submission, given up at its limit or when the process must end.
    async fn call(&self, claimed: &Claimed, route: &Route, prompt: Prompt) -> Called {
        let began = Instant::now();
        let (sign, mut signed) = oneshot::channel();
        let call = Call {
            attempt: claimed.identity.attempt,
            traceparent: claimed.identity.traceparent(rand::random()),
            prompt,
            limit: claimed.limit,
        };
        let mut seen = route.provider.submit(call, Acknowledged::new(sign));
        let mut acknowledged_at = None;
        let lost = || WireSeen::NoAnswer {
            detail: "the worker was stopped, and its drain time ended before the provider answered".to_owned(),
        };
        let ended = tokio::select! {
            biased;
            ended = &mut seen => ended,
            () = self.drained.cancelled() => lost(),
            Ok(()) = &mut signed => {
                acknowledged_at = Some(clock::now());
                tokio::select! {
                    biased;
                    ended = &mut seen => ended,
                    () = tokio::time::sleep(SIGN_AFTER) => {
                        self.mark_running(claimed);
                        tokio::select! {
                            biased;
                            ended = &mut seen => ended,
                            () = self.drained.cancelled() => lost(),
                        }
                    }
                }
            }
        };
        let meaning = ended.meaning();
        metrics::provider_call(&claimed.provider, metrics::CallOutcome::of(&meaning), began.elapsed());
        Called {
            meaning,
            acknowledged_at,
        }
    }

    /// Writes `starting → running` beside the call.
    fn mark_running(&self, claimed: &Claimed) {
        metrics::attempt(&claimed.provider, claimed.cause, AttemptState::Running);
        let sign = Acknowledgement {
            attempt: claimed.identity.attempt,
            hedge_after: claimed.hedge_after,
        };
        let (writers, drained) = (self.writers.clone(), self.drained.clone());
        tokio::spawn(async move {
            if writers.acknowledge(sign, &drained).await.is_err() {
                tracing::debug!(attempt_id = %sign.attempt, "its first sign was not stored before the process stopped");
            }
        }
        .in_current_span());
    }
}

/// What the answer is worth under the contract.
async fn check<'a>(
    claimed: &'a Claimed,
    route: &Route,
    contract: Arc<Contract>,
    input: Json,
    called: Called,
) -> Outcome<'a> {
    let Called {
        meaning,
        acknowledged_at,
    } = called;
    let cost = |usage: Option<Usage>| Some(route.config.price?.cost(&usage?));
    let answer = match meaning {
        Meaning::Failed(definite) => {
            return Outcome::Failed {
                cost: cost(definite.usage),
                definite,
            };
        }
        Meaning::Unknown { reason } => return Outcome::Unknown { reason },
        Meaning::Answer(answer) => answer,
    };
    let usage = answer.usage;
    let broken = |detail: String, raw: Bytes| {
        let definite = Definite::new(FailureKind::ContractViolation, detail);
        Outcome::Failed {
            definite: Definite {
                usage,
                raw: Some(raw),
                ..definite
            },
            cost: cost(usage),
        }
    };
    if let Some(model) = answer
        .served_model
        .as_deref()
        .filter(|model| !route.config.serves(model))
    {
        let shown: String = model.chars().take(100).collect();
        let asked = &route.config.model;
        return broken(format!("{asked:?} was asked for, and {shown:?} answered"), answer.text);
    }
    let text = answer.text;
    let checked = if text.len() > BLOCKING_ABOVE {
        let bytes = text.clone();
        let check = move || contract.check_answer(&input, bytes);
        match tokio::task::spawn_blocking(check).await {
            Ok(checked) => checked,
            // The check itself broke down on this answer: it would again.
            Err(error) => return broken(format!("the answer could not be checked: {error}"), text),
        }
    } else {
        contract.check_answer(&input, text.clone())
    };
    match checked {
        Ok(checked) => Outcome::Answered {
            claimed,
            result: checked.into_raw(),
            usage,
            cost: cost(usage),
            acknowledged_at,
        },
        Err(violation) => broken(violation.sentence, text),
    }
}

/// The input's value and its prompt; large inputs are worked on where they hold nobody up.
async fn render(contract: &Arc<Contract>, input: String) -> Result<(Json, Prompt), String> {
    let contract = Arc::clone(contract);
    let large = input.len() > BLOCKING_ABOVE;
    let work = move || {
        let value =
            Json::parse(input.as_bytes(), Json::DEEPEST).map_err(|error| format!("the stored input: {error}"))?;
        let prompt = contract.render(&value).map_err(|error| error.to_string())?;
        Ok((value, prompt))
    };
    if large {
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| Err(format!("rendering broke down: {error}")))
    } else {
        work()
    }
}

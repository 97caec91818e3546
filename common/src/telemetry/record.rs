//! Counts what a change of a job did.

use super::metrics;
use crate::domain::{AttemptState, Cause, Effect};
use crate::store::job::Changed;

/// Counts each effect. `by` is what brought the change, should it settle an unknown; `cost` what the late result cost.
pub fn record(changed: &Changed, by: metrics::ResolvedBy, cost: Option<f64>) {
    let job = &changed.job;
    for effect in &changed.effects {
        match effect {
            Effect::Move { number, from, to, .. } => {
                let Some(attempt) = job.attempt(*number) else { continue };
                metrics::attempt(&attempt.provider, attempt.cause, *to);
                if *from == AttemptState::Unknown {
                    metrics::unknown_resolved(&attempt.provider, by, *to);
                }
            }
            Effect::Close { state, .. } => {
                let age = (changed.at - changed.created_at).to_std().unwrap_or_default();
                metrics::job_done(&job.contract, *state, age);
            }
            Effect::Start { provider, cause, .. } => metrics::attempt(provider, *cause, AttemptState::Queued),
            Effect::Loss { number, reason } => {
                if let Some(attempt) = job.attempt(*number) {
                    metrics::race_lost(&attempt.provider, *reason, cost);
                }
            }
            Effect::Blocked { provider } => metrics::failover_blocked(provider, &job.contract),
            Effect::Reopen | Effect::AskCancel { .. } => {}
        }
    }
}

/// Counts the first attempt of a job that was accepted.
pub fn accepted(provider: &crate::domain::ProviderName) {
    metrics::attempt(provider, Cause::First, AttemptState::Queued);
}

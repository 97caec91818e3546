//! Policy: what a client may decide about the tries at its intent, and what follows an attempt that ended (design §5).

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{FailureKind, ProviderName, RetryAfter};

/// A job's policy with the API's defaults filled in. What configuration decides (a provider's time-out) stays absent, so
/// that a deployment never turns a repeat into another intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// How many attempts there may be, manual ones not counted.
    pub max_attempts: u16,
    /// The limit of one call, in milliseconds; absent: the provider's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// From the job's creation, in milliseconds: past it nothing new starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The providers that may take over, in order, each only while it holds a certificate.
    #[serde(default)]
    pub fallback: Vec<ProviderName>,
    /// How long an attempt may run before a competitor is started, in milliseconds; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedge_after_ms: Option<u64>,
}

impl Policy {
    /// `max_attempts` where the client says nothing.
    pub const DEFAULT_MAX_ATTEMPTS: u16 = 3;
    /// The most attempts that a policy may ask for.
    pub const MOST_ATTEMPTS: u16 = 20;
    /// The longest `timeout_ms` and `hedge_after_ms`: 24 hours.
    pub const LONGEST_CALL_MS: u64 = 24 * 3_600_000;
    /// The longest `deadline_ms`: 30 days.
    pub const LONGEST_DEADLINE_MS: u64 = 30 * 24 * 3_600_000;
    /// The most providers that `fallback` may name.
    pub const MOST_FALLBACKS: usize = 8;
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_attempts: Self::DEFAULT_MAX_ATTEMPTS,
            timeout_ms: None,
            deadline_ms: None,
            fallback: Vec::new(),
            hedge_after_ms: None,
        }
    }
}

/// What follows an attempt that ended, where the job is open and nothing else is in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowUp {
    /// The same provider again, not before `run_at`.
    Retry {
        /// When it may start.
        run_at: DateTime<Utc>,
    },
    /// Another, certified provider, at once.
    Fallback {
        /// Which one.
        provider: ProviderName,
    },
    /// Nothing: the job fails.
    Fail {
        /// With this kind.
        kind: FailureKind,
    },
}

/// What [`follow_up`] looks at. Everything that is not the policy's own is an argument.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// How the attempt ended; a cancelled one counts as `not_executed`.
    pub kind: FailureKind,
    /// How long the provider asked to be left alone.
    pub retry_after: Option<RetryAfter>,
    /// How many attempts there were that count against `max_attempts`.
    pub counted: u16,
    /// How many attempts in a row the same provider has had, this one included.
    pub tries_on_provider: u32,
    /// The first provider of `fallback` that is certified and was not tried.
    pub fallback: Option<&'a ProviderName>,
    /// When the job may not start anything new any more.
    pub deadline: Option<DateTime<Utc>>,
}

/// What follows (design §5). `now` and `jitter` (0 to 1, drawn evenly) are the caller's.
#[must_use]
pub fn follow_up(policy: &Policy, ended: &Ended<'_>, now: DateTime<Utc>, jitter: f64) -> FollowUp {
    if ended.deadline.is_some_and(|deadline| deadline <= now) {
        return FollowUp::Fail {
            kind: FailureKind::Deadline,
        };
    }
    let left = policy.max_attempts.saturating_sub(ended.counted);
    let fail = FollowUp::Fail { kind: ended.kind };
    if left == 0 {
        return fail;
    }
    let fallback = ended.fallback.map(|provider| FollowUp::Fallback {
        provider: provider.clone(),
    });
    match ended.kind {
        FailureKind::RateLimited
        | FailureKind::Overloaded
        | FailureKind::ProviderError
        | FailureKind::Unreachable
        | FailureKind::NotExecuted => {
            let retry = || FollowUp::Retry {
                run_at: now + backoff(ended.tries_on_provider, ended.retry_after, jitter),
            };
            if left == 1 {
                fallback.unwrap_or_else(retry)
            } else {
                retry()
            }
        }
        FailureKind::ContractViolation | FailureKind::Truncated | FailureKind::Refused => fallback.unwrap_or(fail),
        FailureKind::Rejected | FailureKind::Poison | FailureKind::Deadline => fail,
    }
}

/// The pause before the same provider is asked again: 0.5 s, doubled with each try up to 60 s, ±50 % jitter so that
/// jobs which failed together do not return together; never before `Retry-After`.
#[must_use]
pub fn backoff(tries: u32, retry_after: Option<RetryAfter>, jitter: f64) -> Duration {
    let base = Duration::from_millis(500).saturating_mul(2u32.saturating_pow(tries.saturating_sub(1).min(10)));
    let own = base.min(Duration::from_secs(60)).mul_f64(0.5 + jitter.clamp(0.0, 1.0));
    // The jitter goes on top of a hint: everybody was given the same one.
    retry_after.map_or(own, |hint| own.max(hint.pause() + own.min(hint.pause().mul_f64(0.1))))
}

//! Design §5, "Policy": a test for each row.

use std::time::Duration;

use proptest::prelude::*;

use super::super::{Ended, FailureKind, FollowUp, Policy, RetryAfter, backoff, follow_up};
use super::{at, provider};

const AGAIN: [FailureKind; 5] = [
    FailureKind::RateLimited,
    FailureKind::Overloaded,
    FailureKind::ProviderError,
    FailureKind::Unreachable,
    FailureKind::NotExecuted,
];
const ELSEWHERE: [FailureKind; 3] = [
    FailureKind::ContractViolation,
    FailureKind::Truncated,
    FailureKind::Refused,
];
const NEVER: [FailureKind; 2] = [FailureKind::Rejected, FailureKind::Poison];

/// What follows when `counted` of three attempts are used up, with a certified fallback or none.
fn next(kind: FailureKind, counted: u16, certified: bool) -> FollowUp {
    let fallback = provider("b");
    let ended = Ended {
        kind,
        retry_after: None,
        counted,
        tries_on_provider: 1,
        fallback: certified.then_some(&fallback),
        deadline: None,
    };
    follow_up(&Policy::default(), &ended, at(0), 0.5)
}

fn fallback() -> FollowUp {
    FollowUp::Fallback {
        provider: provider("b"),
    }
}

#[test]
fn a_passing_trouble_is_retried_on_the_same_provider() {
    for kind in AGAIN {
        for certified in [true, false] {
            assert!(matches!(next(kind, 1, certified), FollowUp::Retry { .. }), "{kind}");
        }
    }
}

#[test]
fn the_last_attempt_allowed_goes_to_a_certified_fallback_if_there_is_one() {
    for kind in AGAIN {
        assert_eq!(next(kind, 2, true), fallback(), "{kind}");
        assert!(matches!(next(kind, 2, false), FollowUp::Retry { .. }), "{kind}");
    }
}

#[test]
fn a_bad_answer_goes_to_a_certified_fallback_and_else_fails_the_job() {
    for kind in ELSEWHERE {
        assert_eq!(next(kind, 1, true), fallback(), "{kind}");
        assert_eq!(next(kind, 1, false), FollowUp::Fail { kind });
    }
}

#[test]
fn what_would_be_refused_again_fails_the_job() {
    for kind in NEVER {
        assert_eq!(next(kind, 1, true), FollowUp::Fail { kind });
    }
}

#[test]
fn without_attempts_left_the_job_fails_with_the_kind_of_the_last_one() {
    for kind in AGAIN.into_iter().chain(ELSEWHERE).chain(NEVER) {
        for counted in [3, 4] {
            assert_eq!(next(kind, counted, true), FollowUp::Fail { kind });
        }
    }
}

#[test]
fn past_the_deadline_nothing_starts() {
    let b = provider("b");
    for kind in FailureKind::ALL.iter().copied() {
        let ended = Ended {
            kind,
            retry_after: None,
            counted: 1,
            tries_on_provider: 1,
            fallback: Some(&b),
            deadline: Some(at(0)),
        };
        let deadline = FollowUp::Fail {
            kind: FailureKind::Deadline,
        };
        assert_eq!(follow_up(&Policy::default(), &ended, at(0), 0.5), deadline, "{kind}");
    }
}

#[test]
fn the_pause_doubles_up_to_a_minute() {
    let pauses: Vec<u128> = (1..=9).map(|tries| backoff(tries, None, 0.5).as_millis()).collect();
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
}

proptest! {
    #[test]
    fn a_retry_never_comes_before_retry_after(tries in 0u32..1000, hint in 0u64..900_000, jitter in 0.0f64..=1.0) {
        let hint = Duration::from_millis(hint);
        let pause = backoff(tries, Some(RetryAfter::of(hint)), jitter);
        prop_assert!(pause >= hint);
        prop_assert!(pause <= hint.max(Duration::from_secs(90)) + hint.mul_f64(0.1));
    }

    #[test]
    fn the_pause_is_spread_over_half_to_one_and_a_half(tries in 1u32..100, jitter in 0.0f64..=1.0) {
        let (pause, middle) = (backoff(tries, None, jitter), backoff(tries, None, 0.5));
        prop_assert!(pause >= middle / 2 && pause <= middle * 3 / 2);
    }
}

//! What [`decide`](super::decide) grants, what it refuses, and what it leaves alone.

use super::super::{
    AttemptState as A, Cause, Effect, Event, FailureKind, Illegal, JobError, JobState, LossReason, PublicState,
    Resolution, Unsettled,
};
use super::{at, decided, job, number, provider};

fn moved(n: u16, from: A, to: A) -> Effect {
    Effect::Move {
        number: number(n),
        from,
        to,
        failure: None,
    }
}

fn start(n: u16, name: &str, cause: Cause) -> Effect {
    Effect::Start {
        number: number(n),
        provider: provider(name),
        cause,
        run_at: at(1),
    }
}

const fn new_attempt(hedge: bool) -> Event {
    Event::NewAttempt { provider: None, hedge }
}

fn answered(n: u16) -> Event {
    Event::Answered { number: number(n) }
}

#[test]
fn the_first_answer_takes_the_slot_and_the_second_is_lost() {
    let mut race = job(JobState::Open, &[A::Running, A::Running]);
    let won = decided(&race, &answered(2), &[]).unwrap();
    assert_eq!(
        won,
        [
            moved(2, A::Running, A::Succeeded),
            Effect::Close {
                state: JobState::Succeeded,
                completed_by: Some(number(2)),
                error: None
            },
            Effect::AskCancel { number: number(1) },
        ]
    );
    for effect in &won {
        race.apply(effect, at(1));
    }
    let late = Effect::Loss {
        number: number(1),
        reason: LossReason::Late,
    };
    assert_eq!(
        decided(&race, &answered(1), &[]).unwrap(),
        [moved(1, A::Running, A::Lost), late]
    );
}

#[test]
fn an_answer_closes_the_slot_over_what_is_still_queued() {
    let waiting = job(JobState::Open, &[A::Running, A::Queued]);
    let effects = decided(&waiting, &answered(1), &[]).unwrap();
    assert!(effects.contains(&moved(2, A::Queued, A::Cancelled)), "{effects:?}");
}

#[test]
fn an_unknown_attempt_takes_late_evidence() {
    let effects = decided(&job(JobState::Open, &[A::Unknown]), &answered(1), &[]).unwrap();
    assert_eq!(effects[0], moved(1, A::Unknown, A::Succeeded));
}

#[test]
fn an_answer_after_a_cancel_is_lost_for_that_reason() {
    let effects = decided(&job(JobState::Cancelled, &[A::Running]), &answered(1), &[]).unwrap();
    let reason = LossReason::AfterCancel;
    let loss = Effect::Loss {
        number: number(1),
        reason,
    };
    assert_eq!(effects, [moved(1, A::Running, A::Lost), loss]);
}

#[test]
fn evidence_against_a_final_state_is_counted_and_changes_nothing() {
    for state in [A::Failed, A::Cancelled] {
        let effects = decided(&job(JobState::Failed, &[state]), &answered(1), &[]).unwrap();
        let reason = LossReason::AfterResolution;
        assert_eq!(
            effects,
            [Effect::Loss {
                number: number(1),
                reason
            }]
        );
    }
    for (job_state, state) in [(JobState::Succeeded, A::Succeeded), (JobState::Cancelled, A::Lost)] {
        assert_eq!(decided(&job(job_state, &[state]), &answered(1), &[]).unwrap(), []);
    }
}

#[test]
fn an_attempt_of_an_earlier_version_cannot_settle_a_reopened_job() {
    let mut reopened = job(JobState::Open, &[A::Unknown]);
    reopened.version = 3;
    let effects = decided(&reopened, &answered(1), &[]).unwrap();
    assert_eq!(effects[0], moved(1, A::Unknown, A::Lost));
}

#[test]
fn a_new_attempt_is_refused_while_one_is_unsettled() {
    for state in [A::Queued, A::Starting, A::Unknown] {
        for hedge in [true, false] {
            let refused = decided(&job(JobState::Open, &[state]), &new_attempt(hedge), &["a"]);
            let unsettled = Unsettled {
                number: number(1),
                state,
                since: at(0),
            };
            assert_eq!(refused, Err(Illegal::Unsettled(unsettled)), "{state} {hedge}");
        }
    }
}

#[test]
fn beside_a_running_attempt_only_a_hedge_may_start() {
    let running = job(JobState::Open, &[A::Running]);
    assert!(matches!(
        decided(&running, &new_attempt(false), &[]),
        Err(Illegal::Unsettled(_))
    ));
    assert_eq!(
        decided(&running, &new_attempt(true), &[]).unwrap(),
        [start(2, "a", Cause::Hedge)]
    );
    // What blocks a hedge too is named first, wherever it stands.
    let both = job(JobState::Open, &[A::Running, A::Unknown]);
    match decided(&both, &new_attempt(true), &[]) {
        Err(Illegal::Unsettled(unsettled)) => assert_eq!(unsettled.number, number(2)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_provider_needs_a_certificate_the_jobs_own_does_not() {
    let failed = job(JobState::Failed, &[A::Failed]);
    let on = |name: &str| Event::NewAttempt {
        provider: Some(provider(name)),
        hedge: false,
    };
    assert!(matches!(
        decided(&failed, &on("b"), &["c"]),
        Err(Illegal::NotCertified(..))
    ));
    assert_eq!(
        decided(&failed, &on("b"), &["b"]).unwrap(),
        [Effect::Reopen, start(2, "b", Cause::Manual)]
    );
    assert_eq!(
        decided(&failed, &on("a"), &[]).unwrap(),
        [Effect::Reopen, start(2, "a", Cause::Manual)]
    );
}

#[test]
fn a_job_that_succeeded_or_was_cancelled_takes_no_attempt() {
    for (state, attempt) in [(JobState::Succeeded, A::Succeeded), (JobState::Cancelled, A::Cancelled)] {
        let refused = decided(&job(state, &[attempt]), &new_attempt(true), &["a"]);
        assert_eq!(refused, Err(Illegal::JobFinished(state)));
    }
}

#[test]
fn a_cancel_can_be_repeated_and_leaves_an_unknown_attempt_unknown() {
    let effects = decided(&job(JobState::Open, &[A::Unknown]), &Event::CancelRequested, &[]).unwrap();
    let close = Effect::Close {
        state: JobState::Cancelled,
        completed_by: None,
        error: None,
    };
    assert_eq!(effects, [close, Effect::AskCancel { number: number(1) }]);
    let cancelled = job(JobState::Cancelled, &[A::Unknown]);
    assert_eq!(decided(&cancelled, &Event::CancelRequested, &[]).unwrap(), []);
    for (state, attempt) in [(JobState::Succeeded, A::Succeeded), (JobState::Failed, A::Failed)] {
        let refused = decided(&job(state, &[attempt]), &Event::CancelRequested, &[]);
        assert_eq!(refused, Err(Illegal::JobFinished(state)));
    }
}

#[test]
fn only_an_unknown_attempt_can_be_resolved() {
    for state in A::ALL.iter().copied().filter(|state| *state != A::Unknown) {
        for resolution in [Resolution::NotExecuted, Resolution::Cancelled, Resolution::Succeeded] {
            let event = Event::Resolved {
                number: number(1),
                resolution,
            };
            assert_eq!(
                decided(&job(JobState::Open, &[state]), &event, &[]),
                Err(Illegal::NotUnknown(state))
            );
        }
    }
}

#[test]
fn policy_waits_for_a_sibling_that_is_unsettled() {
    for sibling in [A::Running, A::Unknown] {
        let event = Event::Failed {
            number: number(2),
            kind: FailureKind::Overloaded,
            retry_after: None,
        };
        let effects = decided(&job(JobState::Open, &[sibling, A::Running]), &event, &["b"]).unwrap();
        assert_eq!(effects.len(), 1, "{sibling}: {effects:?}");
    }
}

#[test]
fn a_refused_fallback_is_named_in_the_jobs_error() {
    let mut only = job(JobState::Open, &[A::Running]);
    only.policy.fallback = vec![provider("b")];
    let event = Event::Failed {
        number: number(1),
        kind: FailureKind::Refused,
        retry_after: None,
    };
    let effects = decided(&only, &event, &[]).unwrap();
    let error = JobError {
        kind: FailureKind::Refused,
        blocked: vec![provider("b")],
    };
    assert_eq!(
        effects[1],
        Effect::Blocked {
            provider: provider("b")
        }
    );
    assert_eq!(
        effects[2],
        Effect::Close {
            state: JobState::Failed,
            completed_by: None,
            error: Some(error)
        }
    );
}

#[test]
fn a_deadline_cancels_what_is_queued_and_fails_a_job_with_nothing_in_flight() {
    let due = |attempts: &[A]| {
        let mut late = job(JobState::Open, attempts);
        late.deadline = Some(at(1));
        decided(&late, &Event::DeadlineDue, &[]).unwrap()
    };
    let queued = due(&[A::Failed, A::Queued]);
    assert_eq!(queued[0], moved(2, A::Queued, A::Cancelled));
    assert!(matches!(
        queued[1],
        Effect::Close {
            state: JobState::Failed,
            ..
        }
    ));
    for in_flight in [A::Starting, A::Running, A::Unknown] {
        assert_eq!(due(&[in_flight]), [], "{in_flight}");
    }
    let mut early = job(JobState::Open, &[A::Queued]);
    early.deadline = Some(at(2));
    assert_eq!(decided(&early, &Event::DeadlineDue, &[]).unwrap(), []);
}

#[test]
fn a_claim_needs_an_open_job_and_an_attempt_that_is_queued_and_due() {
    let claim = Event::Claim { number: number(1) };
    let queued = job(JobState::Open, &[A::Queued]);
    assert_eq!(
        decided(&queued, &claim, &[]).unwrap(),
        [moved(1, A::Queued, A::Starting)]
    );
    for state in A::ALL.iter().copied().filter(|state| *state != A::Queued) {
        let refused = decided(&job(JobState::Open, &[state]), &claim, &[]);
        assert_eq!(refused, Err(Illegal::NotClaimable(state)));
    }
    let mut later = queued.clone();
    later.attempts[0].run_at = at(2);
    let mut past = queued;
    past.deadline = Some(at(1));
    for not_now in [later, past] {
        assert_eq!(decided(&not_now, &claim, &[]), Err(Illegal::NotClaimable(A::Queued)));
    }
    assert_eq!(
        decided(&job(JobState::Cancelled, &[A::Queued]), &claim, &[]),
        Err(Illegal::JobFinished(JobState::Cancelled))
    );
}

#[test]
fn a_hedge_starts_once_beside_one_running_attempt_on_a_certified_provider_that_was_not_tried() {
    let mut slow = job(JobState::Open, &[A::Running]);
    slow.policy.fallback = vec![provider("a"), provider("b"), provider("c")];
    slow.policy.hedge_after_ms = Some(10);
    let due = Event::HedgeDue { number: number(1) };
    assert_eq!(
        decided(&slow, &due, &["a", "c"]).unwrap(),
        [
            Effect::Blocked {
                provider: provider("b")
            },
            start(2, "c", Cause::Hedge)
        ]
    );
    let mut spent = slow.clone();
    spent.policy.max_attempts = 1;
    let mut silent = slow.clone();
    silent.attempts[0].state = A::Starting;
    let mut beside = slow.clone();
    beside
        .attempts
        .extend(job(JobState::Open, &[A::Failed, A::Unknown]).attempts.pop());
    for not_now in [spent, silent, beside] {
        assert_eq!(decided(&not_now, &due, &["a", "b", "c"]).unwrap(), [], "{not_now:?}");
    }
}

#[test]
fn an_open_job_reads_as_its_attempts_do() {
    let read = |attempts: &[A]| PublicState::of(JobState::Open, attempts.iter().copied());
    assert_eq!(read(&[A::Queued]), PublicState::Queued);
    assert_eq!(read(&[A::Failed, A::Queued]), PublicState::Queued);
    assert_eq!(read(&[A::Starting]), PublicState::Running);
    assert_eq!(read(&[A::Unknown]), PublicState::Unknown);
    assert_eq!(read(&[A::Unknown, A::Running]), PublicState::Running);
    for (state, public) in [
        (JobState::Succeeded, PublicState::Succeeded),
        (JobState::Failed, PublicState::Failed),
        (JobState::Cancelled, PublicState::Cancelled),
    ] {
        assert_eq!(PublicState::of(state, [A::Running, A::Unknown]), public);
    }
}

//! Random histories: whatever happens in whatever order, the guarantees hold.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::{
    AttemptState as A, Cause, Context, Effect, Event, FailureKind, Job, JobState, Policy, PublicState, Resolution,
    RetryAfter, decide,
};
use super::{at, job, number, provider};

#[derive(Debug, Clone)]
struct Step {
    event: Event,
    seconds: i64,
    certified: bool,
}

fn event() -> impl Strategy<Value = Event> {
    let n = || (1u16..=6).prop_map(number);
    let kinds = prop::sample::select(
        FailureKind::ALL
            .iter()
            .copied()
            .filter(|kind| *kind != FailureKind::Deadline)
            .collect::<Vec<_>>(),
    );
    let resolution = prop::sample::select(vec![
        Resolution::NotExecuted,
        Resolution::Cancelled,
        Resolution::Succeeded,
    ]);
    let name = prop::sample::select(vec![None, Some("a"), Some("b"), Some("c")]);
    prop_oneof![
        6 => n().prop_map(|number| Event::Claim { number }),
        4 => n().prop_map(|number| Event::Acknowledged { number }),
        2 => n().prop_map(|number| Event::Answered { number }),
        4 => (n(), kinds, prop::option::of(0u64..4)).prop_map(|(number, kind, hint)| Event::Failed {
            number,
            kind,
            retry_after: hint.map(|seconds| RetryAfter::of(std::time::Duration::from_secs(seconds))),
        }),
        3 => n().prop_map(|number| Event::ContactLost { number }),
        1 => n().prop_map(|number| Event::ProviderCancelled { number }),
        3 => (n(), resolution).prop_map(|(number, resolution)| Event::Resolved { number, resolution }),
        1 => Just(Event::CancelRequested),
        4 => (name, any::<bool>()).prop_map(|(name, hedge)| Event::NewAttempt { provider: name.map(provider), hedge }),
        3 => n().prop_map(|number| Event::HedgeDue { number }),
        1 => Just(Event::DeadlineDue),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (event(), 0i64..4, any::<bool>()).prop_map(|(event, seconds, certified)| Step {
        event,
        seconds,
        certified,
    });
    prop::collection::vec(step, 1..60)
}

fn begin(max_attempts: u16, deadline: Option<i64>, hedges: bool) -> Job {
    let mut begun = job(JobState::Open, &[A::Queued]);
    begun.policy = Policy {
        max_attempts,
        fallback: vec![provider("b"), provider("c")],
        hedge_after_ms: hedges.then_some(10),
        ..Policy::default()
    };
    begun.deadline = deadline.map(at);
    begun
}

/// Which ways between states there are (design §2).
const fn may_move(from: A, to: A) -> bool {
    match from {
        A::Queued => matches!(to, A::Starting | A::Cancelled),
        A::Starting => matches!(
            to,
            A::Running | A::Unknown | A::Succeeded | A::Lost | A::Failed | A::Cancelled
        ),
        A::Running => matches!(to, A::Unknown | A::Succeeded | A::Lost | A::Failed | A::Cancelled),
        A::Unknown => matches!(to, A::Succeeded | A::Lost | A::Failed | A::Cancelled),
        A::Succeeded | A::Lost | A::Failed | A::Cancelled => false,
    }
}

/// Applies what is decided, and checks what must hold of every single step.
fn step(job: &mut Job, step: &Step, now: i64) {
    let context = Context {
        now: at(now),
        jitter: 0.5,
        certified: &|name| step.certified || name.as_str() == "b",
    };
    let before = job.clone();
    let Ok(effects) = decide(job, &step.event, &context) else {
        return;
    };
    let mut slots = 0;
    for effect in &effects {
        match effect {
            Effect::Move {
                number,
                from,
                to,
                failure,
            } => {
                let attempt = job.attempt(*number).unwrap();
                assert_eq!(attempt.state, *from, "it is moved from where it stands");
                assert!(may_move(*from, *to), "{from} → {to}");
                assert_eq!(*to == A::Failed, failure.is_some(), "a failure has its kind");
            }
            Effect::Start {
                number: new,
                cause,
                provider,
                ..
            } => {
                let unsettled = |a: &&super::Attempt| a.state.blocks_new_attempts();
                let blocking = job.attempts.iter().find(unsettled);
                assert!(
                    blocking.is_none(),
                    "nothing starts while something is unsettled: {blocking:?}"
                );
                assert_eq!(new.get() - 1, job.attempts.last().unwrap().number.get());
                assert_eq!(job.state, JobState::Open, "nothing starts on a closed job");
                assert!(job.deadline.is_none_or(|deadline| deadline > at(now)));
                assert!(
                    provider == &job.provider || (context.certified)(provider),
                    "only certified ones take over"
                );
                if *cause != Cause::Manual && !matches!(step.event, Event::NewAttempt { .. }) {
                    assert!(job.counted() < job.policy.max_attempts, "policy keeps to its budget");
                }
                if *cause == Cause::Hedge {
                    assert!(job.attempts.iter().any(|a| a.state == A::Running));
                }
            }
            Effect::Close {
                state,
                completed_by,
                error,
            } => {
                slots += 1;
                assert_eq!(job.state, JobState::Open);
                assert_eq!(job.completed_by, None, "the slot is written once");
                assert_eq!(*state == JobState::Failed, error.is_some());
                assert_eq!(*state == JobState::Succeeded, completed_by.is_some());
            }
            Effect::Reopen => {
                slots += 1;
                assert_eq!(job.state, JobState::Failed);
            }
            Effect::Loss { .. } | Effect::Blocked { .. } | Effect::AskCancel { .. } => {}
        }
        job.apply(effect, at(now));
    }
    assert_eq!(
        job.version,
        before.version + slots,
        "the version moves with the slot alone"
    );
    assert!(slots <= 1);
    check(&before, job);
}

/// What must hold of a job between any two steps.
fn check(before: &Job, after: &Job) {
    for (old, new) in before.attempts.iter().zip(&after.attempts) {
        assert!(!old.state.is_final() || old == new, "final states never change");
        assert_eq!(
            (&old.provider, old.cause, old.job_version),
            (&new.provider, new.cause, new.job_version)
        );
    }
    if before.completed_by.is_some() {
        assert_eq!(
            (before.completed_by, before.state),
            (after.completed_by, after.state),
            "a result stays"
        );
    }
    let pending = |a: &&super::Attempt| matches!(a.state, A::Queued | A::Starting);
    assert!(
        after.attempts.iter().filter(pending).count() <= 1,
        "one is queued or starting"
    );
    let winners: Vec<_> = after.attempts.iter().filter(|a| a.state == A::Succeeded).collect();
    assert_eq!(winners.first().map(|winner| winner.number), after.completed_by);
    assert!(winners.len() <= 1);
    if after.state == JobState::Failed {
        assert!(
            after.attempts.iter().all(|a| a.state.is_final()),
            "a job fails with nothing alive"
        );
    }
    if after.state.is_closed() {
        assert!(
            after.attempts.iter().all(|a| a.state != A::Queued),
            "closing cancels what is queued"
        );
    } else {
        assert!(
            after.attempts.iter().any(|a| !a.state.is_final()),
            "an open job has something that will move it: {after:?}"
        );
    }
}

/// The ways out that the outside has: claims, answers, the operator's word.
fn lead_out(job: &mut Job, mut now: i64) {
    for _ in 0..50 {
        if job.state.is_closed() && job.attempts.iter().all(|a| a.state.is_final()) {
            return;
        }
        now += 100;
        let unsettled = job.attempts.iter().find(|a| !a.state.is_final()).unwrap();
        let number = unsettled.number;
        let event = match unsettled.state {
            A::Queued if job.deadline.is_some_and(|deadline| deadline <= at(now)) => Event::DeadlineDue,
            A::Queued => Event::Claim { number },
            A::Unknown => Event::Resolved {
                number,
                resolution: Resolution::NotExecuted,
            },
            A::Starting | A::Running | A::Succeeded | A::Lost | A::Failed | A::Cancelled => Event::Answered { number },
        };
        step(
            job,
            &Step {
                event,
                seconds: 0,
                certified: true,
            },
            now,
        );
    }
    panic!("there is no way out of {job:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_guarantees_hold(
        steps in steps(),
        max_attempts in 1u16..=4,
        deadline in prop::option::of(1i64..60),
        hedges in any::<bool>(),
    ) {
        let (mut job, mut now) = (begin(max_attempts, deadline, hedges), 0);
        for one in &steps {
            now += one.seconds;
            step(&mut job, one, now);
        }
        lead_out(&mut job, now);
    }
}

/// A history that never gets anywhere proves nothing: what the strategy reaches is counted.
#[test]
fn the_histories_reach_every_state_and_cause() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut public, mut states, mut causes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for round in 0..2_000u16 {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        let deadline = (round % 3 == 0).then_some(20);
        let (mut job, mut now) = (begin(1 + round % 4, deadline, round % 2 == 0), 0);
        for one in &steps {
            now += one.seconds;
            step(&mut job, one, now);
            public.insert(job.public_state());
            states.extend(job.attempts.iter().map(|a| a.state));
            causes.extend(job.attempts.iter().map(|a| a.cause));
        }
    }
    assert_eq!(public, PublicState::ALL.iter().copied().collect());
    assert_eq!(states, A::ALL.iter().copied().collect());
    assert_eq!(
        causes,
        [Cause::First, Cause::Retry, Cause::Fallback, Cause::Hedge, Cause::Manual].into()
    );
}

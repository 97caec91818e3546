//! The tables of the design row by row, the rules of [`decide`](super::decide), and random histories.

mod histories;
mod meaning;
mod policy;
mod rules;

use chrono::{DateTime, Duration, Utc};

use super::{
    Attempt, AttemptNumber, AttemptState, Cause, Context, Effect, Event, Illegal, Job, JobState, Policy, ProviderName,
    decide,
};

/// Midnight, `seconds` later: the tests have a clock of their own.
fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap() + Duration::seconds(seconds)
}

fn number(number: u16) -> AttemptNumber {
    AttemptNumber::new(number).unwrap()
}

fn provider(name: &str) -> ProviderName {
    name.parse().unwrap()
}

/// A job of provider `a` with one attempt for each state, all on `a`.
fn job(state: JobState, attempts: &[AttemptState]) -> Job {
    let winner = attempts.iter().position(|state| *state == AttemptState::Succeeded);
    let attempts: Vec<Attempt> = (1..)
        .zip(attempts)
        .map(|(n, &state)| Attempt {
            number: number(n),
            provider: provider("a"),
            cause: if n == 1 { Cause::First } else { Cause::Retry },
            state,
            job_version: 1,
            run_at: at(0),
            since: at(0),
            failure: (state == AttemptState::Failed).then_some(super::FailureKind::Overloaded),
        })
        .collect();
    Job {
        id: "018f0000-0000-7000-8000-000000000001".parse().unwrap(),
        owner: "owner".parse().unwrap(),
        contract: "triage@1".parse().unwrap(),
        provider: provider("a"),
        policy: Policy::default(),
        version: if state == JobState::Open { 1 } else { 2 },
        state,
        completed_by: winner.map(|place| attempts[place].number),
        deadline: None,
        attempts,
    }
}

/// Decides at second 1, with only the providers of `certified` certified.
fn decided(job: &Job, event: &Event, certified: &[&str]) -> Result<Vec<Effect>, Illegal> {
    decide(
        job,
        event,
        &Context {
            now: at(1),
            jitter: 0.5,
            certified: &|name| certified.contains(&name.as_str()),
        },
    )
}

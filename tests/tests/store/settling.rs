//! The one statement that settles does what `decide` says, wherever job and attempt stand.

use onejob_common::domain::{
    Attempt, AttemptNumber, AttemptState, Cause, Context, Event, FailureKind, Job, JobState, Policy, decide,
};
use onejob_tests::database::Database;

use super::{accepted, answer, attempt};

#[tokio::test(flavor = "multi_thread")]
async fn settling_in_one_statement_is_what_the_domain_decides() {
    let database = Database::create().await;
    let mut compared = 0;
    for job_state in JobState::ALL.iter().copied() {
        for state in AttemptState::ALL.iter().copied() {
            for reopened in [false, true] {
                // A winner has a succeeded job; only an open job was reopened.
                let winner = state == AttemptState::Succeeded;
                if (winner && job_state != JobState::Succeeded) || (reopened && job_state != JobState::Open) {
                    continue;
                }
                compare(&database, job_state, state, reopened).await;
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 36);
}

async fn compare(database: &Database, job_state: JobState, state: AttemptState, reopened: bool) {
    let store = &database.store;
    let id = accepted(store).await;
    let winner = match (job_state, state) {
        (JobState::Succeeded, AttemptState::Succeeded) => Some(1),
        (JobState::Succeeded, _) => Some(2),
        _ => None,
    };
    let version: i64 = match (job_state, reopened) {
        (JobState::Open, false) => 1,
        (JobState::Open, true) => 3,
        _ => 2,
    };
    let ended = state.is_final();
    let failed = state == AttemptState::Failed;
    let mut statements = vec![format!(
        "UPDATE attempts SET state = '{state}', started_at = now(), finished_at = CASE WHEN {ended} THEN now() END,
         failure_kind = CASE WHEN {failed} THEN 'overloaded' END WHERE job_id = '{id}'"
    )];
    if winner == Some(2) {
        statements.push(format!(
            "INSERT INTO attempts (job_id, number, owner_id, provider, cause, job_version, state, started_at, finished_at)
             VALUES ('{id}', 2, 'shop', 'primary', 'hedge', 1, 'succeeded', now(), now())"
        ));
    }
    let by = winner.map_or("NULL".to_owned(), |n: u16| n.to_string());
    statements.push(format!(
        "UPDATE jobs SET state = '{job_state}', version = {version}, completed_by = {by},
         result = CASE WHEN '{job_state}' = 'succeeded' THEN 'x'::bytea END,
         error = CASE WHEN '{job_state}' = 'failed' THEN '{{}}'::jsonb END,
         finished_at = CASE WHEN '{job_state}' <> 'open' THEN now() END WHERE id = '{id}'"
    ));
    for statement in statements {
        database.execute(&statement).await.unwrap();
    }

    let mut attempts = vec![part(1, Cause::First, state)];
    if winner == Some(2) {
        attempts.push(part(2, Cause::Hedge, AttemptState::Succeeded));
    }
    let mut job = Job {
        id,
        owner: "shop".parse().unwrap(),
        contract: "ticket-triage@1".parse().unwrap(),
        provider: "primary".parse().unwrap(),
        policy: Policy::default(),
        state: job_state,
        version,
        completed_by: winner.and_then(AttemptNumber::new),
        deadline: None,
        attempts,
    };
    let context = Context {
        now: onejob_common::clock::now(),
        jitter: 0.5,
        certified: &|_| false,
    };
    let event = Event::Answered {
        number: attempt(id, 1).number,
    };
    for effect in decide(&job, &event, &context).unwrap() {
        job.apply(&effect, context.now);
    }

    store.settle(&[answer(attempt(id, 1))]).await.unwrap();
    let stored: (String, i64, Option<i16>, String) = sqlx::query_as(
        "SELECT j.state, j.version, j.completed_by, a.state FROM jobs j JOIN attempts a ON a.job_id = j.id AND a.number = 1
         WHERE j.id = $1",
    )
    .bind(id.as_uuid())
    .fetch_one(store.pool())
    .await
    .unwrap();
    let decided = (
        job.state.to_string(),
        job.version,
        job.completed_by.map(AttemptNumber::as_i16),
        job.attempts[0].state.to_string(),
    );
    assert_eq!(
        stored, decided,
        "{job_state} job, {state} attempt, reopened: {reopened}"
    );
}

fn part(number: u16, cause: Cause, state: AttemptState) -> Attempt {
    let now = onejob_common::clock::now();
    Attempt {
        number: AttemptNumber::new(number).unwrap(),
        provider: "primary".parse().unwrap(),
        cause,
        state,
        job_version: 1,
        run_at: now,
        since: now,
        failure: (state == AttemptState::Failed).then_some(FailureKind::Overloaded),
    }
}

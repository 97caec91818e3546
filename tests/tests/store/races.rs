//! Accept, claim, settle, new attempt: two hundred rounds each. Beside each test stands what goes wrong without its guard.

use onejob_common::domain::{Event, LossReason};
use onejob_common::store::job::{Accepted, NotClaimed, Settled};
use onejob_tests::database::Database;
use onejob_tests::eventually;
use uuid::Uuid;

use super::{
    LONG, RACERS, ROUNDS, accepted, answer, attempt, change, claim, gate, new_attempt, new_job, race, running,
};

/// Without `UNIQUE (owner_id, idempotency_key)` and `ON CONFLICT`, with a look-up before the insert instead: both find
/// nothing, and the double click is two jobs and two bills.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_accepts_of_one_intent_one_makes_the_job_and_all_name_it() {
    let database = Database::create().await;
    for round in 0..ROUNDS {
        let store = &database.store;
        let answers = race((0..RACERS).map(|_| {
            let (store, job) = (store.clone(), new_job(&format!("k{round}"), "{}"));
            async move { (job.id, store.accept(&[job], LONG).await.unwrap().remove(0)) }
        }))
        .await;
        let created: Vec<_> = answers
            .iter()
            .filter(|(_, answer)| matches!(answer, Accepted::Created { .. }))
            .map(|(id, _)| *id)
            .collect();
        assert_eq!(created.len(), 1, "{answers:?}");
        for (own, answer) in &answers {
            let replayed = *answer == Accepted::Replayed { id: created[0] };
            assert!(replayed || *own == created[0], "{answer:?}");
        }
    }
    assert_eq!(database.count("SELECT count(*) FROM jobs").await, 200);
    assert_eq!(database.count("SELECT count(*) FROM attempts").await, 200);
}

/// Without the digest beside the key: the second intent silently gets the first one's answer.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_intents_under_one_key_one_is_a_conflict_whoever_is_first() {
    let database = Database::create().await;
    for round in 0..ROUNDS {
        let answers = race((0..RACERS).map(|racer| {
            let store = database.store.clone();
            let job = new_job(&format!("k{round}"), if racer % 2 == 0 { "{}" } else { "[]" });
            async move { store.accept(&[job], LONG).await.unwrap().remove(0) }
        }))
        .await;
        let count = |wanted: fn(&Accepted) -> bool| answers.iter().filter(|answer| wanted(answer)).count();
        assert_eq!(count(|a| matches!(a, Accepted::Created { .. })), 1, "{answers:?}");
        assert_eq!(
            count(|a| matches!(a, Accepted::Conflict { .. })),
            RACERS / 2,
            "{answers:?}"
        );
    }
}

/// Without `state = 'queued'` in the claim's own write: a redelivery, a duplicate or a second relay makes a second call.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_claims_of_one_attempt_one_may_call() {
    let database = Database::create().await;
    for _ in 0..ROUNDS {
        let store = &database.store;
        let first = attempt(accepted(store).await, 1);
        let answers = race((0..RACERS).map(|_| {
            let store = store.clone();
            async move {
                store
                    .claim(Uuid::new_v4(), LONG, LONG, &[claim(first), claim(first)])
                    .await
                    .unwrap()
            }
        }))
        .await;
        let claimed = answers.iter().flatten().filter(|answer| answer.is_ok()).count();
        assert_eq!(claimed, 1, "{answers:?}");
    }
}

/// Which attempts are settled in one statement.
const GROUPS: [&[u16]; 4] = [&[1], &[2], &[1, 2], &[2, 1]];

/// Without `version = $2 AND completed_by IS NULL` in the slot's own write: the result that comes second overwrites the
/// first, and what a product has read is not what it reads next.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_answers_one_holds_the_slot_and_the_other_is_lost() {
    let (database, gate) = (Database::create().await, gate());
    for round in 0..ROUNDS {
        let store = &database.store;
        let job = accepted(store).await;
        running(store, attempt(job, 1)).await;
        store.change(&gate, &change(job, new_attempt(true))).await.unwrap();
        running(store, attempt(job, 2)).await;
        // Alone, together with the other in both orders, and twice.
        let answers = race(GROUPS.iter().cycle().skip(round % 4).take(4).map(|numbers| {
            let store = store.clone();
            async move {
                let settlements: Vec<_> = numbers.iter().map(|n| answer(attempt(job, *n))).collect();
                let settled = store.settle(&settlements).await.unwrap();
                numbers.iter().copied().zip(settled).collect::<Vec<_>>()
            }
        }))
        .await;
        let mut winners: Vec<u16> = answers
            .iter()
            .flatten()
            .filter(|(_, settled)| matches!(settled, Settled::Won { .. }))
            .map(|(number, _)| *number)
            .collect();
        winners.dedup();
        let slot: (i16, i64, Vec<u8>) = sqlx::query_as("SELECT completed_by, version, result FROM jobs WHERE id = $1")
            .bind(job.as_uuid())
            .fetch_one(store.pool())
            .await
            .unwrap();
        winners.retain(|winner| i16::try_from(*winner).unwrap() != slot.0);
        assert!(
            winners.is_empty(),
            "{winners:?} believe to have won, and {} did",
            slot.0
        );
        assert_eq!(slot.1, 2, "the version moved once");
        assert_eq!(
            slot.2,
            format!("{{\"of\":{}}}", slot.0).into_bytes(),
            "the winner's own bytes"
        );
    }
    let lost = "SELECT count(*) FROM attempts WHERE state = 'lost'";
    assert_eq!(database.count(lost).await, 200);
}

/// Without the lock on the job, and the attempt's state in the write: a cancelled job gets a result, or a finished one is
/// cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn of_an_answer_and_a_cancel_one_closes_the_job() {
    let (database, gate) = (Database::create().await, std::sync::Arc::new(gate()));
    let mut cancelled = 0;
    for _ in 0..ROUNDS {
        let store = database.store.clone();
        let job = accepted(&store).await;
        running(&store, attempt(job, 1)).await;
        let (settling, cancelling, gate) = (store.clone(), store.clone(), std::sync::Arc::clone(&gate));
        let settle = tokio::spawn(async move { settling.settle(&[answer(attempt(job, 1))]).await.unwrap()[0] });
        let cancel = tokio::spawn(async move {
            cancelling
                .change(&gate, &change(job, Event::CancelRequested))
                .await
                .is_ok()
        });
        let (settled, granted) = (settle.await.unwrap(), cancel.await.unwrap());
        match settled {
            Settled::Won { .. } => assert!(!granted, "a job that succeeded is not cancelled"),
            Settled::Lost { reason, .. } => assert!(granted && reason == LossReason::AfterCancel),
            other @ (Settled::LostBefore | Settled::Contradicted { .. } | Settled::Impossible) => panic!("{other:?}"),
        }
        cancelled += i32::from(granted);
    }
    let stored = database
        .count("SELECT count(*) FROM jobs WHERE state = 'cancelled' AND result IS NULL")
        .await;
    assert_eq!(stored, i64::from(cancelled));
}

/// Without the partial unique index and the lock on the job: two people press the button, and two attempts run.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_new_attempts_one_starts() {
    let (database, gate) = (Database::create().await, std::sync::Arc::new(gate()));
    for round in 0..ROUNDS {
        let store = &database.store;
        let job = accepted(store).await;
        running(store, attempt(job, 1)).await;
        let hedge = round % 2 == 0;
        if !hedge {
            let kind = onejob_common::domain::FailureKind::Rejected;
            let number = attempt(job, 1).number;
            let failed = Event::Failed {
                number,
                kind,
                retry_after: None,
            };
            store.change(&gate, &change(job, failed)).await.unwrap();
        }
        let started = race((0..RACERS).map(|_| {
            let (store, gate) = (store.clone(), std::sync::Arc::clone(&gate));
            async move { store.change(&gate, &change(job, new_attempt(hedge))).await.is_ok() }
        }))
        .await;
        assert_eq!(started.iter().filter(|started| **started).count(), 1, "hedge: {hedge}");
    }
    assert_eq!(database.count("SELECT count(*) FROM attempts").await, 400);
}

/// Without the lock on the job, the guard's snapshot still sees the attempt running while another transaction has turned
/// it unknown and not committed yet: the hedge would start behind an unknown attempt (design §3).
#[tokio::test(flavor = "multi_thread")]
async fn no_hedge_starts_behind_an_attempt_that_is_turning_unknown() {
    let (database, gate) = (Database::create().await, gate());
    let store = &database.store;
    let job = accepted(store).await;
    running(store, attempt(job, 1)).await;
    let mut turning = store.pool().begin().await.unwrap();
    for statement in [
        "SELECT 1 FROM jobs FOR NO KEY UPDATE",
        "UPDATE attempts SET state = 'unknown'",
    ] {
        sqlx::query(statement).execute(&mut *turning).await.unwrap();
    }
    let hedging = store.clone();
    let hedge = tokio::spawn(async move { hedging.change(&gate, &change(job, new_attempt(true))).await });
    eventually("the hedge waits for the job", async || {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        database.count(waiting).await == 1 || hedge.is_finished()
    })
    .await;
    turning.commit().await.unwrap();
    let refused = hedge.await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("unknown"), "{refused}");
    assert_eq!(database.count("SELECT count(*) FROM attempts").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_refused_for_what_is_not_there_not_due_or_closed() {
    let (database, gate) = (Database::create().await, gate());
    let store = &database.store;
    let me = Uuid::new_v4();
    let job = accepted(store).await;
    let why = async |number: u16| {
        store
            .claim(me, LONG, LONG, &[claim(attempt(job, number))])
            .await
            .unwrap()
            .remove(0)
    };
    assert!(matches!(why(2).await, Err(NotClaimed::Missing)));
    database
        .execute("UPDATE attempts SET run_at = now() + interval '1 hour'")
        .await
        .unwrap();
    assert!(matches!(why(1).await, Err(NotClaimed::NotNow)));
    database.execute("UPDATE attempts SET run_at = now()").await.unwrap();
    store.change(&gate, &change(job, Event::CancelRequested)).await.unwrap();
    assert!(matches!(why(1).await, Err(NotClaimed::Done(_))));
}

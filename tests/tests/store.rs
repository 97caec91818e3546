//! The guards of the database: every write that races, with many connections at once, and rows that must not be.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "store/races.rs"]
mod races;
#[path = "store/rows.rs"]
mod rows;
#[path = "store/settling.rs"]
mod settling;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use onejob_common::clock::new_job_id;
use onejob_common::config::Config;
use onejob_common::contract::Contracts;
use onejob_common::domain::intent::Digest;
use onejob_common::domain::{AttemptId, AttemptNumber, Event, JobId, Policy};
use onejob_common::store::Store;
use onejob_common::store::certificate::Gate;
use onejob_common::store::job::{Acknowledgement, Change, Claim, Facts, NewJob, Settlement};
use tokio::sync::Barrier;
use uuid::Uuid;

/// How often each race is run.
const ROUNDS: usize = 200;
/// How many connections race.
const RACERS: usize = 8;
const LONG: Duration = Duration::from_secs(60);

fn new_job(key: &str, input: &str) -> NewJob {
    NewJob {
        id: new_job_id(),
        owner: "shop".parse().unwrap(),
        key: key.parse().unwrap(),
        digest: Digest::of(input.as_bytes()),
        contract: "ticket-triage@1".parse().unwrap(),
        provider: "primary".parse().unwrap(),
        input: input.to_owned(),
        policy: Policy::default(),
        traceparent: None,
    }
}

/// An accepted job.
async fn accepted(store: &Store) -> JobId {
    let job = new_job(&Uuid::new_v4().to_string(), "{}");
    store.accept(std::slice::from_ref(&job), LONG).await.unwrap();
    job.id
}

fn attempt(job: JobId, number: u16) -> AttemptId {
    AttemptId::new(job, AttemptNumber::new(number).unwrap())
}

fn claim(attempt: AttemptId) -> Claim {
    Claim { attempt, limit: LONG }
}

/// Claims an attempt, and has its provider give a sign.
async fn running(store: &Store, attempt: AttemptId) {
    let worker = Uuid::new_v4();
    let claimed = store.claim(worker, LONG, LONG, &[claim(attempt)]).await.unwrap();
    assert!(claimed[0].is_ok(), "{claimed:?}");
    let sign = Acknowledgement {
        attempt,
        hedge_after: None,
    };
    store.acknowledge(worker, &[sign]).await.unwrap();
}

fn change(job: JobId, event: Event) -> Change {
    Change {
        job,
        owner: None,
        event,
        facts: Facts::default(),
        actor: "test".to_owned(),
    }
}

const fn new_attempt(hedge: bool) -> Event {
    Event::NewAttempt { provider: None, hedge }
}

fn answer(attempt: AttemptId) -> Settlement {
    Settlement {
        attempt,
        result: format!("{{\"of\":{}}}", attempt.number.get()).into(),
        usage: None,
        cost: None,
        acknowledged_at: None,
        actor: "test".to_owned(),
    }
}

/// The gate of the default configuration.
fn gate() -> Gate {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let config = Config::load(&root.join("onejob.toml")).unwrap();
    let contracts = Contracts::load(&config.contracts.dir).unwrap();
    Gate::new(&config, &contracts)
}

/// Runs them at the same moment, and gives what each gave, in order.
async fn race<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    racers: impl IntoIterator<Item = F>,
) -> Vec<T> {
    let racers: Vec<F> = racers.into_iter().collect();
    let barrier = Arc::new(Barrier::new(racers.len()));
    let running: Vec<_> = racers
        .into_iter()
        .map(|racer| {
            let barrier = Arc::clone(&barrier);
            tokio::spawn(async move {
                barrier.wait().await;
                racer.await
            })
        })
        .collect();
    let mut results = Vec::new();
    for racer in running {
        results.push(racer.await.unwrap());
    }
    results
}

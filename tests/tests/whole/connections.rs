//! No connection is held across a call (scenario B49), and a dead database gets a bounded wait (B20, B21).

use std::time::{Duration, Instant};

use futures::future::join_all;
use onejob_tests::eventually;
use onejob_tests::simulator::answer_after;
use onejob_tests::stack::{Stack, intent};
use onejob_tests::valve::Valve;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn fifty_slow_calls_on_a_pool_of_two_hold_no_connection_and_keep_no_migration_waiting() {
    let few = |text: String| format!("[database]\nmax_connections = 2\nstatement_timeout_ms = 2000\n{text}");
    let stack = Stack::configured(few).await;
    let (api, _worker, _reconciler) = tokio::join!(stack.api(), stack.worker(), stack.reconciler());
    let client = stack.producer(&api, "shop").await;
    let slow: Vec<Value> = (0..50).map(|_| answer_after(4_000, "slow")).collect();
    stack.simulator.next("sim-primary", json!(slow)).await;
    let submitted = (0..50).map(|n| {
        let client = client.clone();
        async move { client.submit(&format!("k{n}"), &intent(&format!("{n}"))).await.id() }
    });
    let jobs = join_all(submitted).await;
    stack.simulator.called("sim-primary", 50).await;
    // Seen from the database while all fifty calls are in flight.
    eventually("nobody holds a connection", async || {
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                    AND application_name LIKE 'onejob-%' AND application_name <> 'onejob-test' AND state <> 'idle'";
        stack.database.count(busy).await == 0
    })
    .await;
    let began = Instant::now();
    stack
        .database
        .execute("ALTER TABLE jobs ADD COLUMN of_tomorrow text")
        .await
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(
        stack
            .database
            .count("SELECT count(*) FROM jobs WHERE state = 'open'")
            .await,
        50
    );
    for id in jobs {
        client.until(&id, "succeeded").await;
    }
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_holds_a_thousand_slow_calls_in_200_mib_and_no_connection() {
    let wide = |text: String| text.replace("model = \"sim-primary\"", "model = \"sim-primary\"\nconcurrency = 1000");
    let stack = Stack::configured(wide).await;
    let (api, worker, _reconciler) = tokio::join!(stack.api(), stack.worker(), stack.reconciler());
    let client = stack.producer(&api, "shop").await;
    let slow: Vec<Value> = (0..1000).map(|_| answer_after(20_000, "slow")).collect();
    stack.simulator.next("sim-primary", json!(slow)).await;
    let submitted = (0..1000).map(|n| {
        let client = client.clone();
        async move { client.submit(&format!("k{n}"), &intent(&format!("{n}"))).await.status }
    });
    assert!(join_all(submitted).await.iter().all(|status| *status == 201));
    stack.simulator.called("sim-primary", 1000).await;
    let running = "SELECT count(*) FROM attempts WHERE state IN ('starting', 'running')";
    assert_eq!(
        stack.database.count(running).await,
        1000,
        "all of them are in flight at once"
    );
    eventually("nobody holds a connection", async || {
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                    AND application_name = 'onejob-worker' AND state <> 'idle'";
        stack.database.count(busy).await == 0
    })
    .await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    println!("resident with 1,000 calls in flight: {} MiB", kib / 1024);
    assert!(kib < 200 * 1024, "{kib} KiB");
    eventually("all have ended", async || {
        stack
            .database
            .count("SELECT count(*) FROM jobs WHERE state = 'succeeded'")
            .await
            == 1000
    })
    .await;
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_database_a_submission_is_a_503_and_its_key_stays_free() {
    let stack = Stack::configured(|text| text.replace("[broker]", "[api]\nrequest_timeout_ms = 1500\n[broker]")).await;
    let (valve, database_url) = Valve::before(&stack.database.url).await;
    let (api, _worker, _reconciler) =
        tokio::join!(stack.api_through(&database_url), stack.worker(), stack.reconciler());
    let client = stack.producer(&api, "shop").await;
    // Its key is known before the database goes away.
    assert_eq!(client.get("/v1/jobs").await.status, 200);
    valve.shut();
    let began = Instant::now();
    let refused = client.submit("k", &intent("later")).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    valve.open();
    let mut id = String::new();
    eventually("the same key works", async || {
        let answer = client.submit("k", &intent("later")).await;
        if matches!(answer.status, 200 | 201) {
            id = answer.id();
        }
        !id.is_empty()
    })
    .await;
    client.until(&id, "succeeded").await;
    assert_eq!(stack.database.count("SELECT count(*) FROM jobs").await, 1);
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_process_killed_while_it_stores_wedges_no_key() {
    let stack = Stack::create().await;
    let (valve, database_url) = Valve::before(&stack.database.url).await;
    let (mut dying, api, _worker, _reconciler) = tokio::join!(
        stack.api_through(&database_url),
        stack.api(),
        stack.worker(),
        stack.reconciler()
    );
    let (cut, client) = (stack.producer(&dying, "shop").await, stack.producer(&api, "shop").await);
    assert_eq!(cut.get("/v1/jobs").await.status, 200);
    let body = intent("wedged?");
    valve.shut();
    let in_flight = tokio::spawn({
        let (cut, body) = (cut.clone(), body.clone());
        async move { cut.try_submit("k", &body).await }
    });
    // The kill falls into the wait for the statement's answer.
    assert!(
        tokio::time::timeout(Duration::from_millis(500), async {
            while !in_flight.is_finished() {
                tokio::task::yield_now().await
            }
        })
        .await
        .is_err()
    );
    dying.kill().await;
    assert!(in_flight.await.unwrap().is_err(), "it got no answer");
    let answer = client.submit("k", &body).await;
    assert_eq!(
        answer.status, 201,
        "nothing was stored, and nothing blocks it: {answer:?}"
    );
    // Should the statement still arrive, it finds its key taken.
    valve.open();
    client.until(&answer.id(), "succeeded").await;
    assert_eq!(stack.database.count("SELECT count(*) FROM jobs").await, 1);
}

//! Workers that die, freeze, or are cut off (scenarios B04, B06, B07).

use std::time::{Duration, Instant};

use onejob_common::clock;
use onejob_common::config::ms;
use onejob_common::store::job::Claim;
use onejob_common::store::worker::WorkerProcess;
use onejob_tests::broker::Proxy;
use onejob_tests::eventually;
use onejob_tests::simulator::answer_after;
use onejob_tests::stack::{DEAD_AFTER, Stack, intent, intent_with};
use onejob_tests::valve::Valve;
use serde_json::json;

/// How long `starting` and `running` may last once their worker is gone.
const LIMIT: Duration = DEAD_AFTER.saturating_mul(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_after_its_claim_leaves_an_unknown_attempt_and_no_call() {
    let stack = Stack::create().await;
    let (api, _reconciler) = tokio::join!(stack.api(), stack.reconciler());
    let client = stack.producer(&api, "shop").await;
    let id = client.submit("k", &intent("claimed")).await.id();
    // A process that claims, says so, and is never heard of again.
    let store = &stack.database.store;
    let dead = WorkerProcess {
        id: clock::new_id(),
        role: "attempts".to_owned(),
        host: "gone".to_owned(),
        pid: 1,
    };
    store.heartbeat(&dead).await.unwrap();
    let claim = Claim {
        attempt: format!("{id}.1").parse().unwrap(),
        limit: ms(1000),
    };
    assert!(store.claim(dead.id, ms(1000), DEAD_AFTER, &[claim]).await.unwrap()[0].is_ok());
    let began = Instant::now();
    // The message is still there: whoever gets it must not call.
    let worker = stack.worker().await;
    client.until(&id, "unknown").await;
    assert!(
        began.elapsed() < LIMIT + Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    eventually("the message is used up", async || {
        stack.vhost.queue("onejob.attempts.primary").await.0 == 0
    })
    .await;
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 0);
    assert_eq!(worker.metric("onejob_provider_calls_total", &[]).await, Some(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_in_the_middle_of_a_call_leads_to_unknown_and_one_submission() {
    let (stack, api, mut worker, _reconciler) = Stack::up().await;
    let (client, operator) = (stack.producer(&api, "shop").await, stack.operator(&api).await);
    stack.simulator.next("sim-primary", json!([{"hang": true}])).await;
    let id = client.submit("k", &intent("killed")).await.id();
    stack.simulator.called("sim-primary", 1).await;
    worker.kill().await;
    let _other = stack.worker().await;
    client.until(&id, "unknown").await;
    let listed = operator.get("/v1/unknowns").await;
    assert_eq!(listed.json["items"][0]["attempt_id"], format!("{id}.1"));
    assert!(listed.json["items"][0]["since"].is_string());
    // Twice the limit and nobody's help: it stays as it is.
    stack.vhost.wait_queue("onejob.attempts.primary", 0, 1).await;
    assert_eq!(client.attempts(&id).await, ["unknown"]);
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1);
    // And there is a way out.
    operator.resolve(&format!("{id}.1"), "not_executed").await;
    client.until(&id, "succeeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_between_the_answer_and_its_settling_leaves_unknown_and_pays_once() {
    let stack = Stack::create().await;
    let (valve, database_url) = Valve::before(&stack.database.url).await;
    let (api, mut worker, _reconciler) = tokio::join!(
        stack.api(),
        stack.worker_through(&database_url, &stack.vhost.url),
        stack.reconciler()
    );
    let client = stack.producer(&api, "shop").await;
    stack
        .simulator
        .next("sim-primary", json!([answer_after(700, "read, and lost")]))
        .await;
    let id = client.submit("k", &intent("answered")).await.id();
    client.until_running(&id).await;
    valve.shut();
    eventually("the provider has answered", async || {
        stack.simulator.calls("sim-primary").await[0]["ended"] == "answered"
    })
    .await;
    worker.kill().await;
    client.until(&id, "unknown").await;
    assert_eq!(client.attempts(&id).await, ["unknown"]);
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_between_settling_and_its_ack_changes_nothing_by_the_redelivery() {
    let stack = Stack::create().await;
    let (proxy, amqp_url) = Proxy::before(&stack.vhost.url).await;
    let (api, mut worker, _reconciler) = tokio::join!(
        stack.api(),
        stack.worker_through(&stack.database.url, &amqp_url),
        stack.reconciler()
    );
    let client = stack.producer(&api, "shop").await;
    stack
        .simulator
        .next("sim-primary", json!([answer_after(700, "settled")]))
        .await;
    let id = client.submit("k", &intent("settled")).await.id();
    client.until_running(&id).await;
    proxy.silence(true);
    let settled = client.until(&id, "succeeded").await;
    worker.kill().await;
    let other = stack.worker().await;
    eventually("the redelivery is suppressed", async || {
        other
            .metric("onejob_duplicates_suppressed_total", &[("layer", "worker")])
            .await
            == Some(1.0)
    })
    .await;
    stack.vhost.wait_queue("onejob.attempts.primary", 0, 1).await;
    assert_eq!(client.job(&id).await, settled);
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_frozen_past_its_limit_still_brings_its_result() {
    let (stack, api, frozen, reconciler) = Stack::up().await;
    let other = stack.worker().await;
    let client = stack.producer(&api, "shop").await;
    // Both workers consume: the one that has called is frozen.
    stack
        .simulator
        .next("sim-primary", json!([answer_after(1_000, "late, and right")]))
        .await;
    let id = client.submit("k", &intent("slow")).await.id();
    client.until_running(&id).await;
    let calls = |process| async move {
        let process: &onejob_tests::process::Process = process;
        process.metric("onejob_attempts_total", &[("state", "running")]).await
    };
    let caller = if calls(&frozen).await == Some(1.0) {
        &frozen
    } else {
        &other
    };
    caller.signal("STOP").await;
    client.until(&id, "unknown").await;
    // The broker takes the frozen one for dead too, and gives its message to the other: which must not call.
    let connections = async || stack.vhost.queue("onejob.attempts.primary").await.1;
    eventually("the frozen one's consumer is gone", async || connections().await == 1).await;
    assert_eq!(client.attempts(&id).await, ["unknown"]);
    caller.signal("CONT").await;
    let job = client.until(&id, "succeeded").await;
    assert_eq!(job["result"]["summary"], "late, and right");
    assert_eq!(client.attempts(&id).await, ["succeeded"]);
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1);
    let by = [("by", "evidence"), ("outcome", "succeeded")];
    eventually("its evidence is counted", async || {
        caller.metric("onejob_unknown_resolved_total", &by).await == Some(1.0)
    })
    .await;
    drop(reconciler);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cut_off_from_the_database_settles_with_the_same_answer_once_it_is_back() {
    let stack = Stack::create().await;
    let (valve, database_url) = Valve::before(&stack.database.url).await;
    let (api, _worker, _reconciler) = tokio::join!(
        stack.api(),
        stack.worker_through(&database_url, &stack.vhost.url),
        stack.reconciler()
    );
    let client = stack.producer(&api, "shop").await;
    stack
        .simulator
        .next("sim-primary", json!([answer_after(700, "kept")]))
        .await;
    let id = client.submit("k", &intent("cut off")).await.id();
    client.until_running(&id).await;
    valve.shut();
    client.until(&id, "unknown").await;
    valve.open();
    let job = client.until(&id, "succeeded").await;
    assert_eq!(job["result"]["summary"], "kept");
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_outlasts_every_limit_of_liveness_runs_once_while_its_worker_lives() {
    let (stack, api, _worker, _reconciler) = Stack::up().await;
    let (_second, _third, _relay) = tokio::join!(stack.worker(), stack.worker(), stack.reconciler());
    let client = stack.producer(&api, "shop").await;
    let four_limits = u64::try_from(DEAD_AFTER.as_millis()).unwrap() * 4;
    stack
        .simulator
        .next("sim-primary", json!([answer_after(four_limits, "patience")]))
        .await;
    let id = client.submit("k", &intent("long")).await.id();
    let waited = client.get(&format!("/v1/jobs/{id}?wait=30")).await;
    assert_eq!(
        waited.json["state"], "succeeded",
        "it was never unknown: {:#}",
        waited.json
    );
    assert_eq!(waited.json["attempts"].as_array().map(Vec::len), Some(1));
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_drains_what_runs_is_finished_and_what_outlasts_the_drain_time_is_unknown() {
    let stack = Stack::configured(|text| text.replace("drain_ms = 5000", "drain_ms = 1500")).await;
    let (api, mut worker, _reconciler) = tokio::join!(stack.api(), stack.worker(), stack.reconciler());
    let client = stack.producer(&api, "shop").await;
    stack
        .simulator
        .next("sim-primary", json!([answer_after(800, "in time"), {"hang": true}]))
        .await;
    let short = client.submit("short", &intent("short")).await.id();
    client.until_running(&short).await;
    let long = client
        .submit("long", &intent_with("long", json!({"timeout_ms": 60_000})))
        .await
        .id();
    stack.simulator.called("sim-primary", 2).await;
    let status = worker.terminate().await;
    assert!(status.success(), "{status}");
    assert_eq!(client.job(&short).await["state"], "succeeded");
    assert_eq!(client.job(&long).await["state"], "unknown");
    let queued = client.submit("queued", &intent("after")).await.id();
    let _next = stack.worker().await;
    client.until(&queued, "succeeded").await;
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 3);
}

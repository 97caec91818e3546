//! The four things that must not break.

use futures::future::join_all;
use onejob_tests::simulator::{answer_after, overloaded, rejected};
use onejob_tests::stack::{Stack, TRIAGE, intent, intent_with};
use reqwest::Method;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_double_click_over_two_api_processes_is_one_job_even_if_one_of_them_is_killed() {
    let stack = Stack::create().await;
    let (mut first, second, _worker, _reconciler) =
        tokio::join!(stack.api(), stack.api(), stack.worker(), stack.reconciler());
    let (one, other) = (
        stack.producer(&first, "shop").await,
        stack.producer(&second, "shop").await,
    );
    let body = intent("the button");
    let clicks = (0..20).map(|n| {
        let (client, body) = (if n % 2 == 0 { &one } else { &other }, &body);
        async move { client.try_submit("click", body).await }
    });
    let (answers, ()) = tokio::join!(join_all(clicks), first.kill());
    // Whoever got no answer asks again, as people do.
    let again = other.submit("click", &body).await;
    let mut created = 0;
    for answer in answers.into_iter().flatten().chain([again]) {
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        assert_eq!(answer.replayed(), answer.status == 200);
        created += i32::from(answer.status == 201);
        assert_eq!(answer.id(), other.submit("click", &body).await.id());
    }
    assert!(created <= 1, "created {created} times");
    let id = other.submit("click", &body).await.id();
    let job = other.until(&id, "succeeded").await;
    assert_eq!(job["attempts"].as_array().map(Vec::len), Some(1));
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1, "one bill");
    assert_eq!(stack.database.count("SELECT count(*) FROM jobs").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_with_another_input_is_a_conflict_in_every_state_of_the_job() {
    let (stack, api, mut worker, _reconciler) = Stack::up().await;
    let (client, operator) = (stack.producer(&api, "shop").await, stack.operator(&api).await);
    let secret = intent("the first text, which is nobody else's business");
    let conflict = async |key: &str, id: &str, state: &str| {
        let before = client.job(id).await;
        assert_eq!(before["state"], state);
        let refused = client.submit(key, &intent("another text")).await;
        assert_eq!(
            (refused.status, refused.problem()),
            (409, "idempotency-key-reused"),
            "{state}"
        );
        assert_eq!(refused.json["job_id"], *id);
        assert!(
            !refused.json.to_string().contains("nobody else"),
            "it tells nothing of the first"
        );
        let replay = client.submit(key, &secret).await;
        assert_eq!((replay.status, replay.id()), (200, id.to_owned()), "{state}");
        assert_eq!(client.job(id).await, before, "nothing changed");
    };

    stack
        .simulator
        .next("sim-primary", json!([answer_after(600_000, "slow")]))
        .await;
    let running = client.submit("running", &secret).await.id();
    client.until_running(&running).await;
    conflict("running", &running, "running").await;
    client.post(&format!("/v1/jobs/{running}/cancel"), &json!({})).await;
    conflict("running", &running, "cancelled").await;

    let done = client.submit("done", &secret).await.id();
    client.until(&done, "succeeded").await;
    conflict("done", &done, "succeeded").await;

    stack.simulator.next("sim-primary", json!([rejected()])).await;
    let failed = client.submit("failed", &secret).await.id();
    client.until(&failed, "failed").await;
    conflict("failed", &failed, "failed").await;

    stack.simulator.next("sim-primary", json!([{"drop": "after"}])).await;
    let unknown = client.submit("unknown", &secret).await.id();
    client.until(&unknown, "unknown").await;
    conflict("unknown", &unknown, "unknown").await;
    operator.resolve(&format!("{unknown}.1"), "not_executed").await;
    client.until(&unknown, "succeeded").await;
    conflict("unknown", &unknown, "succeeded").await;

    worker.kill().await;
    let queued = client.submit("queued", &secret).await.id();
    conflict("queued", &queued, "queued").await;
    assert_eq!(stack.database.count("SELECT count(*) FROM jobs").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_out_is_unknown_and_blocks_everything_until_a_person_resolves_it() {
    let (stack, api, _worker, reconciler) = Stack::up().await;
    stack.certify("backup", TRIAGE).await;
    let (client, operator) = (stack.producer(&api, "shop").await, stack.operator(&api).await);
    stack.simulator.next("sim-primary", json!([{"hang": true}])).await;
    let body = intent_with("silence", json!({"timeout_ms": 500, "fallback": ["backup"]}));
    let id = client.submit("silence", &body).await.id();
    let job = client.until(&id, "unknown").await;
    assert_eq!(job["error"], json!(null));

    for wish in [
        json!({}),
        json!({"provider": "backup"}),
        json!({"hedge": true}),
        json!({"provider": "backup", "hedge": true}),
    ] {
        let refused = client.post(&format!("/v1/jobs/{id}/attempts"), &wish).await;
        assert_eq!(
            (refused.status, refused.problem()),
            (409, "attempt-unsettled"),
            "{wish}"
        );
        let text = refused.json["detail"].as_str().unwrap();
        assert!(text.contains(&format!("{id}.1")) && text.contains("unknown"), "{text}");
    }
    let listed = operator.get("/v1/unknowns").await;
    assert_eq!(listed.json["items"][0]["attempt_id"], format!("{id}.1"));
    let forbidden = client.resolve(&format!("{id}.1"), "not_executed").await;
    assert_eq!(forbidden.status, 403);
    reconciler.logged("listening").await;
    assert_eq!(client.attempts(&id).await, ["unknown"]);

    let resolved = operator.resolve(&format!("{id}.1"), "not_executed").await;
    assert_eq!(resolved.status, 200, "{resolved:?}");
    client.until(&id, "succeeded").await;
    assert_eq!(client.attempts(&id).await, ["failed not_executed", "succeeded"]);
    let twice = operator.resolve(&format!("{id}.1"), "cancelled").await;
    assert_eq!((twice.status, twice.problem()), (409, "attempt-not-unknown"));
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_in_reverse_order_the_primary_loses_and_its_payload_is_dropped() {
    let (stack, api, worker, _reconciler) = Stack::up().await;
    stack.certify("backup", TRIAGE).await;
    let client = stack.producer(&api, "shop").await;
    stack
        .simulator
        .next("sim-primary", json!([answer_after(6_000, "the primary's")]))
        .await;
    stack
        .simulator
        .next("sim-backup", json!([answer_after(0, "the backup's")]))
        .await;
    let body = intent_with("race", json!({"fallback": ["backup"], "hedge_after_ms": 100}));
    let id = client.submit("race", &body).await.id();
    let job = client.until(&id, "succeeded").await;
    assert_eq!(job["result"]["summary"], "the backup's");
    assert_eq!(job["completed_by"], format!("{id}.2"));

    onejob_tests::eventually("the primary has lost", async || {
        client.attempts(&id).await == ["lost", "succeeded"]
    })
    .await;
    let after = client.job(&id).await;
    assert_eq!(
        (&after["result"], &after["completed_by"], &after["version"]),
        (&job["result"], &job["completed_by"], &job["version"])
    );
    assert!(!after.to_string().contains("the primary's"), "nothing of it was kept");
    // It is counted right after the commit that shows it.
    onejob_tests::eventually("the loss is counted", async || {
        worker.metric("onejob_race_losses_total", &[("reason", "late")]).await == Some(1.0)
    })
    .await;
    let kept = "SELECT count(*) FROM attempts WHERE state = 'lost' AND result_bytes > 0 AND length(result_digest) = 32
                AND usage IS NOT NULL";
    assert_eq!(stack.database.count(kept).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definite_failure_is_retried_under_the_same_job_and_then_goes_to_the_certified_fallback() {
    let (stack, api, _worker, _reconciler) = Stack::up().await;
    stack.certify("backup", TRIAGE).await;
    let client = stack.producer(&api, "shop").await;
    stack
        .simulator
        .next("sim-primary", json!([overloaded(), overloaded()]))
        .await;
    let id = client
        .submit("k", &intent_with("busy", json!({"fallback": ["backup"]})))
        .await
        .id();
    let job = client.until(&id, "succeeded").await;
    assert_eq!(job["completed_by"], format!("{id}.3"));
    let causes: Vec<_> = job["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["cause"].clone())
        .collect();
    assert_eq!(causes, ["first", "retry", "fallback"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_in_the_middle_leaves_no_half_made_job() {
    let (stack, api, _worker, _reconciler) = Stack::up().await;
    let client = stack.producer(&api, "shop").await;
    let body = intent("gone");
    for n in 0..30 {
        // Given up after another while each time: before, while and after it is stored.
        let request = client
            .request(Method::POST, "/v1/jobs")
            .header("idempotency-key", format!("gone-{n}"))
            .timeout(std::time::Duration::from_micros(300 * n))
            .json(&body);
        drop(client.send(request).await);
    }
    let halves = "SELECT count(*) FROM jobs j WHERE NOT EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = j.id)";
    assert_eq!(stack.database.count(halves).await, 0);
    for n in 0..30 {
        let answer = client.submit(&format!("gone-{n}"), &body).await;
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        client.until(&answer.id(), "succeeded").await;
    }
    assert_eq!(stack.database.count("SELECT count(*) FROM jobs").await, 30);
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 30);
}

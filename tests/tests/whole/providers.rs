//! One submission an attempt, whatever the provider does (scenario B24), and who may take over (G9).

use onejob_tests::simulator::rejected;
use onejob_tests::stack::{Stack, TRIAGE, intent, intent_with};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn submissions_on_the_wire_are_attempts_in_the_database() {
    let (stack, api, _worker, _reconciler) = Stack::up().await;
    let client = stack.producer(&api, "shop").await;
    let own = r#"{"error":{"message":"it says so"}}"#;
    let rows = [
        (json!({"drop": "before"}), "unknown"),
        (json!({"drop": "middle"}), "unknown"),
        (json!({"drop": "after"}), "unknown"),
        (json!({"hang": true}), "unknown"),
        (json!({"status": 500, "body": "<html>"}), "unknown"),
        (json!({"status": 502, "body": own}), "unknown"),
        (json!({"status": 504, "body": own}), "unknown"),
        (json!({"status": 500, "body": own}), "failed provider_error"),
        (json!({"status": 429, "body": own}), "failed rate_limited"),
        (json!({"status": 503, "body": own}), "failed overloaded"),
        (json!({"status": 404, "body": own}), "failed rejected"),
        (
            json!({"status": 307, "headers": {"location": "/v1/chat/completions"}, "body": ""}),
            "failed rejected",
        ),
        (json!({"status": 200, "body": "{}"}), "failed provider_error"),
        (json!({"content": "no JSON"}), "failed contract_violation"),
        (json!({"finish_reason": "length"}), "failed truncated"),
        (json!({"finish_reason": "content_filter"}), "failed refused"),
        (json!({"model": "another-model"}), "failed contract_violation"),
    ];
    let mut submissions = 0;
    for (n, (behaviour, wanted)) in rows.into_iter().enumerate() {
        stack.simulator.next("sim-primary", json!([behaviour])).await;
        let policy = json!({"timeout_ms": 600, "max_attempts": 1});
        let id = client
            .submit(&format!("k{n}"), &intent_with(&format!("{n}"), policy))
            .await
            .id();
        let state = if wanted == "unknown" { "unknown" } else { "failed" };
        client.until(&id, state).await;
        assert_eq!(client.attempts(&id).await, [wanted], "{behaviour}");
        submissions += 1;
        let calls = stack.simulator.calls("sim-primary").await;
        assert_eq!(calls.len(), submissions, "{behaviour}");
        assert_eq!(calls.last().unwrap()["headers"]["idempotency-key"], format!("{id}.1"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_without_a_certificate_takes_over_in_no_way() {
    let (stack, api, worker, reconciler) = Stack::up().await;
    let client = stack.producer(&api, "shop").await;
    let fallback = json!({"fallback": ["backup"], "hedge_after_ms": 100});
    let refused = client.submit("k", &intent_with("x", fallback.clone())).await;
    assert_eq!((refused.status, refused.problem()), (422, "provider-not-certified"));

    // Certified when it was named, and not any more when it would be needed.
    stack.certify("backup", TRIAGE).await;
    stack
        .simulator
        .next(
            "sim-primary",
            json!([{"first_event_delay_ms": 0, "delay_ms": 1500, "content": "no"}]),
        )
        .await;
    let id = client.submit("k", &intent_with("x", fallback)).await.id();
    stack
        .database
        .execute("UPDATE certificates SET revoked_at = now()")
        .await
        .unwrap();
    let job = client.until(&id, "failed").await;
    assert_eq!(job["error"]["kind"], "contract_violation");
    assert!(job["error"]["detail"].as_str().unwrap().contains("backup"), "{job:#}");
    let manual = client
        .post(&format!("/v1/jobs/{id}/attempts"), &json!({"provider": "backup"}))
        .await;
    assert_eq!((manual.status, manual.problem()), (422, "provider-not-certified"));
    assert_eq!(stack.simulator.calls("sim-backup").await.len(), 0);
    let mut blocked = 0.0;
    for process in [&worker, &reconciler, &api] {
        blocked += process
            .metric("onejob_failovers_blocked_total", &[("provider", "backup")])
            .await
            .unwrap_or_default();
    }
    assert!(
        blocked >= 2.0,
        "the hedge, the fallback and the manual attempt are counted: {blocked}"
    );

    stack.certify("backup", TRIAGE).await;
    let allowed = client
        .post(&format!("/v1/jobs/{id}/attempts"), &json!({"provider": "backup"}))
        .await;
    assert_eq!(allowed.status, 201, "{allowed:?}");
    let job = client.until(&id, "succeeded").await;
    assert_eq!(
        (&job["completed_by"], &job["version"]),
        (&json!(format!("{id}.2")), &json!(4))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_identity_is_in_every_layer() {
    let (stack, api, worker, _reconciler) = Stack::up().await;
    let client = stack.producer(&api, "shop").await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let request = client
        .request(reqwest::Method::POST, "/v1/jobs")
        .header("idempotency-key", "k")
        .header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"))
        .json(&intent("traced"));
    let id = client.send(request).await.unwrap().id();
    client.until(&id, "succeeded").await;
    let call = stack.simulator.calls("sim-primary").await.remove(0);
    let headers = &call["headers"];
    assert_eq!(headers["idempotency-key"], format!("{id}.1"));
    assert_eq!(headers["x-client-request-id"], format!("{id}.1"));
    assert!(headers["traceparent"].as_str().unwrap().contains(trace));
    // A line about an attempt carries all of its ids.
    stack.simulator.next("sim-primary", json!([rejected()])).await;
    let failed = client.submit("failed", &intent("logged")).await.id();
    client.until(&failed, "failed").await;
    worker.logged(&format!("{failed}.1")).await;
    let lines = worker.log();
    let about = lines.iter().find(|line| line.contains(&format!("{failed}.1"))).unwrap();
    for field in ["job_id", "attempt_id", "owner", "trace_id"] {
        assert!(about.contains(field), "{field} in {about}");
    }
    let secret = "authorization";
    assert!(
        lines.iter().all(|line| !line.to_lowercase().contains(secret)),
        "no credential in a log"
    );
}

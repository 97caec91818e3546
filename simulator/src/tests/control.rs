//! The control API and the call log.

use super::*;

#[tokio::test]
async fn behaviours_are_met_in_order_by_their_model_alone() {
    let sim = Sim::start().await;
    sim.script(json!([{"content": "one"}, {"content": "two"}])).await;
    sim.script(json!([{"content": "three"}])).await;
    let mut other = plain();
    other["model"] = "n".into();
    let unscripted = sim.ask(other.clone()).await.unwrap().content();
    for wanted in ["one", "two", "three", &unscripted] {
        assert_eq!(sim.ask(plain()).await.unwrap().content(), wanted);
    }
}

#[tokio::test]
async fn queueing_says_how_many_behaviours_now_wait() {
    let sim = Sim::start().await;
    for (behaviours, queued) in [(json!([{}, {}]), 2), (json!([]), 2), (json!([{"hang": false}]), 3)] {
        let body = json!({"model": "m", "behaviours": behaviours}).to_string();
        let got = sim.send("PUT", "/_sim/next", body).await.unwrap();
        assert_eq!(
            (got.status.as_u16(), got.json()),
            (200, json!({"model": "m", "queued": queued}))
        );
    }
}

#[tokio::test]
async fn a_wrong_script_is_400_names_its_field_and_queues_nothing() {
    let behaviour = |behaviour: Value| json!({"model": "m", "behaviours": [{"content": "queued"}, behaviour]});
    let at = |field: &str| format!("behaviours[1].{field}");
    let cases = [
        (behaviour(json!({"delay": 1})), at("delay")),
        (behaviour(json!({"delay_ms": -1})), at("delay_ms")),
        (behaviour(json!({"delay_ms": 1.5})), at("delay_ms")),
        (behaviour(json!({"delay_ms": "1"})), at("delay_ms")),
        (behaviour(json!({"delay_ms": 86_400_001})), at("delay_ms")),
        (behaviour(json!({"delay_ms": null})), at("delay_ms")),
        (
            behaviour(json!({"first_event_delay_ms": true})),
            at("first_event_delay_ms"),
        ),
        (behaviour(json!({"status": 199})), at("status")),
        (behaviour(json!({"status": 600})), at("status")),
        (behaviour(json!({"status": "200"})), at("status")),
        (behaviour(json!({"headers": []})), at("headers")),
        (
            behaviour(json!({"headers": {"Retry-After": 3}})),
            at("headers.Retry-After"),
        ),
        (behaviour(json!({"headers": {"a b": "c"}})), at("headers.a b")),
        (behaviour(json!({"headers": {"a": "c\nd"}})), at("headers.a")),
        (
            behaviour(json!({"headers": {"Content-Length": "3"}})),
            at("headers.Content-Length"),
        ),
        (behaviour(json!({"body": {"error": 1}})), at("body")),
        (behaviour(json!({"content": 1})), at("content")),
        (behaviour(json!({"model": []})), at("model")),
        (behaviour(json!({"finish_reason": 1})), at("finish_reason")),
        (behaviour(json!({"usage": 1})), at("usage")),
        (behaviour(json!({"hang": "yes"})), at("hang")),
        (behaviour(json!({"drop": "never"})), at("drop")),
        (behaviour(json!({"drop": true})), at("drop")),
        (behaviour(json!("hang")), "behaviours[1]".into()),
        (json!({"model": "m"}), "behaviours".into()),
        (json!({"model": "m", "behaviours": {}}), "behaviours".into()),
        (
            json!({"model": "m", "behaviours": [{}], "behaviour": []}),
            "behaviour".into(),
        ),
        (json!({"behaviours": [{}]}), "model".into()),
        (json!({"model": "", "behaviours": [{}]}), "model".into()),
        (json!({"model": null, "behaviours": [{}]}), "model".into()),
        (json!([]), "body".into()),
    ];
    let sim = Sim::start().await;
    for (body, field) in cases {
        let got = sim.send("PUT", "/_sim/next", body.to_string()).await.unwrap();
        assert_eq!(got.status, 400, "{body}");
        let error = &got.json()["error"];
        assert_eq!(error["param"], field, "{body}");
        assert!(
            error["message"].as_str().unwrap().starts_with(&format!("{field} ")),
            "{error}"
        );
    }
    assert_eq!(sim.send("PUT", "/_sim/next", "{").await.unwrap().status, 400);
    assert_ne!(sim.ask(plain()).await.unwrap().content(), "queued");
}

#[tokio::test]
async fn the_log_has_every_submission_oldest_first_with_what_was_sent() {
    let sim = Sim::start().await;
    sim.script(json!([{"drop": "before"}, {"drop": "middle"}, {"drop": "after"}, {"status": 500}, {}]))
        .await;
    for n in 0..5 {
        let mut body = plain();
        body["n"] = n.into();
        // The dropped ones are errors; what counts here is the log.
        assert_eq!(sim.ask(body).await.is_err(), n == 0 || n == 2);
    }
    let calls = sim.calls().await;
    let ended: Vec<_> = calls.iter().map(|call| call["ended"].as_str().unwrap()).collect();
    assert_eq!(ended, ["dropped", "dropped", "dropped", "answered", "answered"]);
    for (n, call) in calls.iter().enumerate() {
        let mut body = plain();
        body["n"] = n.into();
        assert_eq!(
            (&call["body"], &call["path"]),
            (&json!(body.to_string()), &json!("/v1/chat/completions"))
        );
        assert_eq!(
            (&call["headers"]["host"], &call["headers"]["x-test"]),
            (&json!("simulator"), &json!("a, b"))
        );
        assert_eq!(call["model"], "m");
    }
    let times: Vec<_> = calls
        .iter()
        .map(|call| chrono::DateTime::parse_from_rfc3339(call["at"].as_str().unwrap()).unwrap())
        .collect();
    assert!(times.is_sorted());
}

#[tokio::test]
async fn the_log_is_listed_by_model() {
    let sim = Sim::start().await;
    for model in ["a/b c", "n", "a/b c"] {
        let mut body = plain();
        body["model"] = model.into();
        sim.ask(body).await.unwrap();
    }
    for (query, count) in [
        ("", 3),
        ("?model=n", 1),
        ("?model=a%2Fb%20c", 2),
        ("?model=a%2Fb+c", 2),
        ("?model=none", 0),
    ] {
        let got = sim.send("GET", &format!("/_sim/calls{query}"), "").await.unwrap();
        assert_eq!(got.json().as_array().unwrap().len(), count, "{query}");
    }
    assert_eq!(sim.send("GET", "/_sim/calls?modle=n", "").await.unwrap().status, 400);
}

#[tokio::test]
async fn forgetting_empties_scripts_and_log_and_leaves_calls_in_flight_alone() {
    let sim = Sim::start().await;
    sim.script(json!([{"delay_ms": 300, "content": "slow"}, {"content": "forgotten"}]))
        .await;
    let forget = async {
        sim.until_ended(&["open"]).await;
        assert_eq!(sim.send("DELETE", "/_sim", "").await.unwrap().status, 204);
    };
    let (slow, ()) = tokio::join!(sim.ask(plain()), forget);
    assert_eq!(slow.unwrap().content(), "slow");
    assert!(
        sim.calls().await.is_empty(),
        "a call of before stays forgotten when it ends"
    );
    assert_ne!(sim.ask(plain()).await.unwrap().content(), "forgotten");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_logged_without_its_text() {
    let sim = Sim::start().await;
    let body = "x".repeat((32 << 20) + 1);
    // The client may meet the closed connection while it still writes; if it reads an answer, it is 413.
    if let Ok(got) = sim.send("POST", "/v1/chat/completions", body).await {
        assert_eq!(got.status, 413);
    }
    sim.until_ended(&["answered"]).await;
    assert_eq!(sim.calls().await[0]["body"], "");
}

#[tokio::test]
async fn the_root_answers_the_manual_and_other_paths_say_where_it_is() {
    let sim = Sim::start().await;
    let got = sim.send("GET", "/", "").await.unwrap();
    assert_eq!(got.status, 200);
    let fields = [
        "delay_ms",
        "first_event_delay_ms",
        "status",
        "headers",
        "body",
        "content",
        "model",
        "finish_reason",
        "usage",
        "hang",
        "drop",
        "--listen",
        "PUT    /_sim/next",
        "curl -X DELETE",
    ];
    for field in fields {
        assert!(got.text().contains(field), "{field}");
    }
    assert!(got.text().contains("last 200,000 calls") && crate::log::MOST_CALLS == 200_000);
    let got = sim.send("GET", "/v1/nothing", "").await.unwrap();
    assert_eq!(got.status, 404);
    assert!(got.json()["error"]["message"].as_str().unwrap().contains("GET /"));
    assert_eq!(sim.send("GET", "/v1/chat/completions", "").await.unwrap().status, 405);
}

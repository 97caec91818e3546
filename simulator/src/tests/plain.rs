//! Plain answers, scripted or not.

use super::*;

#[tokio::test]
async fn an_unscripted_plain_answer_is_a_chat_completion_of_the_requested_model() {
    let got = Sim::start().await.ask(plain()).await.unwrap();
    assert_eq!(
        (got.status, got.kind(), got.whole),
        (StatusCode::OK, "application/json", true)
    );
    let body = got.json();
    assert_eq!(
        (&body["object"], &body["model"]),
        (&json!("chat.completion"), &json!("m"))
    );
    assert_eq!(body["choices"][0]["message"]["role"], "assistant");
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert!(!got.content().is_empty());
    // 14 characters are 4 tokens, and the message's frame is 4.
    let completion = got.content().len().div_ceil(4);
    assert_eq!(
        body["usage"],
        json!({"prompt_tokens": 8, "completion_tokens": completion, "total_tokens": 8 + completion})
    );
}

#[tokio::test]
async fn an_unscripted_answer_is_valid_under_the_schema_and_the_same_for_the_same_input() {
    let sim = Sim::start().await;
    let body = under(plain(), &triage());
    let first = sim.ask(body.clone()).await.unwrap().content();
    let value: Value = serde_json::from_str(&first).unwrap();
    assert!(jsonschema::is_valid(&triage(), &value), "{value}");
    assert_eq!(sim.ask(body).await.unwrap().content(), first);
    let mut other = under(plain(), &triage());
    other["messages"][0]["content"] = "Something else.".into();
    assert_ne!(sim.ask(other).await.unwrap().content(), first);
}

#[tokio::test]
async fn a_nonce_asked_for_by_the_system_message_comes_back() {
    let sim = Sim::start().await;
    let sentence = "Sort it. Begin the value of \"summary\" with the word zq7.";
    for (role, begins) in [("system", true), ("user", false), ("developer", false)] {
        let mut body = under(plain(), &triage());
        body["messages"]
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"role": role, "content": sentence}));
        let value: Value = serde_json::from_str(&sim.ask(body).await.unwrap().content()).unwrap();
        assert_eq!(
            value["summary"].as_str().unwrap().starts_with("zq7 "),
            begins,
            "{role}: {value}"
        );
    }
}

#[tokio::test]
async fn a_nonce_is_found_in_a_system_message_of_parts_too() {
    let mut body = under(plain(), &triage());
    let parts = json!([{"type": "text", "text": "Begin the value of \"summary\" "}, {"type": "text", "text": "with the word zq7."}]);
    body["messages"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"role": "system", "content": parts}));
    let value: Value = serde_json::from_str(&Sim::start().await.ask(body).await.unwrap().content()).unwrap();
    assert!(value["summary"].as_str().unwrap().starts_with("zq7 "), "{value}");
}

#[tokio::test]
async fn json_object_gets_an_object_and_text_gets_text() {
    let sim = Sim::start().await;
    let mut body = plain();
    body["response_format"] = json!({"type": "json_object"});
    let value: Value = serde_json::from_str(&sim.ask(body.clone()).await.unwrap().content()).unwrap();
    assert!(value.is_object(), "{value}");
    body["response_format"] = json!({"type": "text"});
    assert_eq!(
        sim.ask(body).await.unwrap().content(),
        sim.ask(plain()).await.unwrap().content()
    );
}

#[tokio::test]
async fn scripted_content_model_finish_reason_and_usage_are_in_the_answer() {
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost": 0.5});
    let sim =
        Sim::with(json!({"content": "{\"a\":1}", "model": "other", "finish_reason": "length", "usage": usage})).await;
    // The schema does not matter for scripted content, even one that no value can be made for.
    let body = sim.ask(under(plain(), &json!({"not": {}}))).await.unwrap().json();
    assert_eq!(body["choices"][0]["message"]["content"], "{\"a\":1}");
    assert_eq!(
        (&body["model"], &body["choices"][0]["finish_reason"]),
        (&json!("other"), &json!("length"))
    );
    assert_eq!(body["usage"], usage);
}

#[tokio::test]
async fn a_plain_answer_is_sent_after_its_delay() {
    let sim = Sim::with(json!({"delay_ms": 300, "first_event_delay_ms": 60000})).await;
    let start = Instant::now();
    assert_eq!(sim.ask(plain()).await.unwrap().status, 200);
    assert!(start.elapsed() >= Duration::from_millis(300));
    let start = Instant::now();
    sim.ask(plain()).await.unwrap();
    assert!(
        start.elapsed() < Duration::from_millis(300),
        "the next one is not delayed"
    );
}

#[tokio::test]
async fn a_scripted_body_is_sent_exactly_as_it_is() {
    let exact = " {\"error\" :\t{\"message\":\"é\"}}\r\n";
    for body in [plain(), streamed()] {
        let script = json!({"status": 529, "headers": {"Content-Type": "application/problem+json", "X-Request-Id": "r1"}, "body": exact});
        let got = Sim::with(script).await.ask(body).await.unwrap();
        assert_eq!(
            (got.status.as_u16(), got.kind(), got.text()),
            (529, "application/problem+json", exact)
        );
        assert_eq!(got.headers["x-request-id"], "r1");
        assert_eq!(got.headers.get_all(header::CONTENT_TYPE).iter().count(), 1);
    }
}

#[tokio::test]
async fn a_scripted_body_without_a_content_type_gets_one_by_what_it_is() {
    for (body, kind) in [
        ("{}", "application/json"),
        ("<h1>", "text/plain; charset=utf-8"),
        ("", "text/plain; charset=utf-8"),
    ] {
        let got = Sim::with(json!({"body": body})).await.ask(plain()).await.unwrap();
        assert_eq!(
            (got.status, got.kind(), got.text(), got.whole),
            (StatusCode::OK, kind, body, true)
        );
    }
}

#[tokio::test]
async fn a_scripted_error_status_without_a_body_is_worded_as_openai_would() {
    for (status, kind) in [
        (401, "authentication_error"),
        (404, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (503, "overloaded_error"),
    ] {
        let sim = Sim::with(json!({"status": status, "headers": {"Retry-After": "7"}})).await;
        let got = sim.ask(streamed()).await.unwrap();
        assert_eq!((got.status.as_u16(), got.kind()), (status, "application/json"));
        assert_eq!(got.json()["error"]["type"], kind);
        assert_eq!(got.headers["retry-after"], "7");
    }
}

#[tokio::test]
async fn a_scripted_redirect_or_an_empty_body_is_a_whole_and_answered_call() {
    for (status, behaviour) in [
        (302, json!({"status": 302, "headers": {"Location": "/"}, "body": ""})),
        (307, json!({"status": 307})),
        (200, json!({"body": ""})),
        (204, json!({"status": 204})),
        (204, json!({"status": 204, "body": "x"})),
        (304, json!({"status": 304, "content": "x"})),
    ] {
        for body in [plain(), streamed()] {
            let sim = Sim::with(behaviour.clone()).await;
            let got = sim.ask(body).await.unwrap();
            assert_eq!(
                (got.status.as_u16(), got.text(), got.whole),
                (status, "", true),
                "{behaviour}"
            );
            assert_eq!(sim.ended().await, ["answered"], "{behaviour}");
        }
    }
}

#[tokio::test]
async fn scripted_content_is_answered_normally_under_any_status_and_headers() {
    let sim = Sim::with(json!({"status": 500, "headers": {"X-A": "b"}, "content": "hello"})).await;
    let got = sim.ask(plain()).await.unwrap();
    assert_eq!(
        (got.status.as_u16(), got.content(), got.kind()),
        (500, "hello".into(), "application/json")
    );
    assert_eq!(got.headers["x-a"], "b");
}

#[tokio::test]
async fn a_request_that_cannot_be_answered_gets_400_in_the_providers_shape_and_is_logged() {
    let sim = Sim::start().await;
    let cases = [
        ("{\"model\":\"m\",", None, None),
        ("", None, None),
        ("[]", Some("model"), None),
        ("{\"messages\":[]}", Some("model"), None),
        ("{\"model\":7,\"messages\":[{\"role\":\"user\"}]}", Some("model"), None),
        ("{\"model\":\"m\"}", Some("messages"), Some("m")),
        ("{\"model\":\"m\",\"messages\":[]}", Some("messages"), Some("m")),
        ("{\"model\":\"m\",\"messages\":[\"hi\"]}", Some("messages"), Some("m")),
        (
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],\"stream\":1}",
            Some("stream"),
            Some("m"),
        ),
        (
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],\"response_format\":{\"type\":\"x\"}}",
            Some("response_format"),
            Some("m"),
        ),
        (
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],\"response_format\":{\"type\":\"json_schema\",\"json_schema\":1}}",
            Some("response_format"),
            Some("m"),
        ),
    ];
    for (body, param, _) in &cases {
        let got = sim.send("POST", "/v1/chat/completions", *body).await.unwrap();
        assert_eq!((got.status.as_u16(), got.kind()), (400, "application/json"), "{body}");
        let error = &got.json()["error"];
        assert_eq!(
            (&error["type"], &error["param"]),
            (&json!("invalid_request_error"), &json!(param)),
            "{body}"
        );
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    let calls = sim.calls().await;
    assert_eq!(calls.len(), cases.len());
    for ((body, _, model), call) in cases.iter().zip(&calls) {
        assert_eq!(
            (&call["body"], &call["model"], &call["ended"]),
            (&json!(body), &json!(model), &json!("answered"))
        );
    }
}

#[tokio::test]
async fn a_schema_that_no_value_is_made_for_is_400_and_says_why() {
    let body = under(plain(), &json!({"type": "string", "pattern": "^x"}));
    let got = Sim::start().await.ask(body).await.unwrap();
    assert_eq!(
        (got.status.as_u16(), &got.json()["error"]["param"]),
        (400, &json!("response_format"))
    );
    assert!(got.text().contains("`pattern`"), "{}", got.text());
}

#[tokio::test]
async fn a_connection_is_kept_for_further_requests() {
    let sim = Sim::start().await;
    let mut sender = sim.connect().await;
    for body in [plain(), streamed(), plain()] {
        let got = send(&mut sender, "POST", "/v1/chat/completions", body.to_string())
            .await
            .unwrap();
        assert!(got.whole);
        sender.ready().await.unwrap();
    }
    assert_eq!(sim.ended().await, ["answered"; 3]);
}

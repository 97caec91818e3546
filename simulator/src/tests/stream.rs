//! Streamed answers.

use super::*;

/// A streamed request whose events can be looked at as they come.
async fn frames(sim: &Sim, body: Value) -> hyper::body::Incoming {
    let mut sender = sim.connect().await;
    let request = Request::post("/v1/chat/completions").header(header::HOST, "simulator");
    let request = request.body(Full::new(body.to_string().into())).unwrap();
    let body = sender.send_request(request).await.unwrap().into_body();
    // Without its sender the connection lives until the body is read or dropped.
    drop(sender);
    body
}

async fn next(body: &mut hyper::body::Incoming) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test]
async fn a_stream_is_a_role_the_content_in_pieces_a_finish_reason_and_done() {
    let long = "Charged twice. ".repeat(9);
    let sim = Sim::with(json!({"content": long, "finish_reason": "length", "model": "other"})).await;
    let got = sim.ask(streamed()).await.unwrap();
    assert_eq!(
        (got.status.as_u16(), got.kind(), got.whole),
        (200, "text/event-stream", true)
    );
    let mut events = got.events();
    assert_eq!(events.pop().unwrap(), "[DONE]");
    assert_eq!(
        events[0]["choices"][0]["delta"],
        json!({"role": "assistant", "content": ""})
    );
    let (last, chunks) = events.split_last().unwrap();
    assert_eq!(
        (&last["choices"][0]["delta"], &last["choices"][0]["finish_reason"]),
        (&json!({}), &json!("length"))
    );
    let content: String = chunks
        .iter()
        .map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap())
        .collect();
    assert_eq!(content, long);
    assert!(chunks.len() > 3, "in pieces");
    for chunk in &events {
        assert_eq!(
            (&chunk["object"], &chunk["model"]),
            (&json!("chat.completion.chunk"), &json!("other"))
        );
        assert_eq!(chunk["id"], events[0]["id"]);
        assert!(chunk.get("usage").is_none());
    }
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["choices"][0]["finish_reason"].is_null())
    );
}

#[tokio::test]
async fn a_stream_ends_with_a_usage_chunk_when_it_is_asked_for() {
    let sim = Sim::with(json!({"content": "abcdefgh"})).await;
    let mut body = streamed();
    body["stream_options"] = json!({"include_usage": true});
    let events = sim.ask(body).await.unwrap().events();
    let [chunks @ .., usage, done] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((&usage["choices"], done), (&json!([]), &json!("[DONE]")));
    assert_eq!(
        usage["usage"],
        json!({"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10})
    );
    assert!(chunks.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)));
}

#[tokio::test]
async fn streamed_and_plain_say_the_same() {
    let sim = Sim::start().await;
    let events = sim.ask(under(streamed(), &triage())).await.unwrap().events();
    let content: String = events
        .iter()
        .filter_map(|event| event.pointer("/choices/0/delta/content")?.as_str())
        .collect();
    assert_eq!(content, sim.ask(under(plain(), &triage())).await.unwrap().content());
}

#[tokio::test]
async fn the_first_event_comes_at_once_and_the_rest_after_the_delay() {
    // The delay is longer than the test waits for anything: only the first event can have come.
    let sim = Sim::with(json!({"delay_ms": 60000})).await;
    let mut body = tokio::time::timeout(LIMIT, frames(&sim, streamed())).await.unwrap();
    let first = tokio::time::timeout(LIMIT, next(&mut body)).await.unwrap();
    assert!(String::from_utf8_lossy(&first).contains("\"role\":\"assistant\""));
    assert_eq!(sim.ended().await, ["open"]);
    sim.script(json!([{"delay_ms": 300}])).await;
    let start = Instant::now();
    let got = sim.ask(streamed()).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(300) && got.text().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn the_first_event_can_be_put_off_and_no_delay_adds_to_another() {
    let sim = Sim::with(json!({"first_event_delay_ms": 300, "delay_ms": 100})).await;
    let start = Instant::now();
    let mut body = frames(&sim, streamed()).await;
    next(&mut body).await;
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(body.collect().await.unwrap().to_bytes().ends_with(b"data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_scripted_event_stream_may_lack_its_end() {
    let script = json!({"headers": {"Content-Type": "text/event-stream"}, "body": "data: {\"x\":1}\n\n"});
    let got = Sim::with(script).await.ask(streamed()).await.unwrap();
    assert_eq!(
        (got.kind(), got.text(), got.whole),
        ("text/event-stream", "data: {\"x\":1}\n\n", true)
    );
}

#[tokio::test]
async fn scripted_headers_and_status_are_on_a_normal_stream_too() {
    let script = json!({"status": 201, "headers": {"content-type": "text/event-stream; charset=utf-8", "x-ratelimit-remaining-requests": "0"}});
    let got = Sim::with(script).await.ask(streamed()).await.unwrap();
    assert_eq!(
        (got.status.as_u16(), got.kind()),
        (201, "text/event-stream; charset=utf-8")
    );
    assert_eq!(got.headers["x-ratelimit-remaining-requests"], "0");
    assert!(got.text().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_stream_is_logged_as_disconnected() {
    let sim = Sim::with(json!({"delay_ms": 60000})).await;
    let mut body = frames(&sim, streamed()).await;
    next(&mut body).await;
    drop(body);
    sim.until_ended(&["disconnected"]).await;
}

//! Silence and cut connections, as the bytes on the wire show them.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Everything that comes until the connection ends, and whether it ended without an error (a FIN, not a reset).
async fn raw(sim: &Sim, body: &Value) -> (String, bool) {
    let mut stream = TcpStream::connect(sim.0).await.unwrap();
    let body = body.to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: s\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    let end = tokio::time::timeout(LIMIT, stream.read_to_end(&mut got)).await.unwrap();
    (String::from_utf8(got).unwrap(), end.is_ok())
}

#[tokio::test]
async fn a_drop_before_or_after_processing_sends_not_one_byte() {
    for at in ["before", "after"] {
        for body in [plain(), streamed()] {
            let sim = Sim::with(json!({"drop": at})).await;
            assert_eq!(raw(&sim, &body).await, (String::new(), true), "{at}");
            assert_eq!(sim.ended().await, ["dropped"]);
            sim.script(json!([{"drop": at}])).await;
            assert!(sim.ask(body).await.unwrap_err().is_incomplete_message());
        }
    }
}

#[tokio::test]
async fn a_drop_before_processing_does_not_wait_and_one_after_it_does() {
    let sim = Sim::with(json!({"drop": "before", "delay_ms": 60000})).await;
    sim.ask(plain()).await.unwrap_err();
    sim.script(json!([{"drop": "after", "delay_ms": 300}])).await;
    let start = Instant::now();
    sim.ask(plain()).await.unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_plain_answer_dropped_in_the_middle_has_its_head_and_about_half_of_its_body() {
    let content = "x".repeat(4000);
    for _ in 0..50 {
        let sim = Sim::with(json!({"drop": "middle", "content": content})).await;
        let (got, clean) = raw(&sim, &plain()).await;
        let (head, body) = got.split_once("\r\n\r\n").unwrap();
        assert!(clean && head.starts_with("HTTP/1.1 200 OK"));
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .unwrap();
        assert_eq!(body.len(), length.parse::<usize>().unwrap() / 2);
        assert_eq!(sim.ended().await, ["dropped"]);
    }
}

#[tokio::test]
async fn a_stream_dropped_in_the_middle_has_some_events_and_no_last_chunk() {
    for behaviour in [json!({"drop": "middle"}), json!({"drop": "middle", "delay_ms": 50})] {
        for _ in 0..25 {
            let sim = Sim::with(behaviour.clone()).await;
            let (got, clean) = raw(&sim, &streamed()).await;
            assert!(clean && got.contains("transfer-encoding: chunked"), "{got}");
            assert!(got.matches("data: {").count() >= 2, "{got}");
            assert!(!got.contains("[DONE]") && !got.ends_with("0\r\n\r\n"), "{got}");
            assert_eq!(sim.ended().await, ["dropped"]);
        }
    }
}

#[tokio::test]
async fn a_client_sees_a_drop_in_the_middle_as_a_broken_transfer() {
    for behaviour in [
        json!({"drop": "middle"}),
        json!({"drop": "middle", "body": "{\"a\":1}"}),
        json!({"drop": "middle", "body": "x"}),
        json!({"drop": "middle", "body": ""}),
        json!({"drop": "middle", "status": 302}),
        json!({"drop": "middle", "status": 503}),
    ] {
        for body in [plain(), streamed()] {
            let sim = Sim::with(behaviour.clone()).await;
            let got = sim.ask(body).await.unwrap();
            assert_eq!(
                u64::from(got.status.as_u16()),
                behaviour["status"].as_u64().unwrap_or(200)
            );
            assert!(!got.whole, "{behaviour}");
            assert_eq!(sim.ended().await, ["dropped"]);
        }
    }
}

#[tokio::test]
async fn a_large_answer_dropped_in_the_middle_is_broken_too() {
    let sim = Sim::with(json!({"drop": "middle", "content": "x".repeat(6 << 20)})).await;
    let got = sim.ask(plain()).await.unwrap();
    assert!(
        !got.whole && !got.body.is_empty() && got.body.len() <= 4 << 20,
        "{}",
        got.body.len()
    );
}

#[tokio::test]
async fn an_answer_that_can_have_no_body_has_no_middle_and_is_not_sent() {
    let sim = Sim::with(json!({"drop": "middle", "status": 204})).await;
    assert_eq!(raw(&sim, &plain()).await, (String::new(), true));
    assert_eq!(sim.ended().await, ["dropped"]);
}

#[tokio::test]
async fn a_hanging_call_stays_silent_and_open_until_its_client_goes_away() {
    for body in [plain(), streamed()] {
        let sim = Sim::with(json!({"hang": true, "drop": "before", "content": "x"})).await;
        let mut stream = TcpStream::connect(sim.0).await.unwrap();
        let body = body.to_string();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: s\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        sim.until_ended(&["open"]).await;
        let silence = tokio::time::timeout(Duration::from_millis(200), stream.read_u8()).await;
        assert!(silence.is_err(), "{silence:?}");
        assert_eq!(sim.ended().await, ["open"]);
        drop(stream);
        sim.until_ended(&["disconnected"]).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_during_the_delay_is_logged_as_disconnected() {
    let sim = Sim::with(json!({"delay_ms": 60000})).await;
    let (mut sender, request) = (
        sim.connect().await,
        Request::post("/v1/chat/completions").header(header::HOST, "s"),
    );
    let request = sender.send_request(request.body(Full::new(plain().to_string().into())).unwrap());
    let call = tokio::spawn(request);
    sim.until_ended(&["open"]).await;
    call.abort();
    drop(sender);
    sim.until_ended(&["disconnected"]).await;
}

#[tokio::test]
async fn a_cut_connection_hurts_no_other() {
    let sim = Sim::with(json!({"delay_ms": 300, "content": "slow"})).await;
    let slow = sim.ask(plain());
    let cut = async {
        sim.until_ended(&["open"]).await;
        sim.script(json!([{"drop": "after"}])).await;
        sim.ask(plain()).await.unwrap_err();
    };
    let (slow, ()) = tokio::join!(slow, cut);
    assert_eq!(slow.unwrap().content(), "slow");
    assert_eq!(sim.ended().await, ["answered", "dropped"]);
}

#[tokio::test]
async fn hundreds_of_slow_calls_are_held_at_once() {
    const CALLS: usize = 400;
    let sim = Sim::start().await;
    sim.script(Value::Array(vec![json!({"delay_ms": 1500}); CALLS])).await;
    let start = Instant::now();
    let got = futures::future::join_all((0..CALLS).map(|_| sim.ask(streamed()))).await;
    assert!(got.iter().all(|got| {
        got.as_ref()
            .is_ok_and(|got| got.whole && got.text().ends_with("[DONE]\n\n"))
    }));
    assert!(
        start.elapsed() < Duration::from_millis(1500 * 10),
        "side by side, not one after the other"
    );
    assert_eq!(sim.ended().await, ["answered"; CALLS]);
}

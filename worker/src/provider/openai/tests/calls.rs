//! One submission is one request: what is in it, and that there is never a second one.

use std::time::{Duration, Instant};

use onejob_common::domain::{FailureKind, WireSeen};
use tokio::net::TcpListener;

use super::server::{STREAM_HEAD, Script, Server};
use super::{ATTEMPT, LONG, SCHEMA, TRACEPARENT, adapter, failure, submit};

const WHOLE: &str = r#"{"model":"m-1","choices":[{"message":{"content":"{}"},"finish_reason":"stop"}]}"#;

#[tokio::test]
async fn the_request_carries_the_attempts_identity_and_the_contracts_own_bytes() {
    let server = Server::start([Script::json("200 OK", WHOLE)]).await;
    submit(&adapter(&server.base_url, true), LONG).await;
    let request = server.requests().remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1"), "{head}");
    for line in [
        format!("idempotency-key: {ATTEMPT}"),
        format!("x-client-request-id: {ATTEMPT}"),
        format!("traceparent: {TRACEPARENT}"),
        "authorization: bearer onejob-worker".to_owned(),
        "content-type: application/json".to_owned(),
    ] {
        assert!(head.lines().any(|have| have == line), "{line} in {head}");
    }
    assert!(body.contains(SCHEMA), "the schema as it was written: {body}");
    let json: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(json["messages"][1]["content"], "cafe\u{301} \"☕\"");
    assert_eq!(
        (&json["stream"], &json["stream_options"]["include_usage"]),
        (&true.into(), &true.into())
    );
    assert_eq!((&json["max_completion_tokens"], &json["seed"]), (&64.into(), &7.into()));
    assert_eq!(json["response_format"]["json_schema"]["strict"], true);
}

#[tokio::test]
async fn a_plain_request_asks_for_no_stream() {
    let server = Server::start([Script::json("200 OK", WHOLE)]).await;
    submit(&adapter(&server.base_url, false), LONG).await;
    let request = server.requests().remove(0);
    let json: serde_json::Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&json["stream"], json.get("stream_options")), (&false.into(), None));
}

#[tokio::test]
async fn nothing_is_asked_twice_and_no_redirect_is_followed() {
    let unsure = [
        ("silence", Script::silent_after("")),
        ("an end without a byte", Script::closed_after("")),
        ("a reset without a byte", Script::reset_after("")),
        (
            "a reset after the headers",
            Script::reset_after("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"),
        ),
        (
            "an end in the body",
            Script::closed_after("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"),
        ),
        ("half a status line", Script::closed_after("HTTP/1.")),
        (
            "silence after the headers of a stream",
            Script::silent_after(STREAM_HEAD),
        ),
        ("500 of an edge", Script::answer("500 Oops", "", "<html>")),
        (
            "502",
            Script::json("502 Bad Gateway", r#"{"error":{"message":"bad gateway"}}"#),
        ),
        (
            "504",
            Script::json("504 Gateway Timeout", r#"{"error":{"message":"late"}}"#),
        ),
    ];
    for (what, script) in unsure {
        for stream in [true, false] {
            let server = Server::start([script.clone(), script.clone(), script.clone()]).await;
            let (seen, _) = submit(&adapter(&server.base_url, stream), Duration::from_millis(400)).await;
            assert_eq!(failure(seen), None, "{what} is unknown");
            assert_eq!(server.requests().len(), 1, "{what}: requests");
        }
    }
    for status in [
        "301 Moved",
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
        "429 Slow down",
    ] {
        let target = Server::start([Script::json("200 OK", WHOLE)]).await;
        let location = format!("location: {}/chat/completions\r\nretry-after: 0\r\n", target.base_url);
        let server = Server::start([Script::answer(status, &location, ""), Script::json("200 OK", WHOLE)]).await;
        let (seen, _) = submit(&adapter(&server.base_url, false), LONG).await;
        assert!(matches!(seen, WireSeen::ErrorStatus { .. }), "{status}: {seen:?}");
        assert_eq!((server.requests().len(), target.requests().len()), (1, 0), "{status}");
    }
}

#[tokio::test]
async fn a_kept_connection_that_dies_under_the_request_is_unknown_and_not_tried_again() {
    let dying = Script::closed_after("");
    let server = Server::start([Script::json("200 OK", WHOLE), dying, Script::json("200 OK", WHOLE)]).await;
    let adapter = adapter(&server.base_url, false);
    assert!(matches!(submit(&adapter, LONG).await.0, WireSeen::Finished { .. }));
    assert_eq!(failure(submit(&adapter, LONG).await.0), None);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn without_a_connection_nothing_was_sent() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = format!("http://{}/v1", free.local_addr().unwrap());
    drop(free);
    let plain = Server::start([]).await;
    let no_tls = plain.base_url.replace("http://", "https://");
    for base_url in [refused.as_str(), "http://no-such-host.invalid/v1", &no_tls] {
        let (seen, sign) = submit(&adapter(base_url, true), LONG).await;
        assert!(!sign);
        assert_eq!(failure(seen), Some(FailureKind::Unreachable), "{base_url}");
    }
}

#[tokio::test]
async fn a_call_ends_at_its_limit_even_while_bytes_still_come() {
    let server = Server::start([Script::silent_after(
        "HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{\"model\"",
    )])
    .await;
    let began = Instant::now();
    let (seen, _) = submit(&adapter(&server.base_url, false), Duration::from_millis(300)).await;
    assert!(matches!(seen, WireSeen::NoAnswer { .. }), "{seen:?}");
    assert!(began.elapsed() >= Duration::from_millis(300) && began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn the_credential_stands_in_no_error() {
    let base_url = "http://user:very-secret@no-such-host.invalid/v1?key=very-secret";
    let (seen, _) = submit(&adapter(base_url, false), LONG).await;
    assert!(!format!("{seen:?}").contains("secret"), "{seen:?}");
}

//! Plain answers: every row of "What an answer means" as bytes on the wire.

use std::time::Duration;

use onejob_common::domain::{FailureKind, Meaning, RetryAfter, Stop, WireSeen};

use super::server::{Script, Server};
use super::{LONG, adapter, failure, submit};

const OWN: &str = r#"{"error":{"message":"it says so","type":"x","param":null,"code":null}}"#;

async fn seen(script: Script) -> WireSeen {
    let server = Server::start([script]).await;
    submit(&adapter(&server.base_url, false), LONG).await.0
}

fn completion(message: &str, finish_reason: &str) -> String {
    format!(
        r#"{{"model":"m-1","choices":[{{"index":0,"message":{message},"finish_reason":{finish_reason}}}],
            "usage":{{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}}}"#
    )
}

#[tokio::test]
async fn a_whole_answer_has_its_text_model_and_usage() {
    let body = completion(r#"{"content":"{\"a\": 1.50}"}"#, r#""stop""#);
    let WireSeen::Finished { stop, answer } = seen(Script::json("200 OK", &body)).await else {
        panic!("no answer");
    };
    assert_eq!(stop, Stop::Complete);
    assert_eq!(answer.text, r#"{"a": 1.50}"#);
    assert_eq!(answer.served_model.as_deref(), Some("m-1"));
    assert_eq!(answer.usage.unwrap().total_tokens, 5);
}

#[tokio::test]
async fn statuses_are_what_the_table_says() {
    let rows = [
        ("400 Bad Request", OWN, Some(FailureKind::Rejected)),
        ("401 Unauthorized", OWN, Some(FailureKind::Rejected)),
        ("404 Not Found", "<html>", Some(FailureKind::Rejected)),
        ("408 Request Timeout", OWN, Some(FailureKind::Rejected)),
        ("422 Unprocessable", "", Some(FailureKind::Rejected)),
        ("429 Too Many Requests", OWN, Some(FailureKind::RateLimited)),
        ("429 Too Many Requests", "<html>", Some(FailureKind::RateLimited)),
        ("500 Oops", OWN, Some(FailureKind::ProviderError)),
        ("500 Oops", r#"{"error":"just a word"}"#, None),
        ("500 Oops", r#"{"message":"a proxy's"}"#, None),
        ("500 Oops", "", None),
        ("502 Bad Gateway", OWN, None),
        ("503 Unavailable", OWN, Some(FailureKind::Overloaded)),
        ("503 Unavailable", "<html>", None),
        ("504 Gateway Timeout", OWN, None),
        ("520 Edge", OWN, None),
        ("524 Edge", "<html>", None),
        ("529 Overloaded", OWN, Some(FailureKind::Overloaded)),
        ("529 Overloaded", "", None),
        ("202 Accepted", OWN, Some(FailureKind::ProviderError)),
        ("204 No Content", "", Some(FailureKind::ProviderError)),
    ];
    for (status, body, wanted) in rows {
        let seen = seen(Script::json(status, body)).await;
        assert_eq!(failure(seen), wanted, "{status} {body}");
    }
}

#[tokio::test]
async fn a_200_that_is_no_answer_is_the_providers_error_and_its_body_is_kept() {
    let bodies = [
        OWN,
        "",
        "  \n",
        "<html>hello</html>",
        "null",
        "[]",
        "{}",
        r#"{"choices":[]}"#,
        r#"{"choices":null}"#,
        r#"{"choices":[{"message":null,"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"message":{"content":"{}"},"finish_reason":null}]}"#,
        r#"{"choices":[{"message":{"content":"{}"},"finish_reason":"tool_calls"}]}"#,
    ];
    for body in bodies {
        let Meaning::Failed(definite) = seen(Script::json("200 OK", body)).await.meaning() else {
            panic!("{body}: a failure was expected");
        };
        assert_eq!(definite.kind, FailureKind::ProviderError, "{body}");
        assert_eq!(definite.raw.unwrap(), body, "the body is kept");
    }
}

#[tokio::test]
async fn how_it_stopped_is_read_from_the_api_s_own_words() {
    let rows = [
        (
            completion(r#"{"content":"{\"a\":"}"#, r#""length""#),
            FailureKind::Truncated,
        ),
        (
            completion(r#"{"content":null}"#, r#""content_filter""#),
            FailureKind::Refused,
        ),
        (
            completion(r#"{"content":null,"refusal":"No."}"#, r#""stop""#),
            FailureKind::Refused,
        ),
    ];
    for (body, wanted) in rows {
        assert_eq!(
            failure(seen(Script::json("200 OK", &body)).await),
            Some(wanted),
            "{body}"
        );
    }
}

#[tokio::test]
async fn an_answer_larger_than_allowed_is_cut_and_counts_as_truncated() {
    let text = "x".repeat(10_000);
    let body = completion(&format!(r#"{{"content":"{text}"}}"#), r#""stop""#);
    assert_eq!(
        failure(seen(Script::json("200 OK", &body)).await),
        Some(FailureKind::Truncated)
    );
}

#[tokio::test]
async fn retry_after_is_read_and_capped() {
    let hinted = |hint: &str| Script::answer("429 Too Many Requests", &format!("retry-after: {hint}\r\n"), OWN);
    let pause = async |hint: &str| {
        let WireSeen::ErrorStatus { retry_after, .. } = seen(hinted(hint)).await else {
            panic!("a status was expected");
        };
        retry_after.map(RetryAfter::pause)
    };
    assert_eq!(pause("2").await, Some(Duration::from_secs(2)));
    assert_eq!(pause("999999").await, Some(Duration::from_secs(900)));
    assert_eq!(pause("whenever").await, None);
}

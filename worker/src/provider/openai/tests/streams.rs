//! Streamed answers: the end mark alone makes them whole.

use onejob_common::domain::{FailureKind, WireSeen};

use super::server::{STREAM_HEAD, Script, Server};
use super::{LONG, adapter, failure, submit};

const FIRST: &str =
    r#"data: {"model":"m-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const TEXT: &str = r#"data: {"model":"m-1","choices":[{"index":0,"delta":{"content":"{}"},"finish_reason":null}]}"#;
const STOP: &str = r#"data: {"model":"m-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str =
    r#"data: {"model":"m-1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}"#;
const DONE: &str = "data: [DONE]";

fn events(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n\n")).collect()
}

async fn seen(script: Script) -> (WireSeen, bool) {
    let server = Server::start([script]).await;
    submit(&adapter(&server.base_url, true), LONG).await
}

#[tokio::test]
async fn a_stream_with_its_end_mark_is_a_whole_answer() {
    let comment = ": keep-alive";
    let (seen, sign) = seen(Script::stream(&events(&[
        comment, FIRST, TEXT, comment, TEXT, STOP, USAGE, DONE,
    ])))
    .await;
    let WireSeen::Finished { answer, .. } = seen else {
        panic!("{seen:?}");
    };
    assert!(sign, "the first event is a sign");
    assert_eq!(answer.text, "{}{}");
    assert_eq!(answer.usage.unwrap().total_tokens, 5);
    assert_eq!(answer.served_model.as_deref(), Some("m-1"));
}

#[tokio::test]
async fn a_stream_without_its_end_mark_is_unknown_however_whole_its_text_looks() {
    let unended = [
        Script::stream(""),
        Script::stream(&events(&[FIRST, TEXT])),
        Script::stream(&events(&[FIRST, TEXT, STOP, USAGE])),
        Script::stream(&format!("{}data: [DON", events(&[FIRST, TEXT, STOP]))),
        Script::reset_after(&format!("{STREAM_HEAD}{}", events(&[FIRST, TEXT, STOP]))),
    ];
    for script in unended {
        let (seen, _) = seen(script).await;
        assert!(matches!(seen, WireSeen::UnendedStream { .. }), "{seen:?}");
        assert_eq!(failure(seen), None);
    }
}

#[tokio::test]
async fn an_error_in_the_stream_is_the_providers_error() {
    let error = r#"data: {"error":{"message":"out of memory"}}"#;
    for lines in [&[FIRST, error, DONE][..], &[error], &[FIRST, "data: <html>", DONE]] {
        let (seen, _) = seen(Script::stream(&events(lines))).await;
        assert_eq!(failure(seen), Some(FailureKind::ProviderError), "{lines:?}");
    }
    let (seen, _) = seen(Script::stream(&events(&[DONE]))).await;
    assert_eq!(
        failure(seen),
        Some(FailureKind::ProviderError),
        "a stream without a choice"
    );
}

#[tokio::test]
async fn a_streamed_cut_or_refusal_is_definite() {
    let length = STOP.replace("stop", "length");
    let filter = STOP.replace("stop", "content_filter");
    let refusal = TEXT.replace(r#""content":"{}""#, r#""refusal":"No.""#);
    for (lines, wanted) in [
        ([FIRST, TEXT, &length, DONE], FailureKind::Truncated),
        ([FIRST, TEXT, &filter, DONE], FailureKind::Refused),
        ([FIRST, &refusal, STOP, DONE], FailureKind::Refused),
    ] {
        assert_eq!(failure(seen(Script::stream(&events(&lines))).await.0), Some(wanted));
    }
}

#[tokio::test]
async fn a_stream_that_does_not_end_is_cut_at_the_largest_answer() {
    let text = TEXT.replace("{}", &"x".repeat(1000));
    let script = Script::silent_after(&format!("{STREAM_HEAD}{}", events(&[text.as_str(); 6])));
    assert_eq!(failure(seen(script).await.0), Some(FailureKind::Truncated));
}

#[tokio::test]
async fn what_comes_is_told_by_its_content_type_not_by_what_was_asked() {
    let body = r#"{"model":"m-1","choices":[{"message":{"content":"{}"},"finish_reason":"stop"}]}"#;
    let (plain, sign) = seen(Script::json("200 OK", body)).await;
    assert!(matches!(plain, WireSeen::Finished { .. }) && !sign, "{plain:?}");
    let server = Server::start([Script::stream(&events(&[FIRST, TEXT, STOP, DONE]))]).await;
    let (streamed, _) = submit(&adapter(&server.base_url, false), LONG).await;
    assert!(matches!(streamed, WireSeen::Finished { .. }), "{streamed:?}");
}

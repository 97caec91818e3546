//! OpenAI-compatible chat completions, plain and streamed: `POST /v1/chat/completions`.
//!
//! A submission goes: read, logged together with the behaviour it meets, processed (the answer is made), played. What
//! is made depends on the request and the behaviour alone.

mod behaviour;
mod plain;
mod request;
mod stream;
mod text;
mod value;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use tokio::time::Instant;

pub use self::behaviour::Behaviour;
use self::request::{Ask, Refusal, Seen};
use crate::answer::{Answer, cut_at};
use crate::behaviour::{DropAt, LONGEST_WAIT};
use crate::control::{error_body, read_body};
use crate::log::{Ended, Submission};
use crate::state::Simulator;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What every completion says of itself, plain or streamed.
struct Completion {
    id: String,
    created: i64,
    model: String,
    content: String,
    finish_reason: String,
    usage: serde_json::Value,
}

/// Takes a submission.
pub async fn submit(State(simulator): State<Simulator>, request: Request) -> Response {
    let arrived = Instant::now();
    let (head, body) = request.into_parts();
    let (body, unread) = match read_body(body).await {
        Ok(body) => (body, None),
        Err(answer) => (Bytes::new(), Some(answer)),
    };
    let seen = Seen::of(&body);
    let (call, behaviour) = simulator.submit(Submission {
        path: head.uri.path().to_owned(),
        model: seen.model.clone(),
        headers: head.headers,
        body: body.clone(),
    });
    if let Some(answer) = unread {
        call.end(Ended::Answered);
        return answer;
    }
    if behaviour.hang {
        return cut_at(arrived + LONGEST_WAIT, call).await;
    }
    if behaviour.drop == Some(DropAt::Before) {
        return cut_at(arrived, call).await;
    }
    let cut = behaviour.drop;
    let answer = answer(&simulator, behaviour, &seen, &body, arrived);
    // The request is not needed any more: thousands of slow calls are to hold their answers only.
    drop((body, seen));
    let start = answer.start;
    let played = match cut {
        None => Some(answer),
        Some(DropAt::Middle) => answer.cut_in_the_middle(),
        Some(DropAt::Before | DropAt::After) => None,
    };
    match played {
        Some(answer) => answer.play(call).await,
        None => cut_at(start, call).await,
    }
}

fn answer(simulator: &Simulator, behaviour: Behaviour, seen: &Seen, body: &[u8], arrived: Instant) -> Answer {
    let first = arrived
        + if seen.stream {
            behaviour.first_event_delay
        } else {
            std::time::Duration::ZERO
        };
    let ready = first.max(arrived + behaviour.delay);
    if let Some(scripted) = behaviour.body {
        let kind = if serde_json::from_str::<serde::de::IgnoredAny>(&scripted).is_ok() {
            JSON
        } else {
            TEXT
        };
        let status = behaviour.status.unwrap_or(StatusCode::OK);
        return Answer::whole(ready, status, with_type(behaviour.headers, kind), scripted.into());
    }
    let status = behaviour.status.unwrap_or(StatusCode::OK);
    if behaviour.content.is_none() && !status.is_success() {
        return bare_status(ready, status, behaviour.headers);
    }
    let (ask, content) = match ask_and_content(body, behaviour.content) {
        Ok(both) => both,
        Err(refusal) => return refused(ready, behaviour.headers, &refusal),
    };
    let completion = Completion {
        id: format!("chatcmpl-sim-{}", simulator.next_answer()),
        created: crate::clock::now().timestamp(),
        usage: behaviour.usage.unwrap_or_else(|| plain::usage(&ask, &content)),
        model: behaviour.model.unwrap_or(ask.model),
        content,
        finish_reason: behaviour.finish_reason.unwrap_or_else(|| "stop".into()),
    };
    if ask.stream {
        let headers = with_type(behaviour.headers, HeaderValue::from_static("text/event-stream"));
        stream::answer(&completion, ask.include_usage, first, ready, status, headers)
    } else {
        let headers = with_type(behaviour.headers, JSON);
        Answer::whole(ready, status, headers, plain::body(&completion))
    }
}

fn ask_and_content(body: &[u8], scripted: Option<String>) -> Result<(Ask, String), Refusal> {
    let ask = Ask::read(body)?;
    let content = match scripted {
        Some(content) => content,
        None => ask.content()?,
    };
    Ok((ask, content))
}

/// A scripted status without a body: an error is worded as OpenAI would word it, anything else has no body.
fn bare_status(start: Instant, status: StatusCode, headers: HeaderMap) -> Answer {
    if !(status.is_client_error() || status.is_server_error()) {
        return Answer::whole(start, status, headers, Bytes::new());
    }
    let kind = match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let body = error_body(kind, None, None, "scripted: this status was queued at the simulator");
    Answer::whole(start, status, with_type(headers, JSON), body.to_string().into())
}

fn refused(start: Instant, headers: HeaderMap, refusal: &Refusal) -> Answer {
    let body = error_body("invalid_request_error", refusal.param, None, &refusal.message);
    Answer::whole(
        start,
        StatusCode::BAD_REQUEST,
        with_type(headers, JSON),
        body.to_string().into(),
    )
}

/// The scripted headers decide; without a scripted content type, the usual one.
fn with_type(mut headers: HeaderMap, usual: HeaderValue) -> HeaderMap {
    headers.entry(header::CONTENT_TYPE).or_insert(usual);
    headers
}

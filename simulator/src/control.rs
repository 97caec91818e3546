//! The routes: the control API under `/_sim`, the manual, and those of every API that is spoken.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::behaviour::{BadField, Fields, text};
use crate::state::Simulator;
use crate::{args, chat};

/// The largest request, in bytes: prompts with pictures in them are large, but a memory is not endless.
const LARGEST_BODY: usize = 32 << 20;

/// How long a request's body may take to arrive.
const SLOWEST_BODY: Duration = Duration::from_secs(60);

/// A new simulator that remembers nothing.
pub fn router() -> Router {
    Router::new()
        .route("/", get(async || args::manual()))
        .route("/_sim", delete(forget))
        .route("/_sim/next", put(next))
        .route("/_sim/calls", get(calls))
        .route("/v1/chat/completions", post(chat::submit))
        .fallback(no_such_path)
        .with_state(Simulator::default())
}

/// An error in OpenAI's shape, which the control API uses too.
pub fn error(status: StatusCode, kind: &str, param: Option<&str>, code: Option<&str>, message: &str) -> Response {
    (status, Json(error_body(kind, param, code, message))).into_response()
}

pub fn error_body(kind: &str, param: Option<&str>, code: Option<&str>, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
}

/// A request's whole body, or what to answer instead.
pub async fn read_body(body: Body) -> Result<Bytes, Response> {
    let (status, message) = match timeout(SLOWEST_BODY, to_bytes(body, LARGEST_BODY)).await {
        Ok(Ok(bytes)) => return Ok(bytes),
        Ok(Err(_)) => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {LARGEST_BODY} bytes"),
        ),
        Err(_) => (
            StatusCode::REQUEST_TIMEOUT,
            format!("the body took longer than {SLOWEST_BODY:?} to arrive"),
        ),
    };
    Err(error(status, "invalid_request_error", None, None, &message))
}

async fn no_such_path(uri: Uri) -> Response {
    let message = format!("nothing is served at {}; GET / says what is", uri.path());
    error(
        StatusCode::NOT_FOUND,
        "invalid_request_error",
        None,
        Some("not_found"),
        &message,
    )
}

async fn forget(State(simulator): State<Simulator>) -> StatusCode {
    simulator.forget();
    StatusCode::NO_CONTENT
}

/// `PUT /_sim/next`: all behaviours of the request are queued, or none.
async fn next(State(simulator): State<Simulator>, body: Body) -> Response {
    let body = match read_body(body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    match read(&body) {
        Ok((model, behaviours)) => {
            let queued = simulator.queue(&model, behaviours);
            Json(json!({"model": model, "queued": queued})).into_response()
        }
        Err(BadField { field, message }) => {
            let message = format!("{field} {message}; nothing was queued");
            let code = Some("invalid_behaviour");
            error(
                StatusCode::BAD_REQUEST,
                "invalid_request_error",
                Some(&field),
                code,
                &message,
            )
        }
    }
}

fn read(body: &[u8]) -> Result<(String, Vec<chat::Behaviour>), BadField> {
    let value = serde_json::from_slice(body).map_err(|error| BadField {
        field: "body".into(),
        message: format!("must be JSON: {error}"),
    })?;
    let mut fields = Fields::of("", value)?;
    let model = fields.take("model", "a string that is not empty", |value| {
        text(value).filter(|m| !m.is_empty())
    })?;
    let model = model.ok_or_else(|| fields.bad("model", "is missing"))?;
    let list = fields.take("behaviours", "an array", |value| match value {
        Value::Array(list) => Some(list),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => None,
    })?;
    let list = list.ok_or_else(|| fields.bad("behaviours", "is missing"))?;
    fields.finish()?;
    let read = |(n, value)| chat::Behaviour::read(Fields::of(&format!("behaviours[{n}]"), value)?);
    Ok((model, list.into_iter().enumerate().map(read).collect::<Result<_, _>>()?))
}

/// Unknown parameters are refused: a misspelt `model` would list every call, and a test would count the wrong ones.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    model: Option<String>,
}

async fn calls(State(simulator): State<Simulator>, which: Result<Query<Which>, QueryRejection>) -> Response {
    let Query(Which { model }) = match which {
        Ok(which) => which,
        Err(bad) => {
            return error(
                StatusCode::BAD_REQUEST,
                "invalid_request_error",
                None,
                None,
                &bad.body_text(),
            );
        }
    };
    let calls = simulator.calls(model.as_deref());
    // The text of a long log takes a while: calls in flight must not wait for it.
    let written = tokio::task::spawn_blocking(move || {
        let shown: Vec<_> = calls.iter().map(|call| call.show()).collect();
        serde_json::to_vec(&shown)
    });
    match written
        .await
        .map_err(|failed| failed.to_string())
        .and_then(|list| list.map_err(|bad| bad.to_string()))
    {
        Ok(list) => ([(header::CONTENT_TYPE, "application/json")], list).into_response(),
        Err(bad) => error(StatusCode::INTERNAL_SERVER_ERROR, "server_error", None, None, &bad),
    }
}

//! The routes: the control API under `/_sim`, the manual, and those of every API that is spoken.

use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::behaviour::{BadField, Fields, text};
use crate::state::Simulator;
use crate::{args, chat};

/// The largest request, in bytes: prompts with pictures in them are large, but a memory is not endless.
pub const LARGEST_BODY: usize = 32 << 20;

/// A new simulator that remembers nothing.
pub fn router() -> Router {
    Router::new()
        .route("/", get(async || args::manual()))
        .route("/_sim", delete(forget))
        .route("/_sim/next", put(next))
        .route("/_sim/calls", get(calls))
        .route("/v1/chat/completions", post(chat::submit))
        .fallback(no_such_path)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(Simulator::default())
}

/// An error in OpenAI's shape, which the control API uses too.
pub fn error(status: StatusCode, kind: &str, param: Option<&str>, code: Option<&str>, message: &str) -> Response {
    (status, Json(error_body(kind, param, code, message))).into_response()
}

pub fn error_body(kind: &str, param: Option<&str>, code: Option<&str>, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
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
async fn next(State(simulator): State<Simulator>, body: Bytes) -> Response {
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
    let shown: Result<Vec<_>, _> = calls.iter().map(|call| call.show()).collect();
    match shown.and_then(|shown| serde_json::to_vec(&shown)) {
        Ok(list) => ([(header::CONTENT_TYPE, "application/json")], list).into_response(),
        Err(bad) => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "server_error",
            None,
            None,
            &bad.to_string(),
        ),
    }
}

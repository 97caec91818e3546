//! The calls: one file a resource.

mod jobs;
mod lists;
mod resolution;
mod submit;

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use onejob_common::config::ms;
use serde::Serialize;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::decompression::RequestDecompressionLayer;

use crate::App;
use crate::problem::Problem;
use crate::server::{no_such_path, panicked, within, wrong_method};

/// The longest wait of `?wait=`.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Everything that is served.
pub fn router(app: App) -> Router {
    let limit = ms(app.config.api.request_timeout_ms);
    let usual = Router::new()
        .route("/v1/jobs", post(submit::submit).get(jobs::list))
        .route("/v1/jobs/{id}/attempts", post(jobs::attempt))
        .route("/v1/jobs/{id}/cancel", post(jobs::cancel))
        .route("/v1/attempts/{id}/resolution", post(resolution::resolve))
        .route("/v1/unknowns", get(lists::unknowns))
        .route("/v1/providers", get(lists::providers))
        .route("/v1/contracts", get(lists::contracts))
        .route("/v1/certifications", get(lists::certifications).post(lists::certify))
        .route("/v1/certifications/{id}", get(lists::certification))
        .layer(axum::middleware::from_fn(move |request, next| {
            within(limit, request, next)
        }));
    let waiting = Router::new()
        .route("/v1/jobs/{id}", get(jobs::read))
        .layer(axum::middleware::from_fn(move |request, next| {
            within(LONGEST_WAIT + limit, request, next)
        }));
    usual
        .merge(waiting)
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(RequestDecompressionLayer::new().gzip(true))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(app)
}

/// A value as JSON.
fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    let body = serde_json::to_string(value).map_err(|error| {
        tracing::error!(%error, "an answer can't be written as JSON");
        Problem::internal()
    })?;
    Ok((status, [(axum::http::header::CONTENT_TYPE, "application/json")], body).into_response())
}

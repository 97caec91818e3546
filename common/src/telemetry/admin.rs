//! The admin port: `/livez` (the event loop turns), `/readyz` (the work can be done), `/metrics`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::metrics::Rendered;

/// How long a look at readiness may take before the answer is "not ready".
const LIMIT: Duration = Duration::from_secs(2);
/// How often recorded values are put into their buckets, so that they do not pile up where nobody scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// One thing that readiness looks at.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub ok: bool,
    /// Whether readiness depends on it.
    pub required: bool,
    /// What was seen.
    pub detail: String,
}

impl Check {
    /// A check without which the process is not ready.
    #[must_use]
    pub fn required(name: &'static str, ok: bool, detail: impl Into<String>) -> Self {
        Self {
            name,
            ok,
            required: true,
            detail: detail.into(),
        }
    }

    /// A check that is shown and does not decide.
    #[must_use]
    pub fn optional(name: &'static str, ok: bool, detail: impl Into<String>) -> Self {
        Self {
            name,
            ok,
            required: false,
            detail: detail.into(),
        }
    }
}

/// Everything that readiness looked at.
pub type Readiness = Vec<Check>;

type Look = dyn Fn() -> Pin<Box<dyn Future<Output = Readiness> + Send>> + Send + Sync;

#[derive(Clone)]
struct Admin {
    rendered: Rendered,
    look: Arc<Look>,
}

/// Serves the admin port until `stop`.
pub async fn serve(
    listener: TcpListener,
    rendered: Rendered,
    look: impl Fn() -> Pin<Box<dyn Future<Output = Readiness> + Send>> + Send + Sync + 'static,
    stop: CancellationToken,
) {
    let upkeep = tokio::spawn(keep(rendered.clone(), stop.clone()));
    let router = Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Admin {
            rendered,
            look: Arc::new(look),
        });
    let served = axum::serve(listener, router)
        .with_graceful_shutdown(stop.clone().cancelled_owned())
        .into_future();
    // A scraper that keeps its connection open must not hold up the end.
    tokio::select! {
        ended = served => if let Err(error) = ended {
            tracing::error!(%error, "the admin port stopped");
        },
        () = async { stop.cancelled().await; tokio::time::sleep(Duration::from_millis(200)).await } => {}
    }
    upkeep.abort();
}

async fn keep(rendered: Rendered, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => rendered.upkeep(),
            () = stop.cancelled() => return,
        }
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, admin.rendered.text()).into_response()
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let checks = tokio::time::timeout(LIMIT, (admin.look)())
        .await
        .unwrap_or_else(|_elapsed| vec![Check::required("readiness", false, "no answer within 2 s")]);
    let ready = checks.iter().all(|check| check.ok || !check.required);
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = serde_json::json!({"ready": ready, "checks": checks});
    (status, axum::Json(body)).into_response()
}

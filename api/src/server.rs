//! Connections: HTTP/1.1, with limits on a request's head, its whole time, and the end of the process.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::problem::Problem;

/// How long open requests may still take when the process stops.
const LAST_REQUESTS: Duration = Duration::from_secs(10);
/// A pause when the system has no file descriptors left: accepting would fail again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`, then finishes what is open.
pub async fn serve(listener: TcpListener, router: Router, header_timeout: Duration, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY");
        }
        let router = router.clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            let router = router.clone();
            async move { Ok::<_, Infallible>(answer(router, request.map(Body::new)).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .serve_connection(TokioIo::new(stream), service);
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = watched.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(LAST_REQUESTS, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still open when the process had to end");
    }
}

async fn answer(router: Router, request: Request) -> Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Answers `503` when a request takes longer than `limit`. What it began in the database goes on in a task of its own.
pub async fn within(limit: Duration, request: Request, next: Next) -> Response {
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_elapsed) => {
            tracing::warn!(limit_ms = limit.as_millis(), "a request took too long");
            Problem::unavailable("The request took too long. Repeat it with the same key.").into_response()
        }
    }
}

/// What a panic in a handler is answered with.
#[must_use]
pub fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    Problem::internal().into_response()
}

/// `404` of a path that does not exist.
pub async fn no_such_path(request: Request) -> Problem {
    let path: String = request.uri().path().chars().take(100).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        "not-found",
        "Not found",
        format!(
            "There is nothing at {path:?}. The calls are under /v1: jobs, attempts, unknowns, providers, contracts, certifications."
        ),
    )
}

/// `405`; the router adds `Allow`.
pub async fn wrong_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        "Method not allowed",
        "This path does not take this method; the Allow header names those that it takes.",
    )
}

//! The accept loop. It owns every TCP connection, because cutting one is a thing the simulator has to be able to do.
//!
//! A handler asks for a cut in one of two ways, and hyper aborts the connection on both (see
//! `hyper::service::Service::Error`): it marks its response with [`Cut`], which becomes an error of the service before
//! a byte was written; or its body ends with [`Cut`], which leaves a `Content-Length` unfulfilled or a chunked body
//! without its last chunk. The socket is then closed with a FIN, not reset: a reset would let the client's kernel throw
//! away the half of the answer that it had already received, and what a client sees would depend on timing.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};

/// How long a connection may stay without a request. Longer than the 90 s after which common clients (reqwest, hyper)
/// close an unused connection themselves: a server that closes first makes some submissions fail for no scripted reason.
const IDLE: Duration = Duration::from_secs(120);

/// How long to wait when no connection can be accepted, mostly because the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// As a response's extension: send nothing and cut the connection. As a body's error: cut it here.
#[derive(Clone, Copy, Debug)]
pub struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the script cuts this connection")
    }
}

impl std::error::Error for Cut {}

/// A response that is never sent: its connection is cut instead.
pub fn cut() -> Response {
    let mut response = Response::default();
    response.extensions_mut().insert(Cut);
    response
}

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, router: Router) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, router.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; if files run out, raise the limit with ulimit -n");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router) {
    // Without it, the second small write of a streamed answer may wait 40 ms for the client's delayed ACK.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "the connection was gone before it was served");
        return;
    }
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = router.call(request);
        async move {
            let Ok(response) = answer.await;
            match response.extensions().get::<Cut>() {
                Some(cut) => Err(*cut),
                None => Ok(response),
            }
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

//! HTTP towards a provider: one request, no hidden second one.
//!
//! No retries, no redirects, no proxy of the environment. Idle connections are given up well before a server would close
//! them: a request lost on a dying one can't be told from one that arrived. Bodies are bounded.

use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use onejob_common::config::{ProviderConfig, ms};
use onejob_common::domain::WireSeen;
use reqwest::Response;

/// A client for one provider.
pub(super) fn build(config: &ProviderConfig) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .http1_only()
        .tcp_nodelay(true)
        .connect_timeout(ms(config.connect_timeout_ms))
        .pool_idle_timeout(ms(config.idle_connection_ms))
        .pool_max_idle_per_host(usize::from(config.concurrency))
        .user_agent(concat!("onejob/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// What a request that got no response is: nothing was sent while there was no connection; after that, anything may be.
pub(super) fn no_response(error: &reqwest::Error) -> WireSeen {
    if error.is_connect() || error.is_builder() {
        WireSeen::NotSent {
            detail: format!("no connection: {}", causes(error)),
        }
    } else {
        WireSeen::NoAnswer {
            detail: format!("the connection ended before an answer: {}", causes(error)),
        }
    }
}

/// A call that did not end in time.
pub(super) fn too_slow(limit: Duration) -> WireSeen {
    WireSeen::NoAnswer {
        detail: format!("no whole answer within {} ms", limit.as_millis()),
    }
}

/// How a body ended.
pub(super) enum Body {
    /// It is whole.
    Whole(Bytes),
    /// It is longer than the limit; the beginning.
    TooLong(Bytes),
    /// The connection ended in the middle of it; what came, and why.
    Broken(Bytes, String),
}

/// Reads a body up to `most` bytes.
pub(super) async fn read(mut response: Response, most: usize) -> Body {
    let mut bytes = BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let room = most.saturating_sub(bytes.len());
                bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return Body::TooLong(bytes.freeze());
                }
            }
            Ok(None) => return Body::Whole(bytes.freeze()),
            Err(error) => return Body::Broken(bytes.freeze(), causes(&error)),
        }
    }
}

/// An error with what is behind it, without the address (it may hold a credential).
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&error.to_string());
        cause = error.source();
    }
    if text.is_empty() {
        text.push_str(if error.is_timeout() {
            "it took too long"
        } else {
            "it failed"
        });
    }
    text
}

//! Every status that is no success.

use std::time::Duration;

use bytes::Bytes;
use onejob_common::clock;
use onejob_common::domain::{RAW_KEPT, RetryAfter, WireSeen};
use reqwest::Response;
use reqwest::header::RETRY_AFTER;
use serde::Deserialize;

use super::super::client::{self, Body};

/// How much of a provider's message is shown, in characters.
const SHOWN: usize = 300;

/// The error shape that these APIs document: an object `error` with a text `message`.
#[derive(Deserialize)]
pub(super) struct ErrorBody {
    pub error: ErrorObject,
}

#[derive(Deserialize)]
pub(super) struct ErrorObject {
    message: String,
}

impl ErrorObject {
    /// The provider's message, cut.
    pub fn message(&self) -> String {
        shown(&self.message)
    }
}

/// The beginning of a text.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// What an error status is.
pub(super) async fn seen(response: Response, cap: Duration) -> WireSeen {
    let status = response.status().as_u16();
    let retry_after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| RetryAfter::parse(text, clock::now(), cap));
    let (raw, whole) = match client::read(response, RAW_KEPT).await {
        Body::Whole(raw) => (raw, true),
        Body::TooLong(raw) | Body::Broken(raw, _) => (raw, false),
    };
    // The beginning of a body is nobody's documented shape.
    let own = Some(&raw).filter(|_| whole).and_then(own_shape);
    WireSeen::ErrorStatus {
        status,
        own_shape: own.is_some(),
        retry_after,
        detail: own.unwrap_or_else(|| "the body is not this API's error object".to_owned()),
        raw,
    }
}

fn own_shape(raw: &Bytes) -> Option<String> {
    serde_json::from_slice(raw)
        .ok()
        .map(|body: ErrorBody| body.error.message())
}

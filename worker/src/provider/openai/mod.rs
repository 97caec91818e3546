//! Chat completions of `OpenAI`, vLLM, llama.cpp, `OpenRouter` and others: plain and streamed.
//!
//! `request` is what is sent, `response` a plain answer, `stream` a streamed one, `error` every status that is no success.
//! These APIs can't be asked later what became of a request, so silence stays unknown until a person settles it.

mod error;
mod request;
mod response;
mod stream;
#[cfg(test)]
mod tests;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use onejob_common::config::{ProviderConfig, ms};
use onejob_common::domain::{ProviderName, RAW_KEPT, WireSeen};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};

use super::client::{self, Body};
use super::{Acknowledged, BuildError, Call, Provider};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-client-request-id");

/// The adapter.
pub(super) struct OpenAi {
    http: reqwest::Client,
    url: Url,
    /// `Bearer …`, marked as sensitive: it shows in no log.
    credential: Option<HeaderValue>,
    config: ProviderConfig,
}

impl OpenAi {
    pub(super) fn new(_name: &ProviderName, config: &ProviderConfig) -> Result<Self, BuildError> {
        let address = format!("{}/chat/completions", config.base_url.trim_end_matches('/'));
        let credential = match config.api_key().map_err(BuildError::Credential)? {
            None => None,
            Some(key) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                    .map_err(|_| BuildError::CredentialCharacters)?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self {
            http: client::build(config)?,
            url: address
                .parse()
                .map_err(|_| BuildError::Address(config.base_url.clone()))?,
            credential,
            config: config.clone(),
        })
    }

    async fn call(&self, call: Call, mut acknowledged: Acknowledged) -> WireSeen {
        let (headers, body) = match (self.headers(&call), request::body(&self.config, &call.prompt)) {
            (Ok(headers), Ok(body)) => (headers, body),
            (Err(detail), _) | (_, Err(detail)) => return WireSeen::NotSent { detail },
        };
        let sent = self.http.post(self.url.clone()).headers(headers).body(body).send();
        match sent.await {
            Ok(response) => self.answer(response, &mut acknowledged).await,
            Err(error) => client::no_response(&error),
        }
    }

    fn headers(&self, call: &Call) -> Result<HeaderMap, String> {
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| format!("a header: {error}"));
        let id = value(&call.attempt.to_string())?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(IDEMPOTENCY_KEY, id.clone());
        headers.insert(CLIENT_REQUEST_ID, id);
        headers.insert(TRACEPARENT, value(&call.traceparent)?);
        if let Some(credential) = &self.credential {
            headers.insert(AUTHORIZATION, credential.clone());
        }
        Ok(headers)
    }

    async fn answer(&self, response: Response, acknowledged: &mut Acknowledged) -> WireSeen {
        let status = response.status().as_u16();
        let most = self.config.max_answer_bytes;
        match status {
            200 if is_event_stream(&response) => stream::read(response, most, acknowledged).await,
            200 => match client::read(response, most).await {
                Body::Whole(bytes) => response::meaning(bytes),
                Body::TooLong(beginning) => response::too_long(beginning),
                Body::Broken(_, why) => WireSeen::NoAnswer {
                    detail: format!("the connection ended in the middle of the answer: {why}"),
                },
            },
            // Informational ones never get here.
            0..=299 => match client::read(response, RAW_KEPT).await {
                Body::Whole(raw) | Body::TooLong(raw) | Body::Broken(raw, _) => WireSeen::EmptySuccess {
                    detail: format!("HTTP {status}, which this API does not document"),
                    raw,
                },
            },
            300.. => {
                let cap = ms(self.config.retry_after_cap_ms);
                error::seen(response, cap).await
            }
        }
    }
}

impl Provider for OpenAi {
    fn submit(&self, call: Call, acknowledged: Acknowledged) -> BoxFuture<'_, WireSeen> {
        let limit = call.limit;
        async move {
            // Given up, not read on: dropping the call closes its connection.
            let ended = tokio::time::timeout(limit, self.call(call, acknowledged)).await;
            ended.unwrap_or_else(|_elapsed| client::too_slow(limit))
        }
        .boxed()
    }
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    kind.split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

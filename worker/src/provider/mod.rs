//! Providers: one trait, one folder an adapter. An adapter submits a call once and says what it saw on the wire; what that
//! means is decided in [`WireSeen::meaning`], for all of them alike.

mod client;
mod openai;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use onejob_common::config::{Adapter, ProviderConfig};
use onejob_common::contract::Prompt;
use onejob_common::domain::{AttemptId, ProviderName, WireSeen};
use tokio::sync::oneshot;

/// One submission.
pub struct Call {
    /// The provider gets its id as `Idempotency-Key` and `X-Client-Request-Id`.
    pub attempt: AttemptId,
    /// The W3C trace context of this call.
    pub traceparent: String,
    /// What is asked.
    pub prompt: Prompt,
    /// The limit of the whole call, connecting included.
    pub limit: Duration,
}

/// Tells the pipeline of the provider's first sign, once.
pub struct Acknowledged(Option<oneshot::Sender<()>>);

impl Acknowledged {
    /// Tells it through `sender`.
    #[must_use]
    pub const fn new(sender: oneshot::Sender<()>) -> Self {
        Self(Some(sender))
    }

    /// The provider gave a sign. Later ones say nothing new.
    pub fn tell(&mut self) {
        if let Some(sender) = self.0.take()
            && sender.send(()).is_err()
        {
            tracing::trace!("nobody waits for the first sign any more: the call was given up");
        }
    }
}

/// A provider's API.
pub trait Provider: Send + Sync {
    /// Submits the call, once: never again by itself, whatever happens. It ends within the call's limit.
    fn submit(&self, call: Call, acknowledged: Acknowledged) -> BoxFuture<'_, WireSeen>;
}

/// Why a provider can't be called.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Its credential is missing.
    #[error("{0}")]
    Credential(String),
    /// Its credential can't be sent in a header.
    #[error("the API key has characters that a header can't carry")]
    CredentialCharacters,
    /// Its address is none.
    #[error("base_url is not an address: {0}")]
    Address(String),
    /// The HTTP client can't be built.
    #[error("the HTTP client can't be built: {0}")]
    Client(#[from] reqwest::Error),
    /// Its protocol is not built yet.
    #[error("the adapter {0:?} is not built yet")]
    NotBuilt(Adapter),
}

/// The adapter of a configured provider.
///
/// # Errors
///
/// [`BuildError`].
pub fn build(name: &ProviderName, config: &ProviderConfig) -> Result<Arc<dyn Provider>, BuildError> {
    match config.adapter {
        Adapter::Openai => Ok(Arc::new(openai::OpenAi::new(name, config)?)),
        Adapter::Replicate => Err(BuildError::NotBuilt(config.adapter)),
    }
}

/// Chooses the TLS implementation of this process; the first choice stays.
pub fn install_tls() {
    drop(rustls::crypto::ring::default_provider().install_default());
}

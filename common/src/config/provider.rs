//! One provider's configuration.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ms;
use crate::domain::Usage;

/// The protocol that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Adapter {
    /// Chat completions of `OpenAI`, vLLM, llama.cpp, `OpenRouter` and others.
    Openai,
    /// Replicate's predictions. Not built yet: jobs for such a provider are refused.
    Replicate,
}

impl Adapter {
    /// Whether a worker can call it.
    #[must_use]
    pub const fn is_built(self) -> bool {
        match self {
            Self::Openai => true,
            Self::Replicate => false,
        }
    }
}

/// What a token costs, in US dollars a million.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of the prompt.
    pub prompt_usd_per_million: f64,
    /// Of the answer.
    pub completion_usd_per_million: f64,
}

impl Price {
    /// What a call cost, in US dollars.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
    pub fn cost(&self, usage: &Usage) -> f64 {
        (usage.prompt_tokens as f64 * self.prompt_usd_per_million
            + usage.completion_tokens as f64 * self.completion_usd_per_million)
            / 1e6
    }
}

/// A credential. It is never shown, not even by `{:?}`.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The credential itself, for the header that carries it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A provider as `[providers.<name>]` describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// Its protocol.
    pub adapter: Adapter,
    /// Where its API begins, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The model to ask for.
    pub model: String,
    /// Other names under which the provider may say that this model answered.
    #[serde(default)]
    pub served_models: Vec<String>,
    /// Whether to ask for an event stream: its first event shows early that the call runs.
    #[serde(default)]
    pub stream: bool,
    /// The environment variable that holds its API key; absent: none is sent.
    pub api_key_env: Option<String>,
    /// The limit of one call where the policy says nothing, in milliseconds.
    #[serde(default = "default_timeout")]
    pub timeout_ms: u64,
    /// The limit for connecting, in milliseconds.
    #[serde(default = "default_connect_timeout")]
    pub connect_timeout_ms: u64,
    /// An idle connection is given up after so long, in milliseconds: well before the server would close it, since a
    /// request lost on a dying connection can't be told from one that arrived.
    #[serde(default = "default_idle")]
    pub idle_connection_ms: u64,
    /// Calls in flight of one worker process.
    #[serde(default = "default_concurrency")]
    pub concurrency: u16,
    /// The largest answer, in bytes.
    #[serde(default = "default_max_answer")]
    pub max_answer_bytes: usize,
    /// The longest `Retry-After` that is obeyed, in milliseconds.
    #[serde(default = "default_retry_after_cap")]
    pub retry_after_cap_ms: u64,
    /// What it costs; absent: not known.
    pub price: Option<Price>,
}

const fn default_timeout() -> u64 {
    60_000
}
const fn default_connect_timeout() -> u64 {
    5_000
}
const fn default_idle() -> u64 {
    3_000
}
const fn default_concurrency() -> u16 {
    64
}
const fn default_max_answer() -> usize {
    4 * 1024 * 1024
}
const fn default_retry_after_cap() -> u64 {
    15 * 60_000
}

impl ProviderConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(self.base_url.starts_with("http://") || self.base_url.starts_with("https://")) {
            return Err(format!(
                "base_url must begin with http:// or https://, not {:?}",
                self.base_url
            ));
        }
        if self.model.is_empty() {
            return Err("model must not be empty".into());
        }
        if self.concurrency == 0 || self.timeout_ms == 0 || self.connect_timeout_ms == 0 || self.max_answer_bytes == 0 {
            return Err("concurrency, timeout_ms, connect_timeout_ms and max_answer_bytes must be at least 1".into());
        }
        Ok(())
    }

    /// The limit of a call: the policy's, else the provider's.
    #[must_use]
    pub fn call_limit(&self, timeout_ms: Option<u64>) -> Duration {
        ms(timeout_ms.unwrap_or(self.timeout_ms))
    }

    /// The API key, read from the environment.
    ///
    /// # Errors
    ///
    /// If the configuration names a variable that is not set.
    pub fn api_key(&self) -> Result<Option<Secret>, String> {
        match &self.api_key_env {
            None => Ok(None),
            Some(name) => match std::env::var(name) {
                Ok(key) if !key.is_empty() => Ok(Some(Secret::new(key))),
                Ok(_) | Err(_) => Err(format!(
                    "the environment variable {name}, named by api_key_env, is not set"
                )),
            },
        }
    }

    /// Whether the provider may say that this model answered.
    #[must_use]
    pub fn serves(&self, model: &str) -> bool {
        model == self.model || self.served_models.iter().any(|alias| alias == model)
    }

    /// The digest that a certificate is bound to: of everything that decides what the provider is asked and may answer.
    /// Limits, prices and credentials are not part of it.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut aliases = self.served_models.clone();
        aliases.sort();
        let identity = serde_json::json!({
            "adapter": self.adapter, "base_url": self.base_url, "model": self.model,
            "served_models": aliases, "stream": self.stream,
        });
        Sha256::digest(identity.to_string().as_bytes()).into()
    }
}

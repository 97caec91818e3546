//! The API, as the commands use it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde_json::Value;

/// The limit of one request; `?wait=` may take 60 s of it.
const LIMIT: Duration = Duration::from_secs(75);

/// Where the API is, and who asks.
#[derive(Debug, Clone, Args)]
pub struct Api {
    /// The API's address
    #[arg(
        long = "api",
        env = "ONEJOB_URL",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL"
    )]
    pub url: String,
    /// The API key
    #[arg(long = "api-key", env = "ONEJOB_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub key: Option<String>,
}

/// Where the API is, and which operator asks.
#[derive(Debug, Clone, Args)]
pub struct OperatorApi {
    /// The API's address
    #[arg(
        long = "api",
        env = "ONEJOB_URL",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL"
    )]
    pub url: String,
    /// An operator's API key
    #[arg(
        long = "api-key",
        env = "ONEJOB_OPERATOR_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    pub key: Option<String>,
}

/// An answer of the API.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Whether it says that it is a repeat.
    pub replayed: bool,
    /// The body, as the bytes that came.
    pub text: String,
    /// The body as JSON; null if it is none.
    pub json: Value,
}

impl Answer {
    /// The last part of a problem's type.
    pub fn problem(&self) -> &str {
        let kind = self.json["type"].as_str().unwrap_or_default();
        kind.rsplit('/').next().unwrap_or_default()
    }

    /// The body, if it was a success.
    ///
    /// # Errors
    ///
    /// What the problem says.
    pub fn success(self) -> Result<Value> {
        if self.status.is_success() {
            return Ok(self.json);
        }
        let detail = self.json["detail"].as_str().unwrap_or(&self.text);
        bail!("the API answered {}: {detail}", self.status.as_u16())
    }
}

/// A client of one API process.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
}

impl Api {
    /// A client with this key.
    ///
    /// # Errors
    ///
    /// If there is no key.
    pub fn client(&self) -> Result<Client> {
        let key = self
            .key
            .as_deref()
            .context("an API key is needed: set ONEJOB_API_KEY, or give --api-key")?;
        Client::new(&self.url, key)
    }
}

impl OperatorApi {
    /// A client with this key.
    ///
    /// # Errors
    ///
    /// If there is no key.
    pub fn client(&self) -> Result<Client> {
        let missing = "an operator's API key is needed: set ONEJOB_OPERATOR_KEY, or give --api-key";
        Client::new(&self.url, self.key.as_deref().context(missing)?)
    }
}

impl Client {
    /// A client of the API at `url`.
    ///
    /// # Errors
    ///
    /// If the HTTP client can't be built.
    pub fn new(url: &str, key: &str) -> Result<Self> {
        Ok(Self {
            http: http()?,
            url: url.trim_end_matches('/').to_owned(),
            key: key.to_owned(),
        })
    }

    /// One request. A problem is an answer, not an error.
    ///
    /// # Errors
    ///
    /// If the API does not answer.
    pub async fn ask<B: Serialize + ?Sized>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
        key: Option<&str>,
    ) -> Result<Answer> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        self.send(request).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer> {
        let none = || {
            format!(
                "the API at {} does not answer; is it up? (--api or ONEJOB_URL names another)",
                self.url
            )
        };
        let response = request.send().await.with_context(none)?;
        let status = response.status();
        let replayed = response.headers().contains_key("idempotency-replayed");
        let text = response.text().await.with_context(none)?;
        let json = serde_json::from_str(&text).unwrap_or_default();
        Ok(Answer {
            status,
            replayed,
            text,
            json,
        })
    }

    /// `GET`.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask), and every answer that is no success.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.ask::<Value>(Method::GET, path, None, None).await?.success()
    }

    /// `POST` without an idempotency key.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<Answer> {
        self.ask(Method::POST, path, Some(body), None).await
    }

    /// `POST /v1/jobs`.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn submit(&self, body: &impl Serialize, key: &str) -> Result<Answer> {
        self.ask(Method::POST, "/v1/jobs", Some(body), Some(key)).await
    }

    /// Waits until a job is closed or unknown, for up to `limit`.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn wait(&self, id: &str, limit: Duration) -> Result<Value> {
        let until = tokio::time::Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            let job = self
                .get(&format!("/v1/jobs/{id}?wait={}", left.as_secs().clamp(1, 60)))
                .await?;
            if ended(&job) || left.is_zero() {
                return Ok(job);
            }
        }
    }
}

/// Whether a job is closed or unknown.
pub fn ended(job: &Value) -> bool {
    ["succeeded", "failed", "cancelled", "unknown"].contains(&job["state"].as_str().unwrap_or_default())
}

/// An HTTP client with a limit.
///
/// # Errors
///
/// If it can't be built.
pub fn http() -> Result<reqwest::Client> {
    // An error only says that there is one already.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .timeout(LIMIT)
        .build()
        .context("the HTTP client can't be built")
}

//! A client of the HTTP API with one API key.

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::eventually;

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// The body, or null where it is no JSON.
    pub json: Value,
}

impl Answer {
    /// The slug of a problem's type.
    #[must_use]
    pub fn problem(&self) -> &str {
        let slug = self.json["type"].as_str().unwrap_or_default();
        slug.strip_prefix("/problems/").unwrap_or(slug)
    }

    /// The id of the job that it is.
    ///
    /// # Panics
    ///
    /// If it is none.
    #[must_use]
    pub fn id(&self) -> String {
        let id = self.json["id"].as_str();
        id.unwrap_or_else(|| panic!("no job: {self:?}")).to_owned()
    }

    /// Whether it says that it was answered before.
    #[must_use]
    pub fn replayed(&self) -> bool {
        self.headers
            .get("idempotency-replayed")
            .is_some_and(|value| value == "true")
    }
}

/// One key at one API process.
#[derive(Clone)]
pub struct Client {
    /// The API process.
    pub url: String,
    http: reqwest::Client,
    key: String,
}

impl Client {
    /// With an API key.
    #[must_use]
    pub fn new(url: &str, key: &str) -> Self {
        Self {
            url: url.to_owned(),
            http: crate::http(),
            key: key.to_owned(),
        }
    }

    /// A request that carries the key.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.key)
    }

    /// Sends a request; an error is that of the connection.
    ///
    /// # Errors
    ///
    /// If there was no answer.
    pub async fn send(&self, request: RequestBuilder) -> reqwest::Result<Answer> {
        let answer = request.send().await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.bytes().await?;
        Ok(Answer {
            status,
            headers,
            json: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }

    /// GET.
    ///
    /// # Panics
    ///
    /// If there is no answer.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await.expect("an answer")
    }

    /// POST.
    ///
    /// # Panics
    ///
    /// If there is no answer.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body))
            .await
            .expect("an answer")
    }

    /// Submits an intent under a key; an error is that of the connection.
    ///
    /// # Errors
    ///
    /// If there was no answer.
    pub async fn try_submit(&self, key: &str, intent: &Value) -> reqwest::Result<Answer> {
        let request = self.request(Method::POST, "/v1/jobs").header("idempotency-key", key);
        self.send(request.json(intent)).await
    }

    /// Submits an intent under a key.
    ///
    /// # Panics
    ///
    /// If there is no answer.
    pub async fn submit(&self, key: &str, intent: &Value) -> Answer {
        self.try_submit(key, intent).await.expect("an answer")
    }

    /// A job.
    ///
    /// # Panics
    ///
    /// If it is not there.
    pub async fn job(&self, id: &str) -> Value {
        let answer = self.get(&format!("/v1/jobs/{id}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json
    }

    /// Waits until the job's state is `state`, and gives it.
    pub async fn until(&self, id: &str, state: &str) -> Value {
        let mut job = Value::Null;
        eventually(&format!("job {id} reads {state}"), async || {
            job = self.job(id).await;
            let ended = ["succeeded", "failed", "cancelled"]
                .iter()
                .any(|end| job["state"] == **end);
            assert!(!ended || job["state"] == state, "wanted {state}: {job:#}");
            job["state"] == state
        })
        .await;
        job
    }

    /// The public states of a job's attempts, with kinds of failure, in order.
    pub async fn attempts(&self, id: &str) -> Vec<String> {
        let job = self.job(id).await;
        let attempts = job["attempts"].as_array().cloned().unwrap_or_default();
        let read = attempts.iter().map(|attempt| {
            let state = attempt["state"].as_str().unwrap_or_default();
            match attempt["failure"]["kind"].as_str() {
                Some(kind) => format!("{state} {kind}"),
                None => state.to_owned(),
            }
        });
        read.collect()
    }

    /// Waits until the job's first attempt is running: its provider has given a sign, and nothing moves by itself.
    pub async fn until_running(&self, id: &str) {
        eventually(&format!("{id}.1 is running"), async || {
            self.attempts(id).await.first().is_some_and(|state| state == "running")
        })
        .await;
    }

    /// An operator's word on an unknown attempt.
    pub async fn resolve(&self, attempt: &str, outcome: &str) -> Answer {
        let body = json!({"outcome": outcome, "note": "looked it up at the provider"});
        self.post(&format!("/v1/attempts/{attempt}/resolution"), &body).await
    }
}

//! The simulator: scripted answers, and what it saw.

use reqwest::Client;
use serde_json::{Value, json};

use crate::eventually;
use crate::process::Process;

/// A running simulator.
pub struct Simulator {
    /// Its address.
    pub url: String,
    client: Client,
    _process: Process,
}

impl Simulator {
    /// Starts one.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    pub async fn start() -> Self {
        let process = Process::start("onejob-simulator", &["--listen", "127.0.0.1:0"], &[]).await;
        Self {
            url: process.listen.clone().expect("an address"),
            client: crate::http(),
            _process: process,
        }
    }

    /// Queues what the next submissions to a model get.
    ///
    /// # Panics
    ///
    /// If it refuses them.
    pub async fn next(&self, model: &str, behaviours: Value) {
        let body = json!({"model": model, "behaviours": behaviours});
        let answer = self
            .client
            .put(format!("{}/_sim/next", self.url))
            .json(&body)
            .send()
            .await;
        let answer = answer.expect("the simulator answers");
        assert!(
            answer.status().is_success(),
            "{}",
            answer.text().await.unwrap_or_default()
        );
    }

    /// Every submission to a model, oldest first.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub async fn calls(&self, model: &str) -> Vec<Value> {
        let answer = self
            .client
            .get(format!("{}/_sim/calls?model={model}", self.url))
            .send()
            .await;
        answer.expect("the simulator answers").json().await.expect("a list")
    }

    /// Waits until so many submissions have come.
    pub async fn called(&self, model: &str, times: usize) {
        eventually(&format!("{times} submissions to {model}"), async || {
            self.calls(model).await.len() >= times
        })
        .await;
    }
}

/// An answer that keeps `ticket-triage@1`, after a pause.
#[must_use]
pub fn answer_after(delay_ms: u64, summary: &str) -> Value {
    let content = json!({"category": "billing", "urgency": 2, "summary": summary}).to_string();
    json!({"delay_ms": delay_ms, "content": content})
}

/// A definite failure that is worth another try.
#[must_use]
pub fn overloaded() -> Value {
    json!({"status": 503, "body": r#"{"error":{"message":"overloaded","type":"server_error"}}"#})
}

/// A definite failure that is not.
#[must_use]
pub fn rejected() -> Value {
    json!({"status": 400, "body": r#"{"error":{"message":"no","type":"invalid_request_error"}}"#})
}

//! The adapter against a server that does exactly what a test says, down to the byte and the reset.

mod answers;
mod calls;
mod server;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use onejob_common::config::ProviderConfig;
use onejob_common::contract::{Message, Prompt, Role, Sampling};
use onejob_common::domain::{FailureKind, Meaning, WireSeen};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::super::{Acknowledged, Call, Provider as _, install_tls};
use super::OpenAi;

/// The schema's own bytes, spacing and all, must reach the provider.
const SCHEMA: &str = r#"{"type":"object",  "properties":{"b":{"type":"string"},"a":{"const":1.50}}}"#;
const ATTEMPT: &str = "018f0000-0000-7000-8000-000000000001.2";
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn adapter(base_url: &str, stream: bool) -> OpenAi {
    install_tls();
    let config: ProviderConfig = serde_json::from_value(json!({
        "adapter": "openai", "base_url": base_url, "model": "m-1", "stream": stream,
        "connect_timeout_ms": 500, "max_answer_bytes": 4096,
        // A variable that cargo sets for every test: changing the environment would reach other tests.
        "api_key_env": "CARGO_PKG_NAME",
    }))
    .unwrap();
    OpenAi::new(&"primary".parse().unwrap(), &config).unwrap()
}

fn call(limit: Duration) -> Call {
    Call {
        attempt: ATTEMPT.parse().unwrap(),
        traceparent: TRACEPARENT.to_owned(),
        prompt: Prompt {
            messages: vec![
                Message {
                    role: Role::System,
                    content: "Sort it.".to_owned(),
                },
                Message {
                    role: Role::User,
                    content: "cafe\u{301} \"☕\"".to_owned(),
                },
            ],
            sampling: Sampling {
                temperature: 0.0,
                top_p: None,
                seed: Some(7),
            },
            max_output_tokens: 64,
            response_schema: Arc::from(RawValue::from_string(SCHEMA.to_owned()).unwrap()),
            schema_name: "triage-1".into(),
        },
        limit,
    }
}

/// What one submission shows, and whether it gave a first sign.
async fn submit(adapter: &OpenAi, limit: Duration) -> (WireSeen, bool) {
    let (sender, mut sign) = oneshot::channel();
    let seen = adapter.submit(call(limit), Acknowledged::new(sender)).await;
    (seen, sign.try_recv().is_ok())
}

const LONG: Duration = Duration::from_secs(20);

/// The kind of failure that it means, or none where it is unknown.
fn failure(seen: WireSeen) -> Option<FailureKind> {
    match seen.meaning() {
        Meaning::Failed(definite) => Some(definite.kind),
        Meaning::Unknown { .. } => None,
        Meaning::Answer(answer) => panic!("an answer: {answer:?}"),
    }
}

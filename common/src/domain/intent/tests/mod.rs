//! Tests of strict reading and of the canonical intent.

mod bodies;
mod intents;
mod numbers;
mod properties;
mod reading;

use super::{Digest, Intent, IntentError};

/// The depth that the API allows by default.
const DEPTH: usize = 64;

fn body(input: &str) -> String {
    format!(r#"{{"contract":"summarize@1","provider":"primary","input":{input}}}"#)
}

fn with_policy(policy: &str) -> String {
    format!(r#"{{"contract":"summarize@1","provider":"primary","input":{{}},"policy":{policy}}}"#)
}

fn intent(body: &str) -> Result<Intent, IntentError> {
    Intent::parse(body.as_bytes(), DEPTH)
}

fn digest(body: &str) -> Digest {
    intent(body).unwrap_or_else(|error| panic!("{body}: {error}")).digest()
}

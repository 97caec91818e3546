//! What is sent.

use std::sync::Arc;

use onejob_common::config::ProviderConfig;
use onejob_common::contract::{Message, Prompt, Sampling};
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: &'a [Message],
    #[serde(flatten)]
    sampling: Sampling,
    max_completion_tokens: u32,
    response_format: ResponseFormat<'a>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'a str,
    strict: bool,
    /// The contract's own bytes: its digest speaks of what was sent.
    schema: &'a Arc<RawValue>,
}

/// The body of a request.
pub(super) fn body(config: &ProviderConfig, prompt: &Prompt) -> Result<Vec<u8>, String> {
    let request = Request {
        model: &config.model,
        messages: &prompt.messages,
        sampling: prompt.sampling,
        max_completion_tokens: prompt.max_output_tokens,
        response_format: ResponseFormat {
            r#type: "json_schema",
            json_schema: JsonSchema {
                name: &prompt.schema_name,
                strict: true,
                schema: &prompt.response_schema,
            },
        },
        stream: config.stream,
        stream_options: config.stream.then_some(StreamOptions { include_usage: true }),
    };
    serde_json::to_vec(&request).map_err(|error| format!("the request can't be written as JSON: {error}"))
}

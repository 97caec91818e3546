//! The body of a plain answer, and its token counts.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Completion;
use super::request::Ask;

/// Simulated: a token every four characters, and four for the frame of each message. No tokenizer counts like this.
pub fn usage(ask: &Ask, content: &str) -> Value {
    let prompt: u64 = ask.messages.iter().map(|message| 4 + tokens(&message.text)).sum();
    let completion = tokens(content);
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

fn tokens(text: &str) -> u64 {
    u64::try_from(text.chars().count().div_ceil(4)).unwrap_or(u64::MAX)
}

pub fn body(completion: &Completion) -> Bytes {
    json!({
        "id": completion.id,
        "object": "chat.completion",
        "created": completion.created,
        "model": completion.model,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": completion.content, "refusal": null},
            "logprobs": null,
            "finish_reason": completion.finish_reason,
        }],
        "usage": completion.usage,
    })
    .to_string()
    .into()
}

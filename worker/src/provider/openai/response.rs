//! A plain answer: one JSON object.

use bytes::Bytes;
use onejob_common::domain::{Answer, RAW_KEPT, Stop, Usage, WireSeen};
use serde::Deserialize;

use super::error::ErrorBody;

#[derive(Deserialize)]
struct Completion {
    model: Option<String>,
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

/// What a whole body of a `200` is.
pub(super) fn meaning(raw: Bytes) -> WireSeen {
    if let Ok(ErrorBody { error }) = serde_json::from_slice(&raw) {
        return empty(format!("HTTP 200 with an error object: {}", error.message()), raw);
    }
    let completion: Completion = match serde_json::from_slice(&raw) {
        Ok(completion) => completion,
        Err(_) if raw.trim_ascii().is_empty() => return empty("HTTP 200 with an empty body".to_owned(), raw),
        Err(error) => return empty(format!("HTTP 200 with a body that is no completion: {error}"), raw),
    };
    let Completion { model, choices, usage } = completion;
    let Some(Choice { message, finish_reason }) = choices.into_iter().next() else {
        return empty("HTTP 200 without a choice".to_owned(), raw);
    };
    let refused = message.refusal.filter(|refusal| !refusal.is_empty());
    finished(
        Parts {
            stop: finish_reason,
            refused: refused.is_some(),
            text: refused.or(message.content),
            served_model: model,
            usage: usage.as_ref().and_then(self::usage),
        },
        raw,
    )
}

/// What a completion consists of, plain or streamed.
pub(super) struct Parts {
    pub stop: Option<String>,
    pub refused: bool,
    pub text: Option<String>,
    pub served_model: Option<String>,
    pub usage: Option<Usage>,
}

/// How the model stopped, in the API's words.
pub(super) fn finished(parts: Parts, raw: Bytes) -> WireSeen {
    let Parts {
        stop,
        refused,
        text,
        served_model,
        usage,
    } = parts;
    let stop = match stop.as_deref() {
        Some("stop") if refused => Stop::Refusal,
        Some("stop") => Stop::Complete,
        Some("length") => Stop::Length,
        Some("content_filter") => Stop::Refusal,
        Some(other) => {
            let detail = format!(
                "the model stopped with {:?}, which is no answer",
                super::error::shown(other)
            );
            return empty(detail, raw);
        }
        None => return empty("HTTP 200 without a finish_reason".to_owned(), raw),
    };
    let text = match (text, stop) {
        (Some(text), _) => text,
        // What was filtered or cut may be missing altogether.
        (None, Stop::Length | Stop::Refusal) => String::new(),
        (None, Stop::Complete) => return empty("HTTP 200 with a choice without text".to_owned(), raw),
    };
    WireSeen::Finished {
        stop,
        answer: Answer {
            text: Bytes::from(text),
            served_model,
            usage,
        },
    }
}

/// An answer that is longer than what is read: cut here, by us.
pub(super) fn too_long(beginning: Bytes) -> WireSeen {
    WireSeen::Finished {
        stop: Stop::Length,
        answer: Answer {
            text: beginning.slice(..beginning.len().min(RAW_KEPT)),
            served_model: None,
            usage: None,
        },
    }
}

/// Tokens as the provider counted them; a count that makes no sense is none.
pub(super) fn usage(value: &serde_json::Value) -> Option<Usage> {
    let count = |name: &str| value[name].as_u64();
    let (prompt_tokens, completion_tokens) = (count("prompt_tokens")?, count("completion_tokens")?);
    Some(Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: count("total_tokens").unwrap_or_else(|| prompt_tokens.saturating_add(completion_tokens)),
    })
}

pub(super) fn empty(detail: String, raw: Bytes) -> WireSeen {
    WireSeen::EmptySuccess {
        detail,
        raw: raw.slice(..raw.len().min(RAW_KEPT)),
    }
}

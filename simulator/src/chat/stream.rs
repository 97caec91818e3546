//! A streamed answer: server-sent events, the first at once, the rest when they are ready, `[DONE]` at the end.

use std::collections::VecDeque;
use std::fmt::Write;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Completion;
use crate::answer::{Answer, Step};

/// Characters of the content in one event.
const PIECE: usize = 24;

pub fn answer(
    completion: &Completion,
    include_usage: bool,
    first: Instant,
    ready: Instant,
    status: StatusCode,
    mut headers: HeaderMap,
) -> Answer {
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache"));
    let mut steps = VecDeque::from([Step::Send(first_event(completion, include_usage).into())]);
    if ready > first {
        steps.push_back(Step::WaitUntil(ready));
    }
    // One piece of memory and one write: a client must not rely on where the writes of a stream end.
    steps.push_back(Step::Send(later_events(completion, include_usage).into()));
    Answer {
        start: first,
        status,
        headers,
        steps,
    }
}

fn first_event(completion: &Completion, include_usage: bool) -> String {
    let mut events = String::new();
    let delta = json!({"role": "assistant", "content": ""});
    event(
        &mut events,
        &chunk(completion, include_usage, choice(delta, Value::Null), Value::Null),
    );
    events
}

fn later_events(completion: &Completion, include_usage: bool) -> String {
    let mut events = String::new();
    for piece in pieces(&completion.content) {
        let delta = json!({"content": piece});
        event(
            &mut events,
            &chunk(completion, include_usage, choice(delta, Value::Null), Value::Null),
        );
    }
    let end = choice(json!({}), Value::String(completion.finish_reason.clone()));
    event(&mut events, &chunk(completion, include_usage, end, Value::Null));
    if include_usage {
        event(
            &mut events,
            &chunk(completion, true, json!([]), completion.usage.clone()),
        );
    }
    events.push_str("data: [DONE]\n\n");
    events
}

fn choice(delta: Value, finish_reason: Value) -> Value {
    json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}])
}

/// As OpenAI does it, `usage` is in every chunk when it is asked for, null until the last, and in none otherwise.
fn chunk(completion: &Completion, include_usage: bool, choices: Value, usage: Value) -> Value {
    let mut chunk = json!({
        "id": completion.id,
        "object": "chat.completion.chunk",
        "created": completion.created,
        "model": completion.model,
        "choices": choices,
    });
    if include_usage {
        chunk["usage"] = usage;
    }
    chunk
}

fn event(events: &mut String, chunk: &Value) {
    // Writing to a string cannot fail.
    if write!(events, "data: {chunk}\n\n").is_err() {
        tracing::error!("an event could not be written to memory");
    }
}

/// The text in pieces of [`PIECE`] characters; none for an empty text.
fn pieces(text: &str) -> Vec<&str> {
    let mut cuts: Vec<_> = text.char_indices().step_by(PIECE).map(|(at, _)| at).collect();
    cuts.push(text.len());
    cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cut_between_characters_and_lose_nothing() {
        for text in ["", "a", &"é".repeat(24), &"日本".repeat(40), &"x".repeat(49)] {
            let pieces = pieces(text);
            assert_eq!(pieces.concat(), *text);
            assert!(
                pieces
                    .iter()
                    .all(|piece| !piece.is_empty() && piece.chars().count() <= PIECE)
            );
        }
    }
}

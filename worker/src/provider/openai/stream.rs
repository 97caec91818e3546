//! A streamed answer: Server-Sent Events, ended by `[DONE]`. Without that mark nothing is certain, however whole the text
//! looks.

use bytes::Bytes;
use eventsource_stream::Eventsource as _;
use futures::StreamExt as _;
use onejob_common::domain::{Usage, WireSeen};
use reqwest::Response;
use serde::Deserialize;

use super::super::Acknowledged;
use super::super::client::causes;
use super::error::ErrorBody;
use super::response::{Parts, empty, finished, too_long, usage};

/// What a token's event is larger than its text, at most: the whole stream is bounded by it.
const OVERHEAD: usize = 128;
/// For events that carry no text: comments, role, usage.
const BESIDE: usize = 1024 * 1024;

#[derive(Deserialize)]
struct Chunk {
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    #[serde(default)]
    delta: Delta,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
}

#[derive(Default)]
struct Received {
    text: String,
    refusal: String,
    stop: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
    choice: bool,
}

/// Why the bytes ended before the stream did.
enum Broken {
    Connection(String),
    TooLong,
}

/// Reads a stream to its end mark.
pub(super) async fn read(response: Response, most: usize, acknowledged: &mut Acknowledged) -> WireSeen {
    let (mut bytes, bound) = (0, most.saturating_mul(OVERHEAD).saturating_add(BESIDE));
    let body = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| Broken::Connection(causes(&error)))?;
        bytes += chunk.len();
        if bytes > bound { Err(Broken::TooLong) } else { Ok(chunk) }
    });
    let mut events = std::pin::pin!(body.eventsource());
    let mut received = Received::default();
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(eventsource_stream::EventStreamError::Transport(Broken::TooLong)) => return received.too_long(),
            Err(eventsource_stream::EventStreamError::Transport(Broken::Connection(why))) => {
                return received.unended(&format!("the connection ended: {why}"));
            }
            Err(eventsource_stream::EventStreamError::Utf8(_)) => return received.unended("it is not UTF-8"),
            Err(eventsource_stream::EventStreamError::Parser(_)) => return received.unended("it is no event stream"),
        };
        if event.data == "[DONE]" {
            return received.whole();
        }
        if let Ok(ErrorBody { error }) = serde_json::from_str(&event.data) {
            let detail = format!("an error in the stream: {}", error.message());
            return empty(detail, Bytes::from(event.data));
        }
        let chunk: Chunk = match serde_json::from_str(&event.data) {
            Ok(chunk) => chunk,
            Err(error) => {
                let detail = format!("an event of the stream is no completion: {error}");
                return empty(detail, Bytes::from(event.data));
            }
        };
        acknowledged.tell();
        received.take(chunk);
        if received.text.len() + received.refusal.len() > most {
            return received.too_long();
        }
    }
    received.unended("it ended without its end mark")
}

impl Received {
    fn take(&mut self, chunk: Chunk) {
        if let Some(counted) = chunk.usage.as_ref().and_then(usage) {
            self.usage = Some(counted);
        }
        if self.model.is_none() {
            self.model = chunk.model;
        }
        // One answer was asked for.
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            self.choice = true;
            if let Some(text) = choice.delta.content {
                self.text.push_str(&text);
            }
            if let Some(text) = choice.delta.refusal {
                self.refusal.push_str(&text);
            }
            if choice.finish_reason.is_some() {
                self.stop = choice.finish_reason;
            }
        }
    }

    fn whole(self) -> WireSeen {
        let raw = Bytes::from(self.text.clone());
        if !self.choice {
            return empty("a stream without a choice".to_owned(), raw);
        }
        let refused = !self.refusal.is_empty();
        let parts = Parts {
            stop: self.stop,
            refused,
            text: Some(if refused { self.refusal } else { self.text }),
            served_model: self.model,
            usage: self.usage,
        };
        finished(parts, raw)
    }

    fn unended(&self, why: &str) -> WireSeen {
        WireSeen::UnendedStream {
            detail: format!("the stream broke off after {} bytes of text: {why}", self.text.len()),
        }
    }

    fn too_long(self) -> WireSeen {
        too_long(Bytes::from(self.text))
    }
}

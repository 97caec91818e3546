//! The call log: every submission, oldest first, with how it ended.
//!
//! It is bounded, because a load test makes calls for hours: beyond [`MOST_CALLS`] calls or [`MOST_BYTES`] of headers
//! and bodies the oldest are forgotten. A call's headers and body are copied out of the connection's buffer; a slice
//! of it would keep the whole buffer alive.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use axum::http::HeaderMap;
use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// How many calls are kept.
pub const MOST_CALLS: usize = 200_000;

/// How many bytes of headers and bodies are kept, over all calls.
pub const MOST_BYTES: usize = 512 << 20;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The whole answer was given to the connection.
    Answered,
    /// The script cut the connection.
    Dropped,
    /// The client went away before it had the whole answer.
    Disconnected,
    /// It has not ended.
    Open,
}

/// What a client submitted.
pub struct Submission {
    pub path: String,
    /// `None` when the body names no model.
    pub model: Option<String>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// One line of the log.
pub struct Call {
    at: DateTime<Utc>,
    path: Box<str>,
    model: Option<Box<str>>,
    /// A JSON object as text: compact, and never looked into.
    headers: Box<RawValue>,
    body: Box<str>,
    ended: OnceLock<Ended>,
}

impl Call {
    fn new(at: DateTime<Utc>, submission: Submission) -> Self {
        Self {
            at,
            path: submission.path.into(),
            model: submission.model.map(Into::into),
            headers: raw(&one_value_a_name(&submission.headers)),
            body: String::from_utf8_lossy(&submission.body).into(),
            ended: OnceLock::new(),
        }
    }

    fn weight(&self) -> usize {
        self.headers.get().len() + self.body.len()
    }

    /// As `GET /_sim/calls` shows it.
    pub fn show(&self) -> Shown<'_> {
        Shown {
            at: self.at.to_rfc3339_opts(SecondsFormat::Micros, true),
            path: &self.path,
            model: self.model.as_deref(),
            headers: &self.headers,
            body: &self.body,
            ended: self.ended.get().copied().unwrap_or(Ended::Open),
        }
    }
}

/// A call as JSON.
#[derive(Serialize)]
pub struct Shown<'a> {
    at: String,
    path: &'a str,
    model: Option<&'a str>,
    headers: &'a RawValue,
    body: &'a str,
    ended: Ended,
}

/// Names in lower case (as `HeaderMap` has them); a name that came several times has its values joined by ", " (RFC
/// 9110, 5.3). Bytes that are not UTF-8 are replaced.
fn one_value_a_name(headers: &HeaderMap) -> Map<String, Value> {
    headers
        .keys()
        .map(|name| {
            let values: Vec<_> = headers
                .get_all(name)
                .iter()
                .map(|v| String::from_utf8_lossy(v.as_bytes()))
                .collect();
            (name.as_str().to_owned(), Value::String(values.join(", ")))
        })
        .collect()
}

fn raw(headers: &Map<String, Value>) -> Box<RawValue> {
    // A map of strings always has a text; `null` would show that it had none.
    to_raw_value(headers).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The right to say how a call ended. The first word counts; when nothing was said, the client went away: hyper drops
/// the handler, or the body with this in it, as soon as it sees the connection closed.
pub struct OpenCall(Arc<Call>);

impl OpenCall {
    pub fn end(&self, ended: Ended) {
        self.0.ended.get_or_init(|| ended);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.end(Ended::Disconnected);
    }
}

/// The log itself.
pub struct Log {
    calls: VecDeque<Arc<Call>>,
    bytes: usize,
    most_calls: usize,
    most_bytes: usize,
}

impl Default for Log {
    fn default() -> Self {
        Self::of_at_most(MOST_CALLS, MOST_BYTES)
    }
}

impl Log {
    fn of_at_most(most_calls: usize, most_bytes: usize) -> Self {
        Self {
            calls: VecDeque::new(),
            bytes: 0,
            most_calls,
            most_bytes,
        }
    }

    pub fn open(&mut self, at: DateTime<Utc>, submission: Submission) -> OpenCall {
        let call = Arc::new(Call::new(at, submission));
        self.bytes += call.weight();
        self.calls.push_back(Arc::clone(&call));
        while self.calls.len() > self.most_calls || self.bytes > self.most_bytes {
            let Some(oldest) = self.calls.pop_front() else { break };
            self.bytes -= oldest.weight();
        }
        OpenCall(call)
    }

    /// The calls of a model, or all; shared, so that they can be written out without holding the lock.
    pub fn list(&self, model: Option<&str>) -> Vec<Arc<Call>> {
        self.calls
            .iter()
            .filter(|call| model.is_none() || call.model.as_deref() == model)
            .cloned()
            .collect()
    }

    /// Calls in flight go on: they hold their own line, which is then in no log.
    pub fn forget(&mut self) {
        *self = Self::of_at_most(self.most_calls, self.most_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submission(body: Vec<u8>) -> Submission {
        Submission {
            path: "/".into(),
            model: Some("m".into()),
            headers: HeaderMap::new(),
            body: body.into(),
        }
    }

    /// The bodies that are left of these.
    fn left(mut log: Log, bodies: &[&str]) -> Vec<String> {
        for body in bodies {
            log.open(DateTime::UNIX_EPOCH, submission(body.as_bytes().to_vec()));
        }
        log.list(None).iter().map(|call| call.body.to_string()).collect()
    }

    #[test]
    fn the_log_forgets_its_oldest_calls_beyond_the_limit_of_calls() {
        assert_eq!(left(Log::of_at_most(2, 1000), &["a", "b", "c"]), ["b", "c"]);
    }

    #[test]
    fn the_log_forgets_its_oldest_calls_beyond_the_limit_of_bytes() {
        // Each call weighs its body and the two bytes of its empty headers.
        assert_eq!(
            left(Log::of_at_most(100, 24), &["1234567890", "2234567890", "3234567890"]),
            ["2234567890", "3234567890"]
        );
    }

    #[test]
    fn the_first_word_on_how_a_call_ended_counts() {
        let mut log = Log::default();
        let call = log.open(DateTime::UNIX_EPOCH, submission(Vec::new()));
        call.end(Ended::Dropped);
        drop(call);
        assert_eq!(log.list(None)[0].show().ended, Ended::Dropped);
    }
}

//! What behaviours of every API share: the queues they wait in, and the strict reading of their fields.
//!
//! Reading is by hand, not derived: an error has to name the field by its place in the request
//! (`behaviours[1].delay_ms`), also when its value is what is wrong. A typing error that is taken silently would make a
//! test pass that tests nothing.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};

/// The longest wait that can be scripted, and the longest that a call is left hanging.
pub const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Where a scripted connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropAt {
    /// Before the request is processed.
    Before,
    /// In the middle of the answer.
    Middle,
    /// After processing, before the first byte of the answer.
    After,
}

/// Behaviours that wait for the next submissions to their model.
pub struct Queues<B>(HashMap<String, VecDeque<B>>);

impl<B> Default for Queues<B> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<B> Queues<B> {
    pub fn push(&mut self, model: &str, behaviours: Vec<B>) -> usize {
        if behaviours.is_empty() {
            return self.0.get(model).map_or(0, VecDeque::len);
        }
        let queue = self.0.entry(model.to_owned()).or_default();
        queue.extend(behaviours);
        queue.len()
    }

    pub fn pop(&mut self, model: &str) -> Option<B> {
        let queue = self.0.get_mut(model)?;
        let behaviour = queue.pop_front();
        if queue.is_empty() {
            self.0.remove(model);
        }
        behaviour
    }

    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// A field that cannot be taken.
#[derive(Debug, PartialEq, Eq)]
pub struct BadField {
    /// Its place in the request.
    pub field: String,
    /// What it must be.
    pub message: String,
}

/// A JSON object whose fields are taken one by one; what is left at the end is unknown.
pub struct Fields {
    path: String,
    left: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Fields {
    pub fn of(path: &str, value: Value) -> Result<Self, BadField> {
        let Value::Object(left) = value else {
            return Err(BadField {
                field: if path.is_empty() { "body" } else { path }.to_owned(),
                message: "must be an object".into(),
            });
        };
        Ok(Self {
            path: path.to_owned(),
            left,
            known: Vec::new(),
        })
    }

    fn place(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    pub fn bad(&self, name: &str, message: impl Into<String>) -> BadField {
        BadField {
            field: self.place(name),
            message: message.into(),
        }
    }

    /// A field by its own reading; absent is `None`, and `null` is a value like any other.
    pub fn take<T>(
        &mut self,
        name: &'static str,
        must_be: &str,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Result<Option<T>, BadField> {
        self.known.push(name);
        let Some(value) = self.left.remove(name) else {
            return Ok(None);
        };
        read(value)
            .map(Some)
            .ok_or_else(|| self.bad(name, format!("must be {must_be}")))
    }

    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, BadField> {
        self.take(name, "a string", text)
    }

    pub fn flag(&mut self, name: &'static str) -> Result<bool, BadField> {
        Ok(self
            .take(name, "true or false", |value| value.as_bool())?
            .unwrap_or(false))
    }

    /// Milliseconds up to [`LONGEST_WAIT`].
    pub fn millis(&mut self, name: &'static str) -> Result<Option<Duration>, BadField> {
        let must_be = format!("a whole number of milliseconds from 0 to {}", LONGEST_WAIT.as_millis());
        self.take(name, &must_be, |value| {
            value
                .as_u64()
                .map(Duration::from_millis)
                .filter(|wait| *wait <= LONGEST_WAIT)
        })
    }

    /// A final status. 1xx is none: the client would go on waiting for the real answer.
    pub fn status(&mut self, name: &'static str) -> Result<Option<StatusCode>, BadField> {
        self.take(name, "a whole number from 200 to 599", |value| {
            let code = value.as_u64().filter(|code| (200..=599).contains(code))?;
            StatusCode::from_u16(u16::try_from(code).ok()?).ok()
        })
    }

    pub fn drop_at(&mut self, name: &'static str) -> Result<Option<DropAt>, BadField> {
        self.take(name, "\"before\", \"middle\" or \"after\"", |value| {
            match value.as_str()? {
                "before" => Some(DropAt::Before),
                "middle" => Some(DropAt::Middle),
                "after" => Some(DropAt::After),
                _ => None,
            }
        })
    }

    /// An object of header names to values. The headers that frame the body are the server's: a wrong one would not be
    /// sent as it stands.
    pub fn headers(&mut self, name: &'static str) -> Result<HeaderMap, BadField> {
        let given = self.take(name, "an object of header names to strings", |value| match value {
            Value::Object(map) => Some(map),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        })?;
        let mut headers = HeaderMap::new();
        for (key, value) in given.unwrap_or_default() {
            let bad = |message: &str| self.bad(&format!("{name}.{key}"), message);
            let key = HeaderName::from_bytes(key.as_bytes()).map_err(|_| bad("is not a header name"))?;
            if [header::CONTENT_LENGTH, header::TRANSFER_ENCODING].contains(&key) {
                return Err(bad(
                    "is set by the simulator; for an answer that breaks off use \"drop\": \"middle\"",
                ));
            }
            let value = value.as_str().ok_or_else(|| bad("must be a string"))?;
            headers.insert(
                key,
                HeaderValue::from_str(value).map_err(|_| bad("is not a header value"))?,
            );
        }
        Ok(headers)
    }

    /// Says which field is unknown, if one is.
    pub fn finish(self) -> Result<(), BadField> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => Err(self.bad(name, format!("is not known; known here: {}", self.known.join(", ")))),
        }
    }
}

/// The string that a value is.
pub fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

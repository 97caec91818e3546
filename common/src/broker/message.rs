//! What a message says: which attempt, and nothing else.
//!
//! Type `attempt.v1`, a JSON body `{"attempt_id": "<job>.<number>"}`, `message_id` = the attempt's id, `correlation_id`
//! = the job's, `traceparent` in the headers. The id stands in both places so that tools which show only properties can
//! be used, and so that a message put together by hand is caught: where they disagree, nothing is guessed. A later
//! version is another type; a reader that does not know it parks the message, and never drops it. Unknown fields of the
//! body are left alone: they are how a version grows.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use serde::Deserialize;

use crate::domain::{AttemptId, ProviderName};

/// The type and version that this process writes and reads.
const TYPE: &str = "attempt.v1";
const TRACEPARENT: &str = "traceparent";
/// The header of a message in `onejob.poison` that says why it is there.
pub const REASON_HEADER: &str = "x-onejob-reason";
const PERSISTENT: u8 = 2;

/// An attempt to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Whose queue it goes to.
    pub provider: ProviderName,
    /// The W3C trace that it belongs to.
    pub traceparent: Option<String>,
}

impl Outgoing {
    /// Properties and body.
    pub(super) fn encode(&self) -> (BasicProperties, Vec<u8>) {
        let mut headers = FieldTable::default();
        if let Some(traceparent) = &self.traceparent {
            headers.insert(TRACEPARENT.into(), AMQPValue::LongString(traceparent.as_str().into()));
        }
        let properties = BasicProperties::default()
            .with_type(TYPE.into())
            .with_content_type("application/json".into())
            .with_delivery_mode(PERSISTENT)
            .with_message_id(self.attempt.to_string().into())
            .with_correlation_id(self.attempt.job.to_string().into())
            .with_app_id("onejob".into())
            .with_headers(headers);
        // An attempt's id is hexadecimal digits, hyphens and a dot: nothing that JSON escapes.
        (
            properties,
            format!(r#"{{"attempt_id":"{}"}}"#, self.attempt).into_bytes(),
        )
    }
}

/// What a readable message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptMessage {
    /// Which attempt.
    pub attempt: AttemptId,
    /// The W3C trace that it belongs to; anything that is not one is left out.
    pub traceparent: Option<String>,
}

/// Why a message can't be read. It is parked in `onejob.poison` with this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It has no type.
    #[error("the message has no type; this version of OneJob reads {TYPE}")]
    NoType,
    /// Its type or version is not known here.
    #[error("type {0:?} is not known; this version of OneJob reads {TYPE}: update the workers, then publish it again")]
    UnknownType(String),
    /// Its body is not what the type says.
    #[error("the body is not JSON with an attempt_id: {0}")]
    Body(String),
    /// It has no `message_id`.
    #[error("the message has no message_id; it must be the attempt_id of the body")]
    NoMessageId,
    /// Properties and body name different things.
    #[error("{property} is {found:?}, but the body names attempt {attempt}")]
    Disagree {
        /// Which property.
        property: &'static str,
        /// What it says.
        found: String,
        /// What the body says.
        attempt: AttemptId,
    },
}

impl AttemptMessage {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// Why it can't be read, as a sentence for the header of `onejob.poison`.
    pub fn parse(properties: &BasicProperties, body: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Body {
            attempt_id: AttemptId,
        }

        match properties.kind().as_ref().map(ShortString::as_str) {
            None => return Err(Unreadable::NoType),
            Some(TYPE) => {}
            Some(other) => return Err(Unreadable::UnknownType(other.into())),
        }
        let Body { attempt_id: attempt } =
            serde_json::from_slice(body).map_err(|error| Unreadable::Body(error.to_string()))?;
        let agree = |property, found: Option<&ShortString>, expected: String| match found {
            Some(found) if found.as_str() != expected => Err(Unreadable::Disagree {
                property,
                found: found.as_str().into(),
                attempt,
            }),
            Some(_) | None => Ok(()),
        };
        let message_id = properties.message_id().as_ref().ok_or(Unreadable::NoMessageId)?;
        agree("message_id", Some(message_id), attempt.to_string())?;
        agree(
            "correlation_id",
            properties.correlation_id().as_ref(),
            attempt.job.to_string(),
        )?;
        let traceparent = header(properties, TRACEPARENT).filter(|text| is_traceparent(text));
        Ok(Self { attempt, traceparent })
    }
}

/// A message as it came: what `onejob.poison` keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Raw {
    /// All its properties.
    pub properties: BasicProperties,
    /// Its body.
    pub body: Vec<u8>,
}

/// Why and where the broker dead-lettered a message, from the newest entry of `x-death`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// The queue that it came from.
    pub queue: String,
    /// `rejected`, `delivery_limit`, `expired` or `maxlen`.
    pub reason: String,
}

impl Raw {
    /// Why the message was dead-lettered, if it was.
    #[must_use]
    pub fn death(&self) -> Option<Death> {
        let headers = self.properties.headers().as_ref()?;
        let AMQPValue::FieldArray(deaths) = headers.inner().get("x-death")? else {
            return None;
        };
        let AMQPValue::FieldTable(newest) = deaths.as_slice().first()? else {
            return None;
        };
        Some(Death {
            queue: text(newest.inner().get("queue")?)?,
            reason: text(newest.inner().get("reason")?)?,
        })
    }

    /// The properties under which it is parked in `onejob.poison`, with the reason beside its own headers.
    ///
    /// Left behind is what would act again: an expiration would delete it there, `CC` and `BCC` would send copies to
    /// other queues, and a user id that is not ours would be refused by the broker.
    pub(super) fn parked(&self, reason: &str) -> BasicProperties {
        let was = &self.properties;
        let mut headers = FieldTable::default();
        for (name, value) in was.headers().iter().flat_map(|headers| headers.inner()) {
            if !matches!(name.as_str(), "CC" | "BCC") {
                headers.insert(name.clone(), value.clone());
            }
        }
        headers.insert(REASON_HEADER.into(), AMQPValue::LongString(reason.into()));
        let mut parked = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_headers(headers);
        macro_rules! keep {
            ($($property:ident $set:ident),*) => {
                $(if let Some(value) = was.$property().clone() { parked = parked.$set(value); })*
            };
        }
        keep!(
            kind with_type,
            content_type with_content_type,
            content_encoding with_content_encoding,
            message_id with_message_id,
            correlation_id with_correlation_id,
            timestamp with_timestamp,
            app_id with_app_id
        );
        parked
    }

    /// The text of a header, if it is one.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        header(&self.properties, name)
    }
}

fn header(properties: &BasicProperties, name: &str) -> Option<String> {
    text(properties.headers().as_ref()?.inner().get(name)?)
}

/// Text comes as a long string from most clients, as a short one from some.
fn text(value: &AMQPValue) -> Option<String> {
    let long = value
        .as_long_string()
        .and_then(|text| std::str::from_utf8(text.as_bytes()).ok())
        .map(Into::into);
    long.or_else(|| value.as_short_string().map(|text| text.as_str().into()))
}

/// `00-<32 hex>-<16 hex>-<2 hex>` (W3C Trace Context, version 00): a header that is passed on to providers.
fn is_traceparent(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    lengths == [2, 32, 16, 2]
        && parts
            .iter()
            .all(|part| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

#[cfg(test)]
mod tests;

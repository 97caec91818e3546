//! Newtypes for everything that names something. They are parsed at the edge; inside, a value of the type is valid.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Why a text does not name what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {problem}")]
pub struct InvalidId {
    what: &'static str,
    problem: String,
}

impl InvalidId {
    fn new(what: &'static str, problem: impl Into<String>) -> Self {
        Self {
            what,
            problem: problem.into(),
        }
    }
}

/// The id of a job: a `UUIDv7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

impl JobId {
    /// Takes a UUID that is known to be a job's.
    #[must_use]
    pub const fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }

    /// The UUID itself, as the database holds it.
    #[must_use]
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for JobId {
    type Err = InvalidId;

    /// Only the hyphenated form of 36 characters: one job has one spelling, in URLs, logs and messages.
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if text.len() != 36 {
            return Err(InvalidId::new("job id", "must be a hyphenated UUID of 36 characters"));
        }
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|error| InvalidId::new("job id", format!("is not a UUID: {error}")))
    }
}

/// The number of an attempt within its job: 1, 2, 3…
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptNumber(NonZeroU16);

impl AttemptNumber {
    /// The attempt that every job is created with.
    pub const FIRST: Self = Self(NonZeroU16::MIN);

    /// The number, if it is one that an attempt can have (1 to 32,767: the database keeps it as a `smallint`).
    #[must_use]
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number)
            .filter(|n| i16::try_from(n.get()).is_ok())
            .map(Self)
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }

    /// The number as the database holds it.
    #[must_use]
    pub fn as_i16(self) -> i16 {
        i16::try_from(self.0.get()).unwrap_or(i16::MAX)
    }

    /// From the database, where a CHECK keeps it above zero.
    #[must_use]
    pub fn from_i16(number: i16) -> Option<Self> {
        u16::try_from(number).ok().and_then(Self::new)
    }

    /// The next attempt's number; none past the last one that can be stored.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        self.0.get().checked_add(1).and_then(Self::new)
    }
}

impl fmt::Display for AttemptNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of an attempt: its job's id and its number, written `<job id>.<number>`.
///
/// It is the AMQP `message_id`, the provider's `Idempotency-Key`, and what logs show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The job that the attempt is a try at.
    pub job: JobId,
    /// Which try it is.
    pub number: AttemptNumber,
}

impl AttemptId {
    /// The `number`th attempt of `job`.
    #[must_use]
    pub const fn new(job: JobId, number: AttemptNumber) -> Self {
        Self { job, number }
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.number)
    }
}

impl FromStr for AttemptId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId::new("attempt id", "must be a job's id, a dot, and a number from 1 to 32767");
        let (job, number) = text.rsplit_once('.').ok_or_else(invalid)?;
        // A leading zero or a plus sign would give one attempt two spellings.
        if number.starts_with('0') || !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid());
        }
        let number = number.parse().ok().and_then(AttemptNumber::new).ok_or_else(invalid)?;
        Ok(Self {
            job: job.parse()?,
            number,
        })
    }
}

impl Serialize for AttemptId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AttemptId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Defines a name: a short text over a small alphabet, safe in labels, queue names, logs and URLs.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $most:literal, $allowed:expr, $rule:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let allowed: fn(&str) -> bool = $allowed;
                if text.is_empty() || text.len() > $most || !allowed(text) {
                    return Err(InvalidId::new($what, $rule));
                }
                Ok(Self(text.into()))
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

fn is_name(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
}

name! {
    /// A provider as `onejob.toml` names it, such as `primary`. It is a routing key, a label and part of a queue's name.
    ProviderName, "provider name", 64, is_name,
    "must be 1 to 64 of a-z, 0-9, - and _, beginning with a letter or a digit"
}

name! {
    /// A contract with its version, such as `ticket-triage@1`.
    ContractName, "contract name", 80,
    |text| text.split_once('@').is_some_and(|(name, version)| {
        is_name(name) && !version.starts_with('0') && version.len() <= 9 && !version.is_empty()
            && version.bytes().all(|b| b.is_ascii_digit())
    }),
    "must be a name of a-z, 0-9, - and _, an @, and a version from 1: ticket-triage@1"
}

name! {
    /// Who a job belongs to. It comes from the API key, never from a request's body.
    OwnerId, "owner", 100,
    |text| text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\'),
    "must be 1 to 100 printable ASCII characters without spaces, quotes and backslashes"
}

name! {
    /// The key under which an owner's intent is stored once: 1 to 255 printable ASCII characters.
    IdempotencyKey, "idempotency key", 255,
    |text| text.bytes().all(|b| (0x20..=0x7e).contains(&b)) && !text.trim().is_empty(),
    "must be 1 to 255 printable ASCII characters, not only spaces"
}

/// What a log line, message, provider request or call-back says about who it belongs to: the same in every layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The attempt, and with it the job.
    pub attempt: AttemptId,
    /// Whose job it is.
    pub owner: OwnerId,
    /// The W3C trace that the client began, or none: then the job's id is the trace's id.
    pub traceparent: Option<String>,
}

impl Identity {
    /// The trace that everything about this attempt belongs to, 32 hexadecimal digits: the client's, or the job's own id.
    #[must_use]
    pub fn trace_id(&self) -> String {
        match self.traceparent.as_deref().and_then(|text| text.get(3..35)) {
            Some(trace) => trace.to_owned(),
            None => self.attempt.job.as_uuid().simple().to_string(),
        }
    }

    /// The `traceparent` of a call made for this attempt, as the W3C writes it; `span` is the caller's own.
    #[must_use]
    pub fn traceparent(&self, span: u64) -> String {
        let flags = self
            .traceparent
            .as_deref()
            .and_then(|text| text.get(53..55))
            .unwrap_or("01");
        // A span of zeros is none.
        format!("00-{}-{:016x}-{flags}", self.trace_id(), span.max(1))
    }
}

#[cfg(test)]
mod identity_tests {
    use super::*;

    fn identity(traceparent: Option<&str>) -> Identity {
        Identity {
            attempt: "01890a5d-ac96-774b-bcce-b302099a8057.2".parse().unwrap(),
            owner: "team".parse().unwrap(),
            traceparent: traceparent.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn a_trace_that_the_client_began_goes_on() {
        let identity = identity(Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"));
        assert_eq!(identity.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(
            identity.traceparent(7),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000007-00"
        );
    }

    #[test]
    fn without_one_the_jobs_id_is_the_trace() {
        assert_eq!(
            identity(None).traceparent(0),
            "00-01890a5dac96774bbcceb302099a8057-0000000000000001-01"
        );
    }
}

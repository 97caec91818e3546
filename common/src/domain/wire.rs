//! What an answer means: the one table from what was seen on the wire to an outcome.
//!
//! Adapters say what they saw ([`WireSeen`]); what it means is decided here and nowhere else. The rule behind the table:
//! an outcome is definite only where the provider itself said so, or where nothing can have reached it. All else is
//! unknown, because the provider may have done the work and billed it.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::FailureKind;

/// How much of a body that was no answer is kept in the attempt's event, in bytes.
pub const RAW_KEPT: usize = 64 * 1024;

/// What a call of a provider showed, whatever the provider's protocol.
#[derive(Debug, Clone, PartialEq)]
pub enum WireSeen {
    /// Refused, DNS, TLS failure, pool time-out: no byte of the request can have reached the provider.
    NotSent {
        /// What went wrong, for people.
        detail: String,
    },
    /// A time-out after the request left; a reset or an end before the answer ended.
    NoAnswer {
        /// What went wrong, for people.
        detail: String,
    },
    /// Any status that is not a success.
    ErrorStatus {
        /// The HTTP status: 3xx, 4xx or 5xx.
        status: u16,
        /// Whether the body has the provider's own documented error shape. An edge's page or a proxy's JSON has not.
        own_shape: bool,
        /// `Retry-After`, if it made sense.
        retry_after: Option<RetryAfter>,
        /// The provider's message, or a description.
        detail: String,
        /// The body as it came, cut at [`RAW_KEPT`].
        raw: Bytes,
    },
    /// A success status with an error object, no choices, HTML or an empty body; a 2xx that the API does not document.
    EmptySuccess {
        /// What was wrong with it.
        detail: String,
        /// The body as it came, cut at [`RAW_KEPT`].
        raw: Bytes,
    },
    /// An event stream that ended without its end marker, however whole its text looks.
    UnendedStream {
        /// What was received until then.
        detail: String,
    },
    /// The provider finished and said how it stopped.
    Finished {
        /// Why the model stopped.
        stop: Stop,
        /// The answer.
        answer: Answer,
    },
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was done.
    Complete,
    /// The output limit cut it.
    Length,
    /// A content filter or a refusal.
    Refusal,
}

/// A finished answer, before it is checked against the contract.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The assistant's text, as the bytes that came.
    pub text: Bytes,
    /// The model that says it answered.
    pub served_model: Option<String>,
    /// What the provider counted, for the bill.
    pub usage: Option<Usage>,
}

/// Tokens as the provider counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
    /// Both together, as the provider reported it.
    pub total_tokens: u64,
}

/// A definite failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Definite {
    /// Its kind, which decides what follows.
    pub kind: FailureKind,
    /// What happened, for people.
    pub detail: String,
    /// How long the provider asked to be left alone.
    pub retry_after: Option<RetryAfter>,
    /// The raw body, where there was one that is worth keeping.
    pub raw: Option<Bytes>,
    /// What the provider counted: a failed answer may have been billed.
    pub usage: Option<Usage>,
}

impl Definite {
    /// A failure of which only its kind and a sentence are known.
    #[must_use]
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            retry_after: None,
            raw: None,
            usage: None,
        }
    }
}

/// What a call's end means.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// An answer, still to be checked against the contract.
    Answer(Answer),
    /// It produced no result, for certain.
    Failed(Definite),
    /// It may have run, it may be running.
    Unknown {
        /// Why nothing is certain.
        reason: String,
    },
}

impl WireSeen {
    /// What it means (design §2, "What an answer means").
    #[must_use]
    pub fn meaning(self) -> Meaning {
        let failed = |kind, detail: String, raw: Option<Bytes>| {
            Meaning::Failed(Definite {
                raw,
                ..Definite::new(kind, detail)
            })
        };
        match self {
            Self::NotSent { detail } => failed(FailureKind::Unreachable, detail, None),
            Self::NoAnswer { detail } | Self::UnendedStream { detail } => Meaning::Unknown { reason: detail },
            Self::EmptySuccess { detail, raw } => failed(FailureKind::ProviderError, detail, Some(raw)),
            Self::ErrorStatus {
                status,
                own_shape,
                retry_after,
                detail,
                raw,
            } => match status_kind(status, own_shape) {
                Some(kind) => Meaning::Failed(Definite {
                    retry_after,
                    raw: Some(raw),
                    ..Definite::new(kind, format!("HTTP {status}: {detail}"))
                }),
                None => Meaning::Unknown {
                    reason: format!("HTTP {status} that proves nothing: {detail}"),
                },
            },
            Self::Finished {
                stop: Stop::Complete,
                answer,
            } => Meaning::Answer(answer),
            Self::Finished {
                stop: Stop::Length,
                answer,
            } => Meaning::Failed(Definite {
                usage: answer.usage,
                raw: Some(answer.text),
                ..Definite::new(FailureKind::Truncated, "the answer was cut at the output limit")
            }),
            Self::Finished {
                stop: Stop::Refusal,
                answer,
            } => Meaning::Failed(Definite {
                usage: answer.usage,
                raw: Some(answer.text),
                ..Definite::new(
                    FailureKind::Refused,
                    "the model refused, or a content filter stopped it",
                )
            }),
        }
    }
}

/// The failure that a status is, or none where it proves nothing.
///
/// 502, 504 and 52x come from something in front of the provider, which may have passed the request on, so their shape
/// does not matter. 529 alone is a provider's own word ("overloaded") and counts when it is in the provider's shape.
fn status_kind(status: u16, own_shape: bool) -> Option<FailureKind> {
    match status {
        429 => Some(FailureKind::RateLimited),
        300..=499 => Some(FailureKind::Rejected),
        503 | 529 if own_shape => Some(FailureKind::Overloaded),
        502 | 504 | 520..=529 => None,
        500..=599 if own_shape => Some(FailureKind::ProviderError),
        _ => None,
    }
}

/// How long a provider asked to be left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryAfter(Duration);

impl RetryAfter {
    /// Reads the header in both of its forms, seconds and an HTTP date; nonsense and the past are ignored.
    ///
    /// `cap` bounds what is obeyed: one hint of 24 hours froze an account elsewhere.
    #[must_use]
    pub fn parse(text: &str, now: DateTime<Utc>, cap: Duration) -> Option<Self> {
        let text = text.trim();
        let wait = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            // More digits than a u64 holds is still "very long": the cap decides.
            text.parse().map_or(cap, Duration::from_secs)
        } else {
            let date: DateTime<Utc> = httpdate::parse_http_date(text).ok()?.into();
            (date - now).to_std().ok()?
        };
        Some(Self(wait.min(cap)))
    }

    /// The pause itself.
    #[must_use]
    pub const fn pause(self) -> Duration {
        self.0
    }

    /// A pause that is known already.
    #[must_use]
    pub const fn of(pause: Duration) -> Self {
        Self(pause)
    }
}

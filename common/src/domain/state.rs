//! The closed sets of words: states, causes, failure kinds. What the database and the API write is written here once.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is none of the words it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}; known are: {known}")]
pub struct UnknownWord {
    what: &'static str,
    text: String,
    known: String,
}

/// Defines an enum whose variants are words: in the database, in JSON, in metrics.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident, $what:literal { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant),+
        }

        impl $type {
            /// Every word there is.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word itself.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| UnknownWord {
                    what: $what,
                    text: text.into(),
                    known: Self::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

words! {
    /// The state of a job as it is stored. It changes when the result slot closes or is reopened, and not between.
    JobState, "job state" {
        /// The result slot is free.
        Open = "open",
        /// An attempt holds the result slot.
        Succeeded = "succeeded",
        /// No attempt is left that could bring a result; a manual one reopens the job.
        Failed = "failed",
        /// The slot was closed by a cancel; a late result is `lost`.
        Cancelled = "cancelled",
    }
}

words! {
    /// The state of a job as users see it: an open one reads as its attempts do.
    PublicState, "job state" {
        /// Nothing was sent yet.
        Queued = "queued",
        /// An attempt is starting or running.
        Running = "running",
        /// An attempt's outcome is not known and none is starting or running.
        Unknown = "unknown",
        /// The job has its result.
        Succeeded = "succeeded",
        /// The job ended without a result.
        Failed = "failed",
        /// The job was cancelled.
        Cancelled = "cancelled",
    }
}

words! {
    /// The state of an attempt. The module page draws the ways between them.
    AttemptState, "attempt state" {
        /// The row is committed; its message is on the way or will be.
        Queued = "queued",
        /// A worker claimed it: the request may be on the wire.
        Starting = "starting",
        /// The provider acknowledged it.
        Running = "running",
        /// Contact was lost after a byte may have left; it may still be running.
        Unknown = "unknown",
        /// It holds the job's result slot.
        Succeeded = "succeeded",
        /// It finished, but another attempt or a cancel had closed the slot.
        Lost = "lost",
        /// A definite answer: it produced no result.
        Failed = "failed",
        /// The provider confirmed a cancel, an operator said so, or it was never claimed.
        Cancelled = "cancelled",
    }
}

words! {
    /// Why an attempt was started.
    Cause, "cause" {
        /// The one that every job is created with.
        First = "first",
        /// A definite failure was followed by another try on the same provider.
        Retry = "retry",
        /// A definite failure was followed by a try on another, certified provider.
        Fallback = "fallback",
        /// A slow running attempt got a competitor.
        Hedge = "hedge",
        /// A person or the client asked for it.
        Manual = "manual",
    }
}

words! {
    /// What kind of definite failure it was. `deadline` is of a job alone.
    FailureKind, "failure kind" {
        /// The provider refuses the request (4xx): asking again is useless.
        Rejected = "rejected",
        /// Too many requests; wait.
        RateLimited = "rate_limited",
        /// The provider says that it is overloaded.
        Overloaded = "overloaded",
        /// The provider says that it failed.
        ProviderError = "provider_error",
        /// Nothing was sent: refused, DNS, TLS.
        Unreachable = "unreachable",
        /// Answered, but not what the contract says.
        ContractViolation = "contract_violation",
        /// The answer was cut at the output limit.
        Truncated = "truncated",
        /// A content filter or a refusal.
        Refused = "refused",
        /// It cannot be delivered to any worker.
        Poison = "poison",
        /// Found out later: it never ran.
        NotExecuted = "not_executed",
        /// The job's deadline passed with nothing in flight.
        Deadline = "deadline",
    }
}

impl AttemptState {
    /// Whether nothing can change it any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Lost | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Starting | Self::Running | Self::Unknown => false,
        }
    }

    /// Whether a worker or a provider may still bring an outcome: `starting`, `running` or `unknown`.
    #[must_use]
    pub const fn may_be_answered(self) -> bool {
        match self {
            Self::Starting | Self::Running | Self::Unknown => true,
            Self::Queued | Self::Succeeded | Self::Lost | Self::Failed | Self::Cancelled => false,
        }
    }

    /// Whether it forbids every new attempt, a hedge too (G4).
    #[must_use]
    pub const fn blocks_new_attempts(self) -> bool {
        match self {
            Self::Queued | Self::Starting | Self::Unknown => true,
            Self::Running | Self::Succeeded | Self::Lost | Self::Failed | Self::Cancelled => false,
        }
    }
}

impl JobState {
    /// Whether the result slot is closed.
    #[must_use]
    pub const fn is_closed(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Open => false,
        }
    }
}

impl PublicState {
    /// What users read of a job in `state` with attempts in `attempts`.
    #[must_use]
    pub fn of(state: JobState, attempts: impl IntoIterator<Item = AttemptState>) -> Self {
        match state {
            JobState::Succeeded => Self::Succeeded,
            JobState::Failed => Self::Failed,
            JobState::Cancelled => Self::Cancelled,
            JobState::Open => {
                let (mut in_flight, mut unknown) = (false, false);
                for attempt in attempts {
                    match attempt {
                        AttemptState::Starting | AttemptState::Running => in_flight = true,
                        AttemptState::Unknown => unknown = true,
                        AttemptState::Queued
                        | AttemptState::Succeeded
                        | AttemptState::Lost
                        | AttemptState::Failed
                        | AttemptState::Cancelled => {}
                    }
                }
                match (in_flight, unknown) {
                    (true, _) => Self::Running,
                    (false, true) => Self::Unknown,
                    (false, false) => Self::Queued,
                }
            }
        }
    }
}

//! What a client asks for, read strictly and digested canonically (design §4).
//!
//! ```text
//! bytes ── Fields::parse ──► each top-level field: its own text, and its value as Json
//!                                  │
//!                            Intent::parse ──► {contract, provider, input, policy} ──► Intent::digest
//! ```
//!
//! Two bodies under one idempotency key are the same job exactly when their digests are equal, so everything here serves
//! two rules. What JSON leaves open (a name that stands twice, half a surrogate pair) is refused instead of guessed, since
//! two readers would guess differently. And what is only a spelling (order of names, white space, escapes, `1.0` for `1`)
//! does not reach the digest, while nothing else is smoothed over: numbers never pass through a float, strings are not
//! normalised.
//!
//! The digest is made from the canonical form; what is stored and sent to a provider is the text that was accepted.

mod canonical;
mod error;
mod fields;
mod json;
mod number;
mod policy;
mod reader;
mod request;

pub use canonical::Digest;
pub use error::{BodyError, IntentError, JsonError, JsonProblem};
pub use fields::{Field, Fields};
pub use json::{BeyondFloat, Json, Members};
pub use number::Number;
pub use request::{Intent, RawInput};

#[cfg(test)]
mod tests;

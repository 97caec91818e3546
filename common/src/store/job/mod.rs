//! Jobs with their attempts.

mod accept;
mod change;
mod claim;
mod due;
mod notice;
mod read;
mod settle;

pub use accept::{Accepted, NewJob};
pub use change::{Change, ChangeError, Changed, Facts};
pub use claim::{Acknowledgement, Claim, Claimed, NotClaimed};
pub use due::{Due, Gauges, UnknownGauge};
pub use notice::Notices;
pub use read::{AttemptRecord, FailureRecord, JobFilter, JobPage, JobRecord, UnknownRecord};
pub use settle::{Settled, Settlement};

use super::StoreError;

/// Reads a word that the database holds.
fn word<T: std::str::FromStr>(text: &str) -> Result<T, StoreError>
where
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| StoreError::Unreadable(error.to_string()))
}

/// Reads an attempt's number.
fn number(number: i16) -> Result<crate::domain::AttemptNumber, StoreError> {
    crate::domain::AttemptNumber::from_i16(number)
        .ok_or_else(|| StoreError::Unreadable(format!("attempt number {number}")))
}

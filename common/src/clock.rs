//! The one place where time is read and ids are made.
//!
//! Everything else takes them as arguments, so that tests decide them. `clippy.toml` bans the calls elsewhere.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::JobId;

/// The wall clock of this process. What several machines must agree on is decided by the database's clock instead.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the wall clock"
)]
pub fn now() -> DateTime<Utc> {
    Utc::now()
}

/// A new job's id: a `UUIDv7`, so that ids sort by the time they were made and new rows go to the end of the index.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that makes ids")]
pub fn new_job_id() -> JobId {
    JobId::from_uuid(Uuid::now_v7())
}

/// A new id for anything that is not a job: a worker process, a certification.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that makes ids")]
pub fn new_id() -> Uuid {
    Uuid::now_v7()
}

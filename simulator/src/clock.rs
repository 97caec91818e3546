//! The one place of the simulator where the wall clock is read.
//!
//! The simulator stands alone, without `onejob-common`: it is also used where nothing else of OneJob runs.

use chrono::{DateTime, Utc};

/// The wall clock, for the call log and an answer's `created`. Waits go by the monotonic clock instead.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the wall clock"
)]
pub fn now() -> DateTime<Utc> {
    Utc::now()
}

//! What operators see: log lines, metrics, and the admin port that serves them.

pub mod admin;
pub mod log;
pub mod metrics;
mod record;

pub use record::{accepted, record};

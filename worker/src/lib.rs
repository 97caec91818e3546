//! The worker: calls providers and settles attempts; in the reconciler role, puts right what was left.
//!
//! - [`pipeline`]: consume → claim → render → call → check → settle → ack, one task an attempt.
//! - [`provider`]: the adapters. They say what they saw on the wire; what it means is decided in `onejob_common::domain`.
//! - [`reconcile`]: the relay, deadlines, hedges, attempts of dead workers.
//! - [`process`]: heartbeat, readiness and the order of stopping.

pub mod pipeline;
pub mod process;
pub mod provider;
pub mod reconcile;

//! The pure core: words, states, and what follows what. No clock, no randomness, no I/O; they are arguments.
//!
//! ```text
//!                          ┌──────────── cancel, deadline ───────────────┐
//!                          │                                             ▼
//!  accept, retry,      ┌───┴────┐ claim ┌──────────┐ acknowledged ┌─────────┐   confirmed   ┌───────────┐
//!  fallback, hedge, ──►│ queued │──────►│ starting │─────────────►│ running │──────────────►│ cancelled │
//!  manual              └────────┘       └────┬─────┘              └────┬────┘    cancel     └───────────┘
//!                                            │   contact lost          │                          ▲
//!                                            ├───────────┬─────────────┤                          │ operator
//!                                            │           ▼             │                          │
//!                                            │      ┌─────────┐        │   (late evidence, probe, operator)
//!                                            │      │ unknown ├────────┼──────────────────────────┤
//!                                            │      └─────────┘        │                          │
//!                                            ▼                         ▼                          ▼
//!                              ┌───────────┐   ┌──────┐   ┌────────┐
//!                              │ succeeded │   │ lost │   │ failed │      final: nothing changes them again
//!                              └───────────┘   └──────┘   └────────┘
//! ```
//!
//! A **job** is the stable record of one intent; an **attempt** is one try at it. [`decide`] takes a job as it stands and
//! an [`Event`], and gives what must change as data ([`Effect`]s), or says why the event is not allowed. [`store`] applies
//! the effects in one transaction, under a lock on the job. The three statements of the plain way (accept, claim, settle)
//! do the same without loading the job first; a test compares them with [`decide`].
//!
//! [`store`]: crate::store

mod attempt;
mod decide;
mod ids;
pub mod intent;
mod policy;
mod state;
mod wire;

pub use attempt::{Attempt, Job};
pub use decide::{Context, Effect, Event, Illegal, JobError, LossReason, Resolution, Unsettled, decide};
pub use ids::{
    AttemptId, AttemptNumber, ContractName, IdempotencyKey, Identity, InvalidId, JobId, OwnerId, ProviderName,
};
pub use policy::{Ended, FollowUp, Policy, backoff, follow_up};
pub use state::{AttemptState, Cause, FailureKind, JobState, PublicState, UnknownWord};
pub use wire::{Answer, Definite, Meaning, RAW_KEPT, RetryAfter, Stop, Usage, WireSeen};

#[cfg(test)]
mod tests;

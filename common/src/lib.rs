//! What every part of OneJob shares.
//!
//! Start with [`domain`]: the words, the states and what follows what, with no clock, no randomness and no I/O.
//! [`store`] holds all SQL, [`broker`] all AMQP, [`contract`] what a provider's answer must keep. The rest is plumbing.
#![warn(missing_docs)]

pub mod broker;
pub mod clock;
pub mod config;
pub mod contract;
pub mod domain;
pub mod grouping;
pub mod retry;
pub mod store;
pub mod telemetry;

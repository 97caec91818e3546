//! What the tests on real services share.

pub mod broker;

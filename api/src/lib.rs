//! The HTTP API: takes jobs, and says what became of them.
//!
//! - [`server`]: connections and their limits. [`routes`]: one file a resource; start with `routes/submit.rs`.
//! - [`auth`]: who is asking. [`key`]: the `Idempotency-Key` header. [`body`], [`query`]: what is asked, read strictly.
//! - [`accept`]: the grouped insert, and the publishing after its commit. [`act`]: every other change of a job.
//! - [`wait`]: `?wait=`. [`view`]: jobs as JSON. [`problem`]: errors as RFC 9457 problems.

pub mod accept;
pub mod act;
pub mod auth;
pub mod body;
pub mod key;
pub mod problem;
pub mod query;
pub mod routes;
pub mod server;
pub mod view;
pub mod wait;

use std::sync::Arc;

use onejob_common::broker::Publisher;
use onejob_common::config::Config;
use onejob_common::contract::Contracts;
use onejob_common::store::Store;
use onejob_common::store::certificate::Gate;
use tokio_util::task::TaskTracker;

/// What every request needs.
#[derive(Clone)]
pub struct App {
    /// The record.
    pub store: Store,
    /// Limits and providers.
    pub config: Arc<Config>,
    /// What inputs and answers must keep.
    pub contracts: Arc<Contracts>,
    /// Who may take over.
    pub gate: Arc<Gate>,
    /// The way to the workers.
    pub publisher: Publisher,
    /// Takes jobs in, grouped.
    pub accepter: accept::Accepter,
    /// What goes on beside the requests.
    pub tasks: TaskTracker,
    /// Who is asking.
    pub keys: Arc<auth::Keys>,
    /// Who waits for a job.
    pub waiters: Arc<wait::Waiters>,
}

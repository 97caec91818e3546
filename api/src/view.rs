//! Jobs, attempts and unknowns as JSON (design §7). `input` and `result` are shown as the bytes that are stored.

use chrono::{DateTime, Utc};
use onejob_common::domain::{AttemptId, Cause, JobId, OwnerId, Policy, PublicState, Usage};
use onejob_common::domain::{AttemptState, ContractName, IdempotencyKey, ProviderName};
use onejob_common::store::StoreError;
use onejob_common::store::job::{AttemptRecord, FailureRecord, JobRecord, UnknownRecord};
use serde::Serialize;
use serde_json::value::RawValue;

/// A job.
#[derive(Debug, Serialize)]
pub struct JobView {
    id: JobId,
    owner: OwnerId,
    idempotency_key: IdempotencyKey,
    contract: ContractName,
    provider: ProviderName,
    input: Box<RawValue>,
    policy: Policy,
    state: PublicState,
    version: i64,
    completed_by: Option<AttemptId>,
    result: Option<Box<RawValue>>,
    error: Option<FailureRecord>,
    deadline: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    finished_at: Option<DateTime<Utc>>,
    attempts: Vec<AttemptView>,
}

/// An attempt.
#[derive(Debug, Serialize)]
pub struct AttemptView {
    id: AttemptId,
    number: u16,
    provider: ProviderName,
    cause: Cause,
    state: AttemptState,
    failure: Option<FailureRecord>,
    usage: Option<Usage>,
    /// In US dollars.
    cost: Option<f64>,
    created_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    acknowledged_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
}

impl JobView {
    /// A job as it is shown.
    ///
    /// # Errors
    ///
    /// If what is stored as JSON is none.
    pub fn of(job: JobRecord) -> Result<Self, StoreError> {
        let unreadable = |error: &dyn std::fmt::Display| StoreError::Unreadable(format!("job {}: {error}", job.id));
        let state = job.public_state();
        let result = match job.result {
            None => None,
            Some(bytes) => {
                let text = String::from_utf8(bytes).map_err(|error| unreadable(&error))?;
                Some(RawValue::from_string(text).map_err(|error| unreadable(&error))?)
            }
        };
        Ok(Self {
            id: job.id,
            owner: job.owner,
            idempotency_key: job.key,
            contract: job.contract,
            provider: job.provider,
            input: RawValue::from_string(job.input).map_err(|error| unreadable(&error))?,
            policy: job.policy,
            state,
            version: job.version,
            completed_by: job.completed_by.map(|number| AttemptId::new(job.id, number)),
            result,
            error: job.error,
            deadline: job.deadline,
            created_at: job.created_at,
            finished_at: job.finished_at,
            attempts: job
                .attempts
                .into_iter()
                .map(|attempt| AttemptView::of(job.id, attempt))
                .collect(),
        })
    }
}

impl AttemptView {
    fn of(job: JobId, attempt: AttemptRecord) -> Self {
        Self {
            id: AttemptId::new(job, attempt.number),
            number: attempt.number.get(),
            provider: attempt.provider,
            cause: attempt.cause,
            state: attempt.state,
            failure: attempt.failure,
            usage: attempt.usage,
            cost: attempt.cost,
            created_at: attempt.created_at,
            started_at: attempt.started_at,
            acknowledged_at: attempt.acknowledged_at,
            finished_at: attempt.finished_at,
        }
    }
}

/// An attempt whose outcome is not known.
#[derive(Debug, Serialize)]
pub struct UnknownView {
    attempt_id: AttemptId,
    job_id: JobId,
    owner: OwnerId,
    provider: ProviderName,
    since: DateTime<Utc>,
    reason: String,
    probes: i32,
    next_probe_at: Option<DateTime<Utc>>,
    cost: Option<f64>,
}

impl From<UnknownRecord> for UnknownView {
    fn from(unknown: UnknownRecord) -> Self {
        Self {
            attempt_id: unknown.attempt,
            job_id: unknown.attempt.job,
            owner: unknown.owner,
            provider: unknown.provider,
            since: unknown.since,
            reason: unknown.reason,
            probes: unknown.probes,
            next_probe_at: unknown.next_probe_at,
            cost: unknown.cost,
        }
    }
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// `cursor` of the next page, if there is one.
    pub next_cursor: Option<String>,
}

//! What the API and the command line show.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::super::{Store, StoreError};
use super::{number, word};
use crate::domain::{
    AttemptId, AttemptNumber, AttemptState, Cause, ContractName, FailureKind, IdempotencyKey, JobId, JobState, OwnerId,
    Policy, ProviderName, PublicState, Usage,
};

/// A job with everything that users see of it.
#[derive(Debug, Clone)]
pub struct JobRecord {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub owner: OwnerId,
    /// The owner's key.
    pub key: IdempotencyKey,
    /// The contract.
    pub contract: ContractName,
    /// The provider that the intent names.
    pub provider: ProviderName,
    /// The input, as the bytes that came.
    pub input: String,
    /// The policy with its defaults.
    pub policy: Policy,
    /// As it is stored.
    pub state: JobState,
    /// Moves when the slot closes or is reopened.
    pub version: i64,
    /// The attempt that holds the slot.
    pub completed_by: Option<AttemptNumber>,
    /// The result, as the bytes that came.
    pub result: Option<Vec<u8>>,
    /// Why it failed.
    pub error: Option<FailureRecord>,
    /// Past it nothing new starts.
    pub deadline: Option<DateTime<Utc>>,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// When its slot closed.
    pub finished_at: Option<DateTime<Utc>>,
    /// Every try, by number.
    pub attempts: Vec<AttemptRecord>,
}

/// An attempt as users see it.
#[derive(Debug, Clone)]
pub struct AttemptRecord {
    /// 1, 2, 3…
    pub number: AttemptNumber,
    /// Who is called.
    pub provider: ProviderName,
    /// Why it was started.
    pub cause: Cause,
    /// Where it stands.
    pub state: AttemptState,
    /// How it failed.
    pub failure: Option<FailureRecord>,
    /// What the provider counted.
    pub usage: Option<Usage>,
    /// What it cost, in US dollars.
    pub cost: Option<f64>,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// When a worker claimed it.
    pub started_at: Option<DateTime<Utc>>,
    /// When the provider gave its first sign.
    pub acknowledged_at: Option<DateTime<Utc>>,
    /// When it was settled.
    pub finished_at: Option<DateTime<Utc>>,
}

/// How something failed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FailureRecord {
    /// The kind, for programs.
    pub kind: FailureKind,
    /// What happened, for people.
    pub detail: String,
}

/// Which jobs to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Whose; none: everybody's.
    pub owner: Option<OwnerId>,
    /// In which state, as users see it.
    pub state: Option<PublicState>,
    /// Under which contract.
    pub contract: Option<ContractName>,
    /// With which key.
    pub key: Option<IdempotencyKey>,
    /// Only those made before this one.
    pub before: Option<JobId>,
    /// How many at most.
    pub limit: i64,
}

/// A page of jobs.
#[derive(Debug, Clone)]
pub struct JobPage {
    /// The jobs, newest first.
    pub jobs: Vec<JobRecord>,
    /// What `before` of the next page is, if there is one.
    pub next: Option<JobId>,
}

/// An attempt whose outcome is not known.
#[derive(Debug, Clone)]
pub struct UnknownRecord {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Whose job.
    pub owner: OwnerId,
    /// Who was called.
    pub provider: ProviderName,
    /// Since when nothing is known.
    pub since: DateTime<Utc>,
    /// Why.
    pub reason: String,
    /// How often the provider was asked.
    pub probes: i32,
    /// When it is asked again; none: it waits for a person.
    pub next_probe_at: Option<DateTime<Utc>>,
    /// What it is known to have cost.
    pub cost: Option<f64>,
}

impl JobRecord {
    /// What users read.
    #[must_use]
    pub fn public_state(&self) -> PublicState {
        PublicState::of(self.state, self.attempts.iter().map(|attempt| attempt.state))
    }
}

impl Store {
    /// A job with its attempts; of `owner` alone, if one is given.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn job(&self, id: JobId, owner: Option<&OwnerId>) -> Result<Option<JobRecord>, StoreError> {
        Ok(self.records(&[id.as_uuid()], owner).await?.pop())
    }

    /// A page of jobs, newest first.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn jobs(&self, filter: &JobFilter) -> Result<JobPage, StoreError> {
        let mut ids = sqlx::query_scalar!(
            r#"SELECT j.id FROM jobs j
               WHERE ($1::text IS NULL OR j.owner_id = $1)
                 AND ($2::text IS NULL OR j.contract = $2)
                 AND ($3::text IS NULL OR j.idempotency_key = $3)
                 AND ($4::uuid IS NULL OR j.id < $4)
                 AND ($5::text IS NULL OR $5 = CASE WHEN j.state <> 'open' THEN j.state ELSE (
                     SELECT CASE WHEN bool_or(a.state IN ('starting', 'running')) THEN 'running'
                                 WHEN bool_or(a.state = 'unknown') THEN 'unknown' ELSE 'queued' END
                     FROM attempts a WHERE a.job_id = j.id) END)
               ORDER BY j.id DESC LIMIT $6"#,
            filter.owner.as_ref().map(OwnerId::as_str),
            filter.contract.as_ref().map(ContractName::as_str),
            filter.key.as_ref().map(IdempotencyKey::as_str),
            filter.before.map(JobId::as_uuid),
            filter.state.map(PublicState::as_str),
            filter.limit + 1,
        )
        .fetch_all(self.pool())
        .await?;
        let most = usize::try_from(filter.limit).unwrap_or_default();
        let more = ids.len() > most;
        ids.truncate(most);
        let next = ids.last().copied().filter(|_| more).map(JobId::from_uuid);
        let mut records = self.records(&ids, filter.owner.as_ref()).await?;
        // A job may have moved on between the two statements: what is shown must fit what was asked for.
        records.retain(|record| filter.state.is_none_or(|state| record.public_state() == state));
        Ok(JobPage { jobs: records, next })
    }

    async fn records(&self, ids: &[Uuid], owner: Option<&OwnerId>) -> Result<Vec<JobRecord>, StoreError> {
        // One statement and so one snapshot: a result never shows beside an attempt that is still running.
        let rows = sqlx::query!(
            r#"SELECT j.id, j.owner_id, j.idempotency_key, j.contract, j.provider AS job_provider, j.input,
                      j.policy AS "policy: sqlx::types::Json<Policy>", j.state AS job_state, j.version, j.completed_by,
                      j.result, j.error AS "error: sqlx::types::Json<FailureRecord>", j.deadline,
                      j.created_at AS job_created_at, j.finished_at AS job_finished_at,
                      a.number, a.provider, a.cause, a.state, a.failure_kind, a.failure_detail,
                      a.usage AS "usage: sqlx::types::Json<Usage>", a.cost, a.created_at, a.started_at,
                      a.acknowledged_at, a.finished_at
               FROM jobs j JOIN attempts a ON a.job_id = j.id
               WHERE j.id = ANY($1) AND ($2::text IS NULL OR j.owner_id = $2)
               ORDER BY j.id DESC, a.number"#,
            ids,
            owner.map(OwnerId::as_str),
        )
        .fetch_all(self.pool())
        .await?;
        let mut records: Vec<JobRecord> = Vec::with_capacity(ids.len());
        for row in rows {
            let id = JobId::from_uuid(row.id);
            if records.last().is_none_or(|last| last.id != id) {
                records.push(JobRecord {
                    id,
                    owner: word(&row.owner_id)?,
                    key: word(&row.idempotency_key)?,
                    contract: word(&row.contract)?,
                    provider: word(&row.job_provider)?,
                    input: row.input,
                    policy: row.policy.0,
                    state: word(&row.job_state)?,
                    version: row.version,
                    completed_by: row.completed_by.map(number).transpose()?,
                    result: row.result,
                    error: row.error.map(|error| error.0),
                    deadline: row.deadline,
                    created_at: row.job_created_at,
                    finished_at: row.job_finished_at,
                    attempts: Vec::new(),
                });
            }
            let Some(record) = records.last_mut() else { continue };
            let failure = match row.failure_kind {
                Some(kind) => Some(FailureRecord {
                    kind: word(&kind)?,
                    detail: row.failure_detail.unwrap_or_default(),
                }),
                None => None,
            };
            record.attempts.push(AttemptRecord {
                number: number(row.number)?,
                provider: word(&row.provider)?,
                cause: word(&row.cause)?,
                state: word(&row.state)?,
                failure,
                usage: row.usage.map(|usage| usage.0),
                cost: row.cost,
                created_at: row.created_at,
                started_at: row.started_at,
                acknowledged_at: row.acknowledged_at,
                finished_at: row.finished_at,
            });
        }
        Ok(records)
    }

    /// Whether the slots of these jobs are closed or unknown, for clients that wait: the ids of those that are.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn worth_reading(&self, jobs: &[JobId]) -> Result<Vec<JobId>, StoreError> {
        let ids = sqlx::query_scalar!(
            r#"SELECT j.id FROM jobs j
               WHERE j.id = ANY($1) AND (j.state <> 'open' OR (
                   EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = j.id AND a.state = 'unknown')
                   AND NOT EXISTS (SELECT 1 FROM attempts a
                                   WHERE a.job_id = j.id AND a.state IN ('starting', 'running'))))"#,
            &jobs.iter().map(|job| job.as_uuid()).collect::<Vec<_>>(),
        )
        .fetch_all(self.pool())
        .await?;
        Ok(ids.into_iter().map(JobId::from_uuid).collect())
    }

    /// A page of the attempts whose outcome is not known, oldest job first.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn unknowns(&self, after: Option<AttemptId>, limit: i64) -> Result<Vec<UnknownRecord>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT a.job_id, a.number, a.owner_id, a.provider, a.probes, a.look_at, a.cost,
                      coalesce(e.at, a.started_at, a.created_at) AS "since!",
                      coalesce(e.detail->>'reason', '') AS "reason!"
               FROM attempts a
               LEFT JOIN LATERAL (
                   SELECT at, detail FROM attempt_events e
                   WHERE e.job_id = a.job_id AND e.number = a.number AND e.to_state = 'unknown'
                   ORDER BY at DESC LIMIT 1) e ON true
               WHERE a.state = 'unknown'
                 AND ($1::uuid IS NULL OR (a.job_id, a.number) > ($1, $2::smallint))
               ORDER BY a.job_id, a.number LIMIT $3"#,
            after.map(|attempt| attempt.job.as_uuid()),
            after.map(|attempt| attempt.number.as_i16()),
            limit,
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(UnknownRecord {
                    attempt: AttemptId::new(JobId::from_uuid(row.job_id), number(row.number)?),
                    owner: word(&row.owner_id)?,
                    provider: word(&row.provider)?,
                    since: row.since,
                    reason: row.reason,
                    probes: row.probes,
                    next_probe_at: row.look_at,
                    cost: row.cost,
                })
            })
            .collect()
    }
}

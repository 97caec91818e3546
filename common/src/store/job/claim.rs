//! Claim and acknowledge: who may call the provider, and that it answered at all (G6).

use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::super::{Store, StoreError};
use super::{number, word};
use crate::config::ms;
use crate::domain::{AttemptId, AttemptState, Cause, ContractName, Identity, JobId, OwnerId, ProviderName};

/// A wish to call a provider.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// For which attempt.
    pub attempt: AttemptId,
    /// The limit of the call where the policy says nothing.
    pub limit: Duration,
}

/// What the call needs, and the promise that nobody else makes it.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// Whose it is, in every layer.
    pub identity: Identity,
    /// What input and answer must keep.
    pub contract: ContractName,
    /// Who is called.
    pub provider: ProviderName,
    /// Why it was started.
    pub cause: Cause,
    /// The input, as the bytes that came.
    pub input: String,
    /// The limit of the call.
    pub limit: Duration,
    /// After how long the reconciler looks whether it wants a competitor.
    pub hedge_after: Option<Duration>,
    /// When the job was created.
    pub created_at: DateTime<Utc>,
    /// How long it was ready and waited for a worker.
    pub waited: Duration,
}

/// Why nobody is to be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotClaimed {
    /// There is no such attempt.
    Missing,
    /// It is queued, but not due, or its job's deadline has passed. The relay sees to it.
    NotNow,
    /// Another process works on it and is alive.
    Busy,
    /// This very process holds it: it lost the answer to its own claim, and has sent nothing.
    OwnClaim,
    /// The process that worked on it has not said for a while that it lives.
    Orphaned,
    /// It is settled or unknown, or its job is closed.
    Done(AttemptState),
}

/// A provider's first sign.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledgement {
    /// Of which attempt.
    pub attempt: AttemptId,
    /// When the reconciler is to look whether it wants a competitor.
    pub hedge_after: Option<Duration>,
}

impl Store {
    /// Claims attempts for `worker`. `grace` is added to each call's limit before the reconciler asks what became of it.
    ///
    /// # Errors
    ///
    /// If the database can't do it, or it is not known whether it did ([`NotClaimed::OwnClaim`] tells later).
    pub async fn claim(
        &self,
        worker: Uuid,
        grace: Duration,
        dead_after: Duration,
        claims: &[Claim],
    ) -> Result<Vec<Result<Claimed, NotClaimed>>, StoreError> {
        let mut answers: Vec<Option<Result<Claimed, NotClaimed>>> = vec![None; claims.len()];
        for (attempt, claimed) in self.claim_queued(worker, grace, claims).await? {
            // Of two messages for one attempt in the same group, the first has it.
            let place = claims
                .iter()
                .zip(&answers)
                .position(|(c, a)| c.attempt == attempt && a.is_none());
            if let Some(answer) = place.and_then(|place| answers.get_mut(place)) {
                *answer = Some(Ok(claimed));
            }
        }
        let others: Vec<usize> = (0..claims.len()).filter(|&i| answers[i].is_none()).collect();
        if !others.is_empty() {
            let ids: Vec<AttemptId> = others.iter().map(|&i| claims[i].attempt).collect();
            for (i, why) in others.into_iter().zip(self.why_not(worker, dead_after, &ids).await?) {
                let twice = matches!(why, NotClaimed::OwnClaim)
                    && answers
                        .iter()
                        .flatten()
                        .any(|a| matches!(a, Ok(c) if c.identity.attempt == claims[i].attempt));
                answers[i] = Some(Err(if twice { NotClaimed::Busy } else { why }));
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Guards, each repeated in the write: `state = 'queued'`, else a redelivery, a duplicate or a second relay makes a
    /// second call; `run_at`, else a retry ignores the provider's `Retry-After`; the job is open, else a cancelled job
    /// is billed; the deadline. Committed before the first byte is sent.
    ///
    /// The rows are locked in order first: two groups with the same duplicates in another order would wait for each other.
    async fn claim_queued(
        &self,
        worker: Uuid,
        grace: Duration,
        claims: &[Claim],
    ) -> Result<Vec<(AttemptId, Claimed)>, StoreError> {
        let rows = sqlx::query!(
            r#"WITH wanted AS (
                   SELECT DISTINCT ON (job_id, number) job_id, number, limit_ms
                   FROM unnest($1::uuid[], $2::smallint[], $3::bigint[]) AS t(job_id, number, limit_ms)
                   ORDER BY job_id, number),
               free AS MATERIALIZED (
                   SELECT a.job_id, a.number, w.limit_ms
                   FROM wanted w JOIN attempts a ON a.job_id = w.job_id AND a.number = w.number
                   WHERE a.state = 'queued' AND a.run_at <= now()
                   ORDER BY a.job_id, a.number
                   FOR NO KEY UPDATE OF a)
               UPDATE attempts a
               SET state = 'starting', worker_id = $4, started_at = clock_timestamp(),
                   look_at = now() + (coalesce((j.policy->>'timeout_ms')::bigint, f.limit_ms) + $5) * interval '1 millisecond'
               FROM free f JOIN jobs j ON j.id = f.job_id
               WHERE a.job_id = f.job_id AND a.number = f.number AND a.state = 'queued' AND a.run_at <= now()
                 AND j.state = 'open' AND (j.deadline IS NULL OR j.deadline > now())
               RETURNING a.job_id, a.number, a.owner_id, a.provider, a.cause, j.contract, j.input, j.traceparent,
                         j.created_at,
                         coalesce((j.policy->>'timeout_ms')::bigint, f.limit_ms) AS "limit_ms!",
                         (j.policy->>'hedge_after_ms')::bigint AS hedge_after_ms,
                         greatest(extract(epoch FROM a.started_at - greatest(a.created_at, a.run_at)), 0)::float8
                             AS "waited!""#,
            &uuids(claims.iter().map(|claim| claim.attempt)),
            &numbers(claims.iter().map(|claim| claim.attempt)),
            &claims.iter().map(|claim| millis(claim.limit)).collect::<Vec<_>>(),
            worker,
            millis(grace),
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                let attempt = AttemptId::new(JobId::from_uuid(row.job_id), number(row.number)?);
                let owner: OwnerId = word(&row.owner_id)?;
                let claimed = Claimed {
                    identity: Identity {
                        attempt,
                        owner,
                        traceparent: row.traceparent,
                    },
                    contract: word(&row.contract)?,
                    provider: word(&row.provider)?,
                    cause: word(&row.cause)?,
                    input: row.input,
                    limit: from_millis(row.limit_ms),
                    hedge_after: row.hedge_after_ms.map(from_millis),
                    created_at: row.created_at,
                    waited: Duration::try_from_secs_f64(row.waited).unwrap_or_default(),
                };
                Ok((attempt, claimed))
            })
            .collect()
    }

    async fn why_not(
        &self,
        worker: Uuid,
        dead_after: Duration,
        attempts: &[AttemptId],
    ) -> Result<Vec<NotClaimed>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT t.place AS "place!", a.state AS "state?", a.worker_id, (j.state = 'open') AS "open?",
                      (w.heartbeat_at > now() - $4 * interval '1 millisecond' AND w.stopped_at IS NULL) AS "fresh?"
               FROM unnest($1::uuid[], $2::smallint[]) WITH ORDINALITY AS t(job_id, number, place)
               LEFT JOIN attempts a ON a.job_id = t.job_id AND a.number = t.number
               LEFT JOIN jobs j ON j.id = a.job_id
               LEFT JOIN workers w ON w.id = a.worker_id
               WHERE $3::uuid IS NOT NULL
               ORDER BY t.place"#,
            &uuids(attempts.iter().copied()),
            &numbers(attempts.iter().copied()),
            worker,
            as_f64(dead_after),
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                let Some(state) = row.state else {
                    return Ok(NotClaimed::Missing);
                };
                let state: AttemptState = word(&state)?;
                Ok(match state {
                    AttemptState::Queued if row.open == Some(true) => NotClaimed::NotNow,
                    AttemptState::Starting | AttemptState::Running if row.worker_id == Some(worker) => {
                        NotClaimed::OwnClaim
                    }
                    AttemptState::Starting | AttemptState::Running if row.fresh == Some(true) => NotClaimed::Busy,
                    AttemptState::Starting | AttemptState::Running => NotClaimed::Orphaned,
                    AttemptState::Queued
                    | AttemptState::Unknown
                    | AttemptState::Succeeded
                    | AttemptState::Lost
                    | AttemptState::Failed
                    | AttemptState::Cancelled => NotClaimed::Done(state),
                })
            })
            .collect()
    }

    /// Writes `starting → running`. An attempt that has ended meanwhile stays as it is.
    ///
    /// Guards: `state = 'starting'`, else a late sign sets a settled attempt back; the worker, else one that was given up
    /// speaks for its successor.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn acknowledge(&self, worker: Uuid, signs: &[Acknowledgement]) -> Result<(), StoreError> {
        sqlx::query!(
            r#"WITH given AS (
                   SELECT a.job_id, a.number, t.hedge_ms
                   FROM unnest($1::uuid[], $2::smallint[], $3::bigint[]) AS t(job_id, number, hedge_ms)
                   JOIN attempts a ON a.job_id = t.job_id AND a.number = t.number
                   WHERE a.state = 'starting' AND a.worker_id = $4
                   ORDER BY a.job_id, a.number
                   FOR NO KEY UPDATE OF a)
               UPDATE attempts a
               SET state = 'running', acknowledged_at = clock_timestamp(),
                   look_at = least(a.look_at, now() + g.hedge_ms * interval '1 millisecond')
               FROM given g
               WHERE a.job_id = g.job_id AND a.number = g.number AND a.state = 'starting' AND a.worker_id = $4"#,
            &uuids(signs.iter().map(|sign| sign.attempt)),
            &numbers(signs.iter().map(|sign| sign.attempt)),
            &signs
                .iter()
                .map(|sign| sign.hedge_after.map(millis))
                .collect::<Vec<_>>() as &[Option<i64>],
            worker,
        )
        .execute(self.pool())
        .await?;
        Ok(())
    }
}

/// The jobs of attempts, as an array for a statement.
pub(super) fn uuids(attempts: impl Iterator<Item = AttemptId>) -> Vec<Uuid> {
    attempts.map(|attempt| attempt.job.as_uuid()).collect()
}

/// The numbers of attempts, as an array for a statement.
pub(super) fn numbers(attempts: impl Iterator<Item = AttemptId>) -> Vec<i16> {
    attempts.map(|attempt| attempt.number.as_i16()).collect()
}

/// A duration as the database takes it.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2_000)
}

fn from_millis(milliseconds: i64) -> Duration {
    ms(u64::try_from(milliseconds).unwrap_or_default())
}

/// A duration in milliseconds, for arithmetic with intervals.
pub(super) fn as_f64(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

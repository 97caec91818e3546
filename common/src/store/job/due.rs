//! What is due: the reconciler's view of everything that is not settled. `look_at` says when, a partial index holds open
//! work only, and `SKIP LOCKED` lets several reconcilers share it.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::super::{Store, StoreError};
use super::claim::{as_f64, millis, numbers, uuids};
use super::{number, word};
use crate::domain::{AttemptId, AttemptState, JobId, ProviderName};

/// Something that must be seen to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// A queued attempt that no worker has claimed yet: its message may be lost.
    Publish {
        /// Which attempt.
        attempt: AttemptId,
        /// Whose queue.
        provider: ProviderName,
        /// The trace that the client began.
        traceparent: Option<String>,
    },
    /// The job's deadline has passed.
    Deadline {
        /// Which job.
        job: JobId,
    },
    /// It has run alone for as long as the policy wants.
    Hedge {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// Its call should have ended long ago.
    Overdue {
        /// Which attempt.
        attempt: AttemptId,
    },
}

/// What the gauges show.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gauges {
    /// By provider.
    pub unknown: BTreeMap<ProviderName, UnknownGauge>,
    /// Queued attempts that were due for longer than a message should take.
    pub unpublished: u64,
}

/// The unknown attempts of one provider.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UnknownGauge {
    /// How many.
    pub count: u64,
    /// How long the oldest has been unknown, in seconds.
    pub oldest_seconds: f64,
}

impl Store {
    /// Takes up to `batch` attempts whose time has come, and puts each off, so that nobody else takes it meanwhile and it
    /// comes again if nothing happens: a queued one at growing distances (never less than `republish_after`).
    ///
    /// `limits` are the providers' own call limits, `grace` what an overdue call is given on top.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn due(
        &self,
        batch: i64,
        republish_after: Duration,
        limits: &BTreeMap<ProviderName, Duration>,
        grace: Duration,
    ) -> Result<Vec<Due>, StoreError> {
        let rows = sqlx::query!(
            r#"WITH due AS (
                   SELECT a.job_id, a.number FROM attempts a
                   WHERE a.look_at <= now() AND a.state IN ('queued', 'starting', 'running', 'unknown')
                   ORDER BY a.look_at LIMIT $1
                   FOR NO KEY UPDATE OF a SKIP LOCKED)
               UPDATE attempts a
               SET look_at = CASE a.state
                       WHEN 'queued' THEN now() + greatest($2 * interval '1 millisecond', now() - a.run_at)
                       WHEN 'unknown' THEN NULL
                       ELSE greatest(a.started_at + l.limit_ms * interval '1 millisecond', now() + interval '1 second')
                   END
               FROM due d
               JOIN jobs j ON j.id = d.job_id
               JOIN attempts b ON b.job_id = d.job_id AND b.number = d.number
               LEFT JOIN unnest($3::text[], $4::bigint[]) AS p(provider, limit_ms) ON p.provider = b.provider
               CROSS JOIN LATERAL (
                   SELECT coalesce((j.policy->>'timeout_ms')::bigint, p.limit_ms, 60000) + $5 AS limit_ms) l
               WHERE a.job_id = d.job_id AND a.number = d.number AND a.look_at <= now()
                 AND a.state IN ('queued', 'starting', 'running', 'unknown')
               RETURNING a.job_id, a.number, a.state, a.provider, j.traceparent, (j.state = 'open') AS "open!",
                         coalesce(j.deadline <= now(), false) AS "deadline!",
                         coalesce(a.started_at + l.limit_ms * interval '1 millisecond' <= now(), false) AS "overdue!",
                         coalesce(a.acknowledged_at + (j.policy->>'hedge_after_ms')::bigint * interval '1 millisecond'
                             <= now(), false) AS "hedge!""#,
            batch,
            as_f64(republish_after),
            &limits.keys().map(ToString::to_string).collect::<Vec<_>>(),
            &limits.values().map(|&limit| millis(limit)).collect::<Vec<_>>(),
            millis(grace),
        )
        .fetch_all(self.pool())
        .await?;
        let mut due = Vec::with_capacity(rows.len());
        for row in rows {
            let job = JobId::from_uuid(row.job_id);
            let attempt = AttemptId::new(job, number(row.number)?);
            match word::<AttemptState>(&row.state)? {
                AttemptState::Queued if row.deadline || !row.open => due.push(Due::Deadline { job }),
                AttemptState::Queued => due.push(Due::Publish {
                    attempt,
                    provider: word(&row.provider)?,
                    traceparent: row.traceparent,
                }),
                AttemptState::Starting | AttemptState::Running if row.overdue => due.push(Due::Overdue { attempt }),
                AttemptState::Running if row.hedge => due.push(Due::Hedge { attempt }),
                AttemptState::Starting
                | AttemptState::Running
                | AttemptState::Unknown
                | AttemptState::Succeeded
                | AttemptState::Lost
                | AttemptState::Failed
                | AttemptState::Cancelled => {}
            }
        }
        Ok(due)
    }

    /// Has queued attempts looked at in `after` again: their messages were not confirmed.
    ///
    /// # Errors
    ///
    /// If the database can't do it; they are looked at later then.
    pub async fn bring_forward(&self, attempts: &[AttemptId], after: Duration) -> Result<(), StoreError> {
        sqlx::query!(
            r#"WITH given AS (
                   SELECT a.job_id, a.number
                   FROM unnest($1::uuid[], $2::smallint[]) AS t(job_id, number)
                   JOIN attempts a ON a.job_id = t.job_id AND a.number = t.number
                   WHERE a.state = 'queued'
                   ORDER BY a.job_id, a.number
                   FOR NO KEY UPDATE OF a SKIP LOCKED)
               UPDATE attempts a SET look_at = least(a.look_at, now() + $3 * interval '1 millisecond')
               FROM given g WHERE a.job_id = g.job_id AND a.number = g.number AND a.state = 'queued'"#,
            &uuids(attempts.iter().copied()),
            &numbers(attempts.iter().copied()),
            as_f64(after),
        )
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// Attempts in flight whose worker has not said for `dead_after` that it lives. Nothing is scanned while all live.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn of_dead_workers(&self, dead_after: Duration, batch: i64) -> Result<Vec<AttemptId>, StoreError> {
        let dead: Vec<Uuid> = sqlx::query_scalar!(
            r#"SELECT id FROM workers WHERE stopped_at IS NULL AND heartbeat_at < now() - $1 * interval '1 millisecond'"#,
            as_f64(dead_after),
        )
        .fetch_all(self.pool())
        .await?;
        if dead.is_empty() {
            return Ok(vec![]);
        }
        let rows = sqlx::query!(
            r#"SELECT job_id, number FROM attempts
               WHERE state IN ('starting', 'running') AND worker_id = ANY($1) AND look_at IS NOT NULL
               LIMIT $2"#,
            &dead,
            batch,
        )
        .fetch_all(self.pool())
        .await?;
        if rows.is_empty() {
            self.put_away(&dead, dead_after).await?;
        }
        rows.into_iter()
            .map(|row| Ok(AttemptId::new(JobId::from_uuid(row.job_id), number(row.number)?)))
            .collect()
    }

    /// Those of `attempts` that are in flight at a worker which is not alive.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn orphans(&self, attempts: &[AttemptId], dead_after: Duration) -> Result<Vec<AttemptId>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT a.job_id, a.number
               FROM unnest($1::uuid[], $2::smallint[]) AS t(job_id, number)
               JOIN attempts a ON a.job_id = t.job_id AND a.number = t.number
               LEFT JOIN workers w ON w.id = a.worker_id
               WHERE a.state IN ('starting', 'running')
                 AND (w.id IS NULL OR w.stopped_at IS NOT NULL OR w.heartbeat_at < now() - $3 * interval '1 millisecond')"#,
            &uuids(attempts.iter().copied()),
            &numbers(attempts.iter().copied()),
            as_f64(dead_after),
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| Ok(AttemptId::new(JobId::from_uuid(row.job_id), number(row.number)?)))
            .collect()
    }

    /// What the reconciler's gauges show.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn gauges(&self, republish_after: Duration) -> Result<Gauges, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT a.provider, count(*) FILTER (WHERE a.state = 'unknown') AS "unknown!",
                      coalesce(extract(epoch FROM now() - min(e.at)), 0)::float8 AS "oldest!",
                      count(*) FILTER (WHERE a.state = 'queued' AND j.state = 'open'
                                         AND a.run_at < now() - $1 * interval '1 millisecond') AS "unpublished!"
               FROM attempts a
               JOIN jobs j ON j.id = a.job_id
               LEFT JOIN LATERAL (SELECT max(at) AS at FROM attempt_events e
                                  WHERE e.job_id = a.job_id AND e.number = a.number AND e.to_state = 'unknown') e
                   ON a.state = 'unknown'
               WHERE a.state IN ('queued', 'unknown')
               GROUP BY a.provider"#,
            as_f64(republish_after),
        )
        .fetch_all(self.pool())
        .await?;
        let mut gauges = Gauges::default();
        for row in rows {
            gauges.unpublished += u64::try_from(row.unpublished).unwrap_or_default();
            let count = u64::try_from(row.unknown).unwrap_or_default();
            gauges.unknown.insert(
                word(&row.provider)?,
                UnknownGauge {
                    count,
                    oldest_seconds: row.oldest,
                },
            );
        }
        Ok(gauges)
    }
}

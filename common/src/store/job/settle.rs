//! Settle: the one write of the result slot (G7). Order of finishing decides (G8).

use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::super::{Store, StoreError};
use super::claim::{numbers, uuids};
use super::word;
use crate::domain::intent::Digest;
use crate::domain::{AttemptId, AttemptState, LossReason, Usage};

/// An answer that keeps the contract.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// Of which attempt.
    pub attempt: AttemptId,
    /// The bytes that came.
    pub result: Bytes,
    /// What the provider counted.
    pub usage: Option<Usage>,
    /// What it cost, in US dollars.
    pub cost: Option<f64>,
    /// When its first sign came, where that was not written before.
    pub acknowledged_at: Option<DateTime<Utc>>,
    /// Who brings it, for the events.
    pub actor: String,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It holds the result slot.
    Won {
        /// Where the attempt stood before: `succeeded` if this answer had been written already.
        was: AttemptState,
    },
    /// The slot was closed: the payload is dropped; its size, digest, usage and cost are kept.
    Lost {
        /// Where the attempt stood before.
        was: AttemptState,
        /// What had closed the slot.
        reason: LossReason,
    },
    /// It had lost before. Nothing changes.
    LostBefore,
    /// The attempt was settled as something without a result: kept as an event, counted, and nothing changes.
    Contradicted {
        /// What stands.
        stands: AttemptState,
        /// Whether it is the first time that this is said.
        first: bool,
    },
    /// There is no such attempt, or nobody ever claimed it: nothing changes.
    Impossible,
}

impl Store {
    /// Settles answers, each against its own job's slot, all in one statement. Of two answers for one job the first wins.
    ///
    /// It may be repeated with the same bytes: finding oneself in `completed_by` is a win.
    ///
    /// Guards: the lock on the job, so that what is judged is what stands; `version`, `completed_by IS NULL` and `open` in
    /// the write of the slot itself, else a result that comes second overwrites the first; the attempt's state, else an
    /// answer revives what an operator or the provider has settled. What is still queued is cancelled with the slot:
    /// else it would be called, and billed, for a job that has its result.
    ///
    /// # Errors
    ///
    /// If the database can't do it, or it is not known whether it did: repeat it.
    pub async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let ids = || settlements.iter().map(|settlement| settlement.attempt);
        let usages: Vec<_> = settlements.iter().map(|s| s.usage.map(sqlx::types::Json)).collect();
        let rows = sqlx::query!(
            r#"WITH given AS (
                   SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::bytea[], $4::bytea[], $5::jsonb[], $6::float8[],
                                        $7::timestamptz[], $8::text[]) WITH ORDINALITY
                        AS t(job_id, number, result, digest, usage, cost, acknowledged_at, actor, place)),
               slots AS MATERIALIZED (
                   SELECT j.id, j.state, j.version, j.completed_by
                   FROM (SELECT DISTINCT job_id FROM given ORDER BY job_id) g JOIN jobs j ON j.id = g.job_id
                   ORDER BY j.id
                   FOR NO KEY UPDATE OF j),
               standing AS MATERIALIZED (
                   SELECT a.job_id, a.number, a.state, a.job_version
                   FROM slots s
                   JOIN (SELECT DISTINCT job_id, number FROM given) g ON g.job_id = s.id
                   JOIN attempts a ON a.job_id = g.job_id AND a.number = g.number
                   ORDER BY a.job_id, a.number
                   FOR NO KEY UPDATE OF a),
               judged AS (
                   SELECT g.*, a.state AS was, s.state AS job_state, s.version, s.completed_by,
                          a.state IN ('starting', 'running', 'unknown')
                              AND row_number() OVER (PARTITION BY g.job_id, g.number ORDER BY g.place) = 1 AS may,
                          s.state = 'open' AND s.completed_by IS NULL AND s.version = a.job_version AS free
                   FROM given g
                   JOIN slots s ON s.id = g.job_id
                   JOIN standing a ON a.job_id = g.job_id AND a.number = g.number),
               winners AS (
                   SELECT DISTINCT ON (job_id) * FROM judged WHERE may AND free ORDER BY job_id, place),
               written AS (
                   UPDATE jobs j
                   SET state = 'succeeded', version = j.version + 1, completed_by = w.number, result = w.result,
                       finished_at = clock_timestamp()
                   FROM winners w
                   WHERE j.id = w.job_id AND j.version = w.version AND j.completed_by IS NULL AND j.state = 'open'
                   RETURNING j.id, j.completed_by),
               moved AS (
                   UPDATE attempts a
                   SET state = CASE WHEN w.id IS NULL THEN 'lost' ELSE 'succeeded' END,
                       finished_at = clock_timestamp(), look_at = NULL,
                       acknowledged_at = coalesce(a.acknowledged_at, g.acknowledged_at),
                       result_digest = g.digest, result_bytes = length(g.result), usage = g.usage, cost = g.cost
                   FROM judged g LEFT JOIN written w ON w.id = g.job_id AND w.completed_by = g.number
                   WHERE g.may AND a.job_id = g.job_id AND a.number = g.number
                     AND a.state IN ('starting', 'running', 'unknown')
                   RETURNING a.job_id, a.number, a.state),
               cancelled AS (
                   UPDATE attempts a SET state = 'cancelled', finished_at = clock_timestamp(), look_at = NULL
                   FROM written w
                   WHERE a.job_id = w.id AND a.state = 'queued'
                   RETURNING a.job_id, a.number),
               contradictions AS (
                   SELECT DISTINCT ON (g.job_id, g.number) g.*
                   FROM judged g
                   WHERE g.was IN ('failed', 'cancelled')
                     AND NOT EXISTS (SELECT 1 FROM attempt_events e
                                     WHERE e.job_id = g.job_id AND e.number = g.number
                                       AND e.detail->>'reason' = 'after_resolution'
                                       AND e.detail->>'result_digest' = encode(g.digest, 'hex'))
                   ORDER BY g.job_id, g.number, g.place),
               events AS (
                   INSERT INTO attempt_events (job_id, number, actor, from_state, to_state, detail)
                   SELECT g.job_id, g.number, g.actor, g.was, m.state,
                          CASE WHEN m.state = 'lost' THEN
                              jsonb_build_object('event', 'race_loss', 'reason',
                                  CASE g.job_state WHEN 'cancelled' THEN 'after_cancel' ELSE 'late' END)
                          ELSE jsonb_build_object('event', 'late_evidence') END
                   FROM moved m JOIN judged g ON g.job_id = m.job_id AND g.number = m.number AND g.may
                   WHERE m.state = 'lost' OR g.was = 'unknown'
                   UNION ALL
                   SELECT g.job_id, g.number, g.actor, g.was, NULL,
                          jsonb_build_object('event', 'race_loss', 'reason', 'after_resolution',
                              'result_digest', encode(g.digest, 'hex'), 'result_bytes', length(g.result),
                              'usage', g.usage, 'cost', g.cost)
                   FROM contradictions g
                   UNION ALL
                   SELECT c.job_id, c.number, g.actor, 'queued', 'cancelled',
                          jsonb_build_object('event', 'cancelled', 'reason', 'another attempt won')
                   FROM cancelled c JOIN winners g ON g.job_id = c.job_id)
               SELECT g.place AS "place!", g.was AS "was!", m.state AS "became?", g.may AS "may!",
                      g.job_state AS "job_state!", coalesce(g.completed_by = g.number, false) AS "held!",
                      (c.place IS NOT NULL) AS "contradiction!"
               FROM judged g
               LEFT JOIN moved m ON m.job_id = g.job_id AND m.number = g.number
               LEFT JOIN contradictions c ON c.place = g.place"#,
            &uuids(ids()),
            &numbers(ids()),
            &settlements.iter().map(|s| s.result.to_vec()).collect::<Vec<_>>(),
            &settlements
                .iter()
                .map(|s| Digest::of(&s.result).as_bytes().to_vec())
                .collect::<Vec<_>>(),
            &usages as _,
            &settlements.iter().map(|s| s.cost).collect::<Vec<_>>() as &[Option<f64>],
            &settlements.iter().map(|s| s.acknowledged_at).collect::<Vec<_>>() as &[Option<DateTime<Utc>>],
            &settlements.iter().map(|s| s.actor.clone()).collect::<Vec<_>>(),
        )
        .fetch_all(self.pool())
        .await?;
        let mut answers = vec![Settled::Impossible; settlements.len()];
        for row in rows {
            let was: AttemptState = word(&row.was)?;
            let settled = match was {
                AttemptState::Starting | AttemptState::Running | AttemptState::Unknown => match row.became.as_deref() {
                    Some("succeeded") => Settled::Won { was },
                    Some("lost") if row.may && row.job_state == "cancelled" => Settled::Lost {
                        was,
                        reason: LossReason::AfterCancel,
                    },
                    Some("lost") if row.may => Settled::Lost {
                        was,
                        reason: LossReason::Late,
                    },
                    // The same attempt stood twice in the group.
                    Some("lost") => Settled::LostBefore,
                    Some(_) | None => Settled::Impossible,
                },
                AttemptState::Succeeded if row.held => Settled::Won { was },
                AttemptState::Succeeded | AttemptState::Lost => Settled::LostBefore,
                AttemptState::Failed | AttemptState::Cancelled => Settled::Contradicted {
                    stands: was,
                    first: row.contradiction,
                },
                AttemptState::Queued => Settled::Impossible,
            };
            if let Some(answer) = usize::try_from(row.place - 1)
                .ok()
                .and_then(|place| answers.get_mut(place))
            {
                *answer = settled;
            }
        }
        Ok(answers)
    }
}

//! Everything that is not the plain way: load the job under a lock, [`decide`], write the effects, in one transaction.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::{Postgres, Transaction};

use super::super::certificate::Gate;
use super::super::{Store, StoreError};
use super::claim::as_f64;
use super::{number, word};
use crate::domain::intent::Digest;
use crate::domain::{
    Attempt, AttemptNumber, AttemptState, Context, Effect, Event, Illegal, Job, JobError, JobId, JobState, OwnerId,
    RAW_KEPT, Usage, decide,
};

/// An event, with what is known about it.
#[derive(Debug, Clone)]
pub struct Change {
    /// Which job.
    pub job: JobId,
    /// Whose it must be; none: an operator or the system acts.
    pub owner: Option<OwnerId>,
    /// What happened, or is asked for.
    pub event: Event,
    /// What is known about it.
    pub facts: Facts,
    /// Who says so, for the events: `worker <id>`, `reconciler`, `client`, `operator <owner>`.
    pub actor: String,
}

/// What is known about an event and stored with it.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// What happened, for people.
    pub detail: Option<String>,
    /// The body that was no answer.
    pub raw: Option<Bytes>,
    /// What the provider counted.
    pub usage: Option<Usage>,
    /// What it cost, in US dollars.
    pub cost: Option<f64>,
    /// The result, where an operator brings it.
    pub result: Option<Bytes>,
    /// When the relay looks at a started attempt that nobody has claimed until then; none: at once.
    pub look_in: Option<Duration>,
}

/// What was done.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The job as it was.
    pub before: Job,
    /// The job as it is now.
    pub job: Job,
    /// What was done to it.
    pub effects: Vec<Effect>,
    /// The trace that the client began.
    pub traceparent: Option<String>,
    /// When the job was created.
    pub created_at: DateTime<Utc>,
    /// When this happened, by the database's clock.
    pub at: DateTime<Utc>,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The database can't do it, or it is not known whether it did.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such job, or it is somebody else's.
    #[error("there is no such job")]
    NoSuchJob,
    /// It is not allowed as things stand.
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

impl From<sqlx::Error> for ChangeError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// A job as it stands under the lock.
struct Standing {
    job: Job,
    traceparent: Option<String>,
    created_at: DateTime<Utc>,
    now: DateTime<Utc>,
}

impl Store {
    /// Decides `change` on the job as it stands under a lock, and writes what follows.
    ///
    /// Guard: `FOR NO KEY UPDATE` on the job. Without it a sibling turns unknown between the look at the attempts and the
    /// insert of a new one, and two run (G4).
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; then nothing was written, or (database) it is not known, and the change may be repeated.
    pub async fn change(&self, gate: &Gate, change: &Change) -> Result<Changed, ChangeError> {
        let mut transaction = self.pool().begin().await?;
        let Standing {
            job: before,
            traceparent,
            created_at,
            now,
        } = load(&mut transaction, change.job, change.owner.as_ref()).await?;
        let certified = if may_take_over(&change.event) {
            super::super::certificate::certified(&mut *transaction, gate, &before.contract).await?
        } else {
            std::collections::BTreeSet::new()
        };
        let effects = {
            let context = Context {
                now,
                jitter: rand::random(),
                certified: &|provider| certified.contains(provider),
            };
            decide(&before, &change.event, &context)?
        };
        let mut job = before.clone();
        for effect in &effects {
            write(&mut transaction, &job, effect, change).await?;
            job.apply(effect, now);
        }
        if effects.is_empty() {
            // Nothing was written: no need to wait for the disk.
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
        }
        Ok(Changed {
            before,
            job,
            effects,
            traceparent,
            created_at,
            at: now,
        })
    }
}

/// Whether a provider may be asked to take over as a consequence: then certificates matter.
const fn may_take_over(event: &Event) -> bool {
    match event {
        Event::Failed { .. }
        | Event::ProviderCancelled { .. }
        | Event::Resolved { .. }
        | Event::NewAttempt { .. }
        | Event::HedgeDue { .. } => true,
        Event::Claim { .. }
        | Event::Acknowledged { .. }
        | Event::Answered { .. }
        | Event::ContactLost { .. }
        | Event::CancelRequested
        | Event::DeadlineDue => false,
    }
}

async fn load(
    transaction: &mut Transaction<'static, Postgres>,
    id: JobId,
    owner: Option<&OwnerId>,
) -> Result<Standing, ChangeError> {
    let row = sqlx::query!(
        r#"SELECT owner_id, contract, provider, policy AS "policy: sqlx::types::Json<crate::domain::Policy>", state, version,
                  completed_by, deadline, traceparent, created_at, clock_timestamp() AS "now!"
           FROM jobs WHERE id = $1 AND ($2::text IS NULL OR owner_id = $2)
           FOR NO KEY UPDATE"#,
        id.as_uuid(),
        owner.map(OwnerId::as_str),
    )
    .fetch_optional(&mut **transaction)
    .await?
    .ok_or(ChangeError::NoSuchJob)?;
    // A second statement: its snapshot is taken after the lock was got.
    let attempts = sqlx::query!(
        r#"SELECT number, provider, cause, state, job_version, run_at, failure_kind,
                  coalesce(finished_at,
                           CASE WHEN state = 'unknown' THEN (SELECT max(at) FROM attempt_events e
                               WHERE e.job_id = a.job_id AND e.number = a.number AND e.to_state = 'unknown') END,
                           acknowledged_at, started_at, created_at) AS "since!"
           FROM attempts a WHERE job_id = $1
           ORDER BY number
           FOR NO KEY UPDATE OF a"#,
        id.as_uuid(),
    )
    .fetch_all(&mut **transaction)
    .await?
    .into_iter()
    .map(|row| {
        Ok(Attempt {
            number: number(row.number)?,
            provider: word(&row.provider)?,
            cause: word(&row.cause)?,
            state: word(&row.state)?,
            job_version: row.job_version,
            run_at: row.run_at,
            since: row.since,
            failure: row.failure_kind.as_deref().map(word).transpose()?,
        })
    })
    .collect::<Result<Vec<_>, StoreError>>()?;
    let job = Job {
        id,
        owner: word(&row.owner_id)?,
        contract: word(&row.contract)?,
        provider: word(&row.provider)?,
        policy: row.policy.0,
        state: word(&row.state)?,
        version: row.version,
        completed_by: row.completed_by.map(number).transpose()?,
        deadline: row.deadline,
        attempts,
    };
    Ok(Standing {
        job,
        traceparent: row.traceparent,
        created_at: row.created_at,
        now: row.now,
    })
}

/// Writes one effect. Each statement repeats what was decided on: a row that does not fit means a defect, and the
/// transaction is given up.
async fn write(
    transaction: &mut Transaction<'static, Postgres>,
    job: &Job,
    effect: &Effect,
    change: &Change,
) -> Result<(), ChangeError> {
    let connection = &mut **transaction;
    let facts = &change.facts;
    let rows = match effect {
        Effect::Move {
            number,
            from,
            to,
            failure,
        } => {
            let about_it = subject(&change.event) == Some(*number);
            // An answer that an operator brings: what it was stays provable.
            let answer = facts.result.as_ref().filter(|_| about_it);
            let rows = sqlx::query!(
                r#"UPDATE attempts
                   SET state = $4, failure_kind = $5, failure_detail = $6,
                       finished_at = CASE WHEN $4 IN ('succeeded', 'lost', 'failed', 'cancelled')
                                          THEN clock_timestamp() END,
                       look_at = CASE WHEN $4 = 'running' THEN look_at END,
                       usage = coalesce($7, usage), cost = coalesce($8, cost),
                       result_digest = $9, result_bytes = $10
                   WHERE job_id = $1 AND number = $2 AND state = $3"#,
                job.id.as_uuid(),
                number.as_i16(),
                from.as_str(),
                to.as_str(),
                failure.map(|kind| kind.as_str()),
                failure.and(facts.detail.as_deref()).map(plain),
                facts.usage.filter(|_| about_it).map(|usage| json!(usage)),
                facts.cost.filter(|_| about_it),
                answer.map(|bytes| Digest::of(bytes).as_bytes().to_vec()),
                answer.and_then(|bytes| i64::try_from(bytes.len()).ok()),
            )
            .execute(&mut *connection)
            .await?
            .rows_affected();
            event(
                transaction,
                job,
                *number,
                change,
                Some(*from),
                Some(*to),
                moved(*to, change, about_it),
            )
            .await?;
            rows
        }
        Effect::Close {
            state,
            completed_by,
            error,
        } => sqlx::query!(
            r#"UPDATE jobs
               SET state = $3, version = version + 1, completed_by = $4, result = $5, error = $6,
                   finished_at = clock_timestamp()
               WHERE id = $1 AND version = $2 AND state = 'open' AND completed_by IS NULL"#,
            job.id.as_uuid(),
            job.version,
            state.as_str(),
            completed_by.map(AttemptNumber::as_i16),
            facts
                .result
                .as_ref()
                .filter(|_| *state == JobState::Succeeded)
                .map(|bytes| bytes.to_vec()),
            error.as_ref().map(|error| explain(error, facts)),
        )
        .execute(connection)
        .await?
        .rows_affected(),
        Effect::Reopen => sqlx::query!(
            r#"UPDATE jobs SET state = 'open', version = version + 1, error = NULL, finished_at = NULL
               WHERE id = $1 AND version = $2 AND state = 'failed'"#,
            job.id.as_uuid(),
            job.version,
        )
        .execute(connection)
        .await?
        .rows_affected(),
        // Guard: nothing is queued, starting or unknown, said again in the write itself (G4).
        Effect::Start {
            number,
            provider,
            cause,
            run_at,
        } => sqlx::query!(
            r#"INSERT INTO attempts (job_id, number, owner_id, provider, cause, job_version, run_at, look_at)
               SELECT id, $2, owner_id, $3, $4, version, $5,
                      least(greatest($5, now() + $6 * interval '1 millisecond'), deadline)
               FROM jobs
               WHERE id = $1 AND version = $7 AND state = 'open'
                 AND NOT EXISTS (SELECT 1 FROM attempts
                                 WHERE job_id = $1 AND state IN ('queued', 'starting', 'unknown'))"#,
            job.id.as_uuid(),
            number.as_i16(),
            provider.as_str(),
            cause.as_str(),
            run_at,
            as_f64(facts.look_in.unwrap_or_default()),
            job.version,
        )
        .execute(connection)
        .await?
        .rows_affected(),
        Effect::Loss { number, reason } => {
            let detail = json!({
                "event": "race_loss", "reason": reason.as_str(), "usage": facts.usage, "cost": facts.cost,
                "result_bytes": facts.result.as_ref().map(Bytes::len),
                "result_digest": facts.result.as_ref().map(|bytes| hex::encode(Digest::of(bytes).as_bytes())),
            });
            event(transaction, job, *number, change, None, None, detail).await?;
            1
        }
        Effect::Blocked { provider } => {
            let last = job
                .attempts
                .last()
                .map_or(AttemptNumber::FIRST, |attempt| attempt.number);
            let detail = json!({"event": "failover_blocked", "provider": provider, "reason": "no valid certificate"});
            event(transaction, job, last, change, None, None, detail).await?;
            1
        }
        // Only adapters that can confirm a cancel are asked; none of those that are built can.
        Effect::AskCancel { .. } => 1,
    };
    if rows == 1 {
        Ok(())
    } else {
        Err(StoreError::Unreadable(format!("{effect:?} of job {} does not fit what was locked", job.id)).into())
    }
}

/// The attempt that an event is about.
const fn subject(event: &Event) -> Option<AttemptNumber> {
    match event {
        Event::Claim { number }
        | Event::Acknowledged { number }
        | Event::Answered { number }
        | Event::Failed { number, .. }
        | Event::ContactLost { number }
        | Event::ProviderCancelled { number }
        | Event::Resolved { number, .. }
        | Event::HedgeDue { number } => Some(*number),
        Event::CancelRequested | Event::NewAttempt { .. } | Event::DeadlineDue => None,
    }
}

/// What an event of a state change says beside its states.
fn moved(to: AttemptState, change: &Change, about_it: bool) -> serde_json::Value {
    let facts = &change.facts;
    let name = match (&change.event, to) {
        (Event::Resolved { .. }, _) if about_it => "resolution",
        (_, AttemptState::Unknown) => "unknown",
        (_, AttemptState::Cancelled) => "cancelled",
        (_, AttemptState::Failed) => "failed",
        (
            _,
            AttemptState::Queued
            | AttemptState::Starting
            | AttemptState::Running
            | AttemptState::Succeeded
            | AttemptState::Lost,
        ) => "moved",
    };
    let mut detail = json!({"event": name});
    if let Some(text) = &facts.detail {
        detail["reason"] = json!(plain(text));
    }
    if let Some(raw) = facts.raw.as_ref().filter(|_| about_it) {
        let kept = &raw[..raw.len().min(RAW_KEPT)];
        // jsonb holds no NUL; what is not UTF-8 is kept in hexadecimal.
        match std::str::from_utf8(kept) {
            Ok(text) if !text.contains('\0') => detail["body"] = json!(text),
            Ok(_) | Err(_) => detail["body_hex"] = json!(hex::encode(kept)),
        }
    }
    detail
}

/// A sentence as the database can hold it: without NUL, and not without end.
fn plain(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(2_000).collect()
}

fn explain(error: &JobError, facts: &Facts) -> serde_json::Value {
    let mut detail = facts.detail.clone().unwrap_or_else(|| {
        if error.kind == crate::domain::FailureKind::Deadline {
            "the deadline passed with nothing in flight".to_owned()
        } else {
            format!("the last attempt ended as {}", error.kind)
        }
    });
    if !error.blocked.is_empty() {
        let names: Vec<&str> = error.blocked.iter().map(crate::domain::ProviderName::as_str).collect();
        detail.push_str(&format!(
            " (not allowed to take over, for want of a valid certificate: {})",
            names.join(", ")
        ));
    }
    json!({"kind": error.kind, "detail": plain(&detail)})
}

async fn event(
    transaction: &mut Transaction<'static, Postgres>,
    job: &Job,
    number: AttemptNumber,
    change: &Change,
    from: Option<AttemptState>,
    to: Option<AttemptState>,
    detail: serde_json::Value,
) -> Result<(), ChangeError> {
    sqlx::query!(
        "INSERT INTO attempt_events (job_id, number, actor, from_state, to_state, detail) VALUES ($1, $2, $3, $4, $5, $6)",
        job.id.as_uuid(),
        number.as_i16(),
        change.actor,
        from.map(AttemptState::as_str),
        to.map(AttemptState::as_str),
        detail,
    )
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

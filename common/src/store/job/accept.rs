//! Accept: one intent becomes one job with its first attempt, once (G2).

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::super::{Store, StoreError};
use crate::domain::intent::Digest;
use crate::domain::{ContractName, IdempotencyKey, JobId, OwnerId, Policy, ProviderName};

/// How often an insert is tried again when the row that was in its way has gone.
const TRIES: usize = 5;

/// A job to be stored.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id, if it is new.
    pub id: JobId,
    /// Whose it is.
    pub owner: OwnerId,
    /// The owner's key.
    pub key: IdempotencyKey,
    /// The digest of the canonical intent.
    pub digest: Digest,
    /// The contract.
    pub contract: ContractName,
    /// The provider.
    pub provider: ProviderName,
    /// The input, as the bytes that came.
    pub input: String,
    /// The policy with its defaults.
    pub policy: Policy,
    /// The trace that the client began.
    pub traceparent: Option<String>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It is stored, with its first attempt.
    Created {
        /// By the database's clock.
        created_at: DateTime<Utc>,
    },
    /// The same intent was stored before, as this job.
    Replayed {
        /// Which one.
        id: JobId,
    },
    /// Another intent holds the key.
    Conflict {
        /// The job that holds it.
        id: JobId,
    },
}

impl Store {
    /// Stores jobs, each once. `republish_after` is when the relay takes over publishing.
    ///
    /// # Errors
    ///
    /// If the database can't do it: then none of them is stored, or it is not known, and the same keys may be sent again.
    pub async fn accept(&self, jobs: &[NewJob], republish_after: Duration) -> Result<Vec<Accepted>, StoreError> {
        let mut answers: Vec<Option<Accepted>> = vec![None; jobs.len()];
        for _ in 0..TRIES {
            let open: Vec<usize> = (0..jobs.len()).filter(|&i| answers[i].is_none()).collect();
            let created = self
                .insert(&open.iter().map(|&i| &jobs[i]).collect::<Vec<_>>(), republish_after)
                .await?;
            for &i in &open {
                answers[i] = created
                    .get(&jobs[i].id.as_uuid())
                    .map(|&created_at| Accepted::Created { created_at });
            }
            let known: Vec<usize> = open.into_iter().filter(|&i| answers[i].is_none()).collect();
            if !known.is_empty() {
                let found = self
                    .look_up(&known.iter().map(|&i| &jobs[i]).collect::<Vec<_>>())
                    .await?;
                for (i, row) in known.into_iter().zip(found) {
                    answers[i] = row.map(|(id, digest)| {
                        if digest == jobs[i].digest.as_bytes() {
                            Accepted::Replayed { id }
                        } else {
                            Accepted::Conflict { id }
                        }
                    });
                }
            }
            if answers.iter().all(Option::is_some) {
                break;
            }
        }
        // A row that was in the way each time and then gone: somebody else's transaction rolls back again and again.
        let answers: Option<Vec<_>> = answers.into_iter().collect();
        answers.ok_or(StoreError::Unavailable(sqlx::Error::WorkerCrashed))
    }

    /// One statement for job and first attempt: either both are there or none.
    ///
    /// Guard: `ON CONFLICT DO NOTHING` on `UNIQUE (owner_id, idempotency_key)`. Without it, two clicks that arrive together
    /// both pass a look-up that finds nothing, and two jobs run (B12). Sorted by key: two groups that hold the same
    /// keys in another order would wait for each other.
    async fn insert(
        &self,
        jobs: &[&NewJob],
        republish_after: Duration,
    ) -> Result<HashMap<Uuid, DateTime<Utc>>, StoreError> {
        let column = |value: fn(&NewJob) -> String| jobs.iter().map(|job| value(job)).collect::<Vec<_>>();
        let policies: Vec<_> = jobs.iter().map(|job| sqlx::types::Json(&job.policy)).collect();
        let deadlines: Vec<_> = jobs
            .iter()
            .map(|job| job.policy.deadline_ms.and_then(|ms| i64::try_from(ms).ok()))
            .collect();
        let rows = sqlx::query!(
            r#"WITH new AS (
                   INSERT INTO jobs (id, owner_id, idempotency_key, intent_digest, contract, provider, input, policy,
                                     traceparent, deadline)
                   SELECT id, owner, key, digest, contract, provider, input, policy, traceparent,
                          now() + deadline_ms * interval '1 millisecond'
                   FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[],
                               $8::jsonb[], $9::text[], $10::bigint[])
                        AS t(id, owner, key, digest, contract, provider, input, policy, traceparent, deadline_ms)
                   ORDER BY owner, key, id
                   ON CONFLICT (owner_id, idempotency_key) DO NOTHING
                   RETURNING id, owner_id, provider, created_at, deadline)
               INSERT INTO attempts (job_id, number, owner_id, provider, cause, job_version, look_at)
               SELECT id, 1, owner_id, provider, 'first', 1, least(now() + $11 * interval '1 millisecond', deadline)
               FROM new
               RETURNING job_id, created_at"#,
            &jobs.iter().map(|job| job.id.as_uuid()).collect::<Vec<_>>(),
            &column(|job| job.owner.to_string()),
            &column(|job| job.key.to_string()),
            &jobs
                .iter()
                .map(|job| job.digest.as_bytes().to_vec())
                .collect::<Vec<_>>(),
            &column(|job| job.contract.to_string()),
            &column(|job| job.provider.to_string()),
            &column(|job| job.input.clone()),
            &policies as _,
            &jobs.iter().map(|job| job.traceparent.clone()).collect::<Vec<_>>() as &[Option<String>],
            &deadlines as &[Option<i64>],
            republish_after.as_secs_f64() * 1000.0,
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|row| (row.job_id, row.created_at)).collect())
    }

    /// The job that holds an owner's key, with the digest of its intent.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn find_key(&self, owner: &OwnerId, key: &IdempotencyKey) -> Result<Option<(JobId, Digest)>, StoreError> {
        let row = sqlx::query!(
            "SELECT id, intent_digest FROM jobs WHERE owner_id = $1 AND idempotency_key = $2",
            owner.as_str(),
            key.as_str(),
        )
        .fetch_optional(self.pool())
        .await?;
        row.map(|row| {
            let digest: [u8; 32] = row
                .intent_digest
                .try_into()
                .map_err(|_| StoreError::Unreadable("an intent's digest".to_owned()))?;
            Ok((JobId::from_uuid(row.id), Digest::from(digest)))
        })
        .transpose()
    }

    /// The jobs that hold these keys: a second statement, since the first one's snapshot can't see them.
    async fn look_up(&self, jobs: &[&NewJob]) -> Result<Vec<Option<(JobId, Vec<u8>)>>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT t.place AS "place!", j.id, j.intent_digest
               FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS t(owner, key, place)
               JOIN jobs j ON j.owner_id = t.owner AND j.idempotency_key = t.key"#,
            &jobs.iter().map(|job| job.owner.to_string()).collect::<Vec<_>>(),
            &jobs.iter().map(|job| job.key.to_string()).collect::<Vec<_>>(),
        )
        .fetch_all(self.pool())
        .await?;
        let mut found = vec![None; jobs.len()];
        for row in rows {
            if let Some(place) = usize::try_from(row.place - 1)
                .ok()
                .and_then(|place| found.get_mut(place))
            {
                *place = Some((JobId::from_uuid(row.id), row.intent_digest));
            }
        }
        Ok(found)
    }
}

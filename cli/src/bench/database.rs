//! PostgreSQL's own limit: what accept, claim and settle cost as plain statements, one job at a time on each connection,
//! on the product's schema in a namespace of its own that is dropped afterwards.

use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use onejob_common::clock;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor as _};
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

const SCHEMA: &str = include_str!("../../../migrations/0001_jobs.sql");

const ACCEPT: &str = "WITH new AS (
        INSERT INTO jobs (id, owner_id, idempotency_key, intent_digest, contract, provider, input, policy)
        VALUES ($1, 'bench', $2, decode(repeat('00', 32), 'hex'), 'ticket-triage@1', 'primary',
                '{\"message\": \"I was charged twice for one order.\"}', '{\"max_attempts\": 3, \"fallback\": []}')
        ON CONFLICT (owner_id, idempotency_key) DO NOTHING RETURNING id)
    INSERT INTO attempts (job_id, number, owner_id, provider, cause, job_version, look_at)
    SELECT id, 1, 'bench', 'primary', 'first', 1, now() + interval '10 seconds' FROM new";
const CLAIM: &str = "UPDATE attempts SET state = 'starting', worker_id = $1, started_at = now(),
        look_at = now() + interval '60 seconds'
    WHERE job_id = $1 AND number = 1 AND state = 'queued'";
const SETTLE: &str = "WITH won AS (
        UPDATE jobs SET state = 'succeeded', version = version + 1, completed_by = 1, finished_at = now(),
            result = '{\"category\": \"billing\", \"urgency\": 4, \"summary\": \"Charged twice.\"}'
        WHERE id = $1 AND version = 1 AND completed_by IS NULL RETURNING id)
    UPDATE attempts SET state = 'succeeded', finished_at = now(), look_at = NULL, result_bytes = 64
    FROM won WHERE job_id = won.id AND number = 1";

/// Jobs a second.
pub async fn run(url: &str, jobs: u32, concurrency: u32) -> Result<f64> {
    let namespace = format!("onejob_bench_{}", std::process::id());
    let options = PgConnectOptions::from_str(url)?.application_name("onejob-bench");
    let admin = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(options.clone())
        .await?;
    admin
        .execute(AssertSqlSafe(format!("CREATE SCHEMA {namespace}")))
        .await
        .context("a schema for the bench")?;
    let measured = measure(
        options.options([("search_path", namespace.as_str())]),
        jobs,
        concurrency,
    )
    .await;
    admin
        .execute(AssertSqlSafe(format!("DROP SCHEMA {namespace} CASCADE")))
        .await?;
    measured
}

async fn measure(options: PgConnectOptions, jobs: u32, concurrency: u32) -> Result<f64> {
    let pool = PgPoolOptions::new()
        .max_connections(concurrency)
        .min_connections(concurrency)
        .connect_with(options)
        .await
        .context("PostgreSQL has not as many connections as --concurrency asks for; lower it")?;
    pool.execute(sqlx::raw_sql(SCHEMA))
        .await
        .context("the schema of the bench")?;
    let left = Arc::new(AtomicU32::new(jobs));
    let began = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..concurrency {
        let (pool, left) = (pool.clone(), Arc::clone(&left));
        workers.spawn(async move { work(&pool, &left).await });
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    let rate = f64::from(jobs) / began.elapsed().as_secs_f64();
    pool.close().await;
    Ok(rate)
}

async fn work(pool: &PgPool, left: &AtomicU32) -> Result<()> {
    let mut connection = pool.acquire().await?;
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        let id: Uuid = clock::new_job_id().as_uuid();
        sqlx::query(ACCEPT)
            .bind(id)
            .bind(id.to_string())
            .execute(&mut *connection)
            .await?;
        sqlx::query(CLAIM).bind(id).execute(&mut *connection).await?;
        sqlx::query(SETTLE).bind(id).execute(&mut *connection).await?;
    }
    Ok(())
}

//! The whole way: a client that sends a job and waits for its end, many at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use onejob_common::clock;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Args, Times};
use crate::client::Client;

/// How long one job may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What was measured.
pub struct Whole {
    /// Jobs a second, from the first request to the last end.
    pub rate: f64,
    /// From the request to its `201`, in seconds.
    pub accepted: Times,
    /// From the request to the job's end as the client sees it, in seconds.
    pub ended: Times,
    /// Jobs that did not succeed.
    pub failed: u32,
}

#[derive(Serialize)]
struct Body<'a> {
    contract: &'a str,
    provider: &'a str,
    input: &'a RawValue,
}

#[derive(Default)]
struct Measured {
    accepted: Vec<f64>,
    ended: Vec<f64>,
    failed: u32,
}

pub async fn run(args: &Args) -> Result<Whole> {
    let client = args.api.client()?;
    let input: Box<RawValue> = serde_json::from_str(&args.input).context("--input is not JSON")?;
    let (contract, provider) = (args.contract.as_str(), args.provider.as_str());
    let body = Body {
        contract,
        provider,
        input: &input,
    };
    let body: Arc<RawValue> = Arc::from(serde_json::value::to_raw_value(&body)?);
    let (run, left) = (clock::new_id(), Arc::new(AtomicU32::new(args.jobs)));
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for number in 0..args.concurrency {
        let (client, body, left) = (client.clone(), Arc::clone(&body), Arc::clone(&left));
        clients.spawn(async move {
            let mut measured = Measured::default();
            let mut turn = 0u32;
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
            {
                let key = format!("bench-{run}-{number}-{turn}");
                turn += 1;
                one(&client, &body, &key, &mut measured).await?;
            }
            Ok::<_, anyhow::Error>(measured)
        });
    }
    let mut all = Measured::default();
    while let Some(measured) = clients.join_next().await {
        let measured = measured??;
        all.accepted.extend(measured.accepted);
        all.ended.extend(measured.ended);
        all.failed += measured.failed;
    }
    Ok(Whole {
        rate: f64::from(args.jobs) / began.elapsed().as_secs_f64(),
        accepted: Times::new(all.accepted),
        ended: Times::new(all.ended),
        failed: all.failed,
    })
}

async fn one(client: &Client, body: &RawValue, key: &str, measured: &mut Measured) -> Result<()> {
    let began = Instant::now();
    let job = client.submit(&body, key).await?.success()?;
    measured.accepted.push(began.elapsed().as_secs_f64());
    let id = job["id"].as_str().context("an answer without an id")?;
    let job = client.wait(id, PATIENCE).await?;
    measured.ended.push(began.elapsed().as_secs_f64());
    if job["state"] != "succeeded" {
        measured.failed += 1;
    }
    Ok(())
}

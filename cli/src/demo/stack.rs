//! The stack that the story is played on.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::client::{Client, http};

/// How long a job of the story may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The first API process
    #[arg(long, env = "ONEJOB_URL", value_name = "URL")]
    api: String,
    /// The second one
    #[arg(long, env = "ONEJOB_URL_2", value_name = "URL")]
    api_2: String,
    /// A producer's key
    #[arg(long, env = "ONEJOB_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: String,
    /// An operator's key
    #[arg(long, env = "ONEJOB_OPERATOR_KEY", hide_env_values = true, value_name = "KEY")]
    operator_key: String,
    /// The simulator that plays the providers
    #[arg(long, env = "ONEJOB_SIMULATOR_URL", value_name = "URL")]
    simulator: String,
    /// Every process's admin address, comma separated
    #[arg(long, env = "ONEJOB_ADMIN_URLS", value_delimiter = ',', value_name = "URLS")]
    admin: Vec<String>,
}

pub struct Stack {
    /// The person's product, through the first and the second API process.
    pub first: Client,
    pub second: Client,
    pub operator: Client,
    http: reqwest::Client,
    simulator: String,
    admin: Vec<String>,
}

impl Stack {
    pub fn new(args: &Args) -> Result<Self> {
        Ok(Self {
            first: Client::new(&args.api, &args.api_key)?,
            second: Client::new(&args.api_2, &args.api_key)?,
            operator: Client::new(&args.api, &args.operator_key)?,
            http: http()?,
            simulator: args.simulator.trim_end_matches('/').to_owned(),
            admin: args.admin.clone(),
        })
    }

    /// Empties the simulator's log and script.
    pub async fn forget(&self) -> Result<()> {
        let request = self.http.delete(format!("{}/_sim", self.simulator));
        request
            .send()
            .await
            .context("the simulator does not answer")?
            .error_for_status()?;
        Ok(())
    }

    /// What the provider with this model does next.
    pub async fn script(&self, model: &str, behaviour: Value) -> Result<()> {
        let body = json!({"model": model, "behaviours": [behaviour]});
        let request = self.http.put(format!("{}/_sim/next", self.simulator)).json(&body);
        request
            .send()
            .await
            .context("the simulator does not answer")?
            .error_for_status()?;
        Ok(())
    }

    /// How many submissions the provider with this model has seen.
    pub async fn submissions(&self, model: &str) -> Result<usize> {
        let request = self.http.get(format!("{}/_sim/calls?model={model}", self.simulator));
        let calls: Value = request
            .send()
            .await
            .context("the simulator does not answer")?
            .json()
            .await?;
        Ok(calls.as_array().map_or(0, Vec::len))
    }

    /// The job, once it is closed or unknown.
    pub async fn ended(&self, id: &str) -> Result<Value> {
        self.first.wait(id, PATIENCE).await
    }

    /// The job, once `there` says so.
    pub async fn until(&self, id: &str, what: &str, there: impl Fn(&Value) -> bool) -> Result<Value> {
        let until = Instant::now() + PATIENCE;
        loop {
            let job = self.first.get(&format!("/v1/jobs/{id}")).await?;
            if there(&job) {
                return Ok(job);
            }
            ensure!(Instant::now() < until, "job {id} did not get to where {what}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The figures of races and unknowns, added up over all processes.
    pub async fn figures(&self) -> Result<Vec<String>> {
        const SHOWN: &[&str] = &[
            "onejob_race_losses_total",
            "onejob_lost_cost_total",
            "onejob_unknown_attempts",
            "onejob_unknown_resolved_total",
            "onejob_duplicates_suppressed_total",
        ];
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for url in &self.admin {
            let text = self.http.get(format!("{url}/metrics")).send().await?.text().await?;
            for line in text
                .lines()
                .filter(|line| SHOWN.iter().any(|name| line.starts_with(name)))
            {
                if let Some((series, value)) = line.rsplit_once(' ') {
                    *sums.entry(series.to_owned()).or_default() += value.parse::<f64>().unwrap_or_default();
                }
            }
        }
        let moved = sums
            .iter()
            .filter(|(series, value)| **value != 0.0 || series.starts_with("onejob_unknown_attempts"));
        Ok(moved.map(|(series, value)| format!("{series} {value}")).collect())
    }
}

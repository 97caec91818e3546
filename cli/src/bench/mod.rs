//! `onejob bench`: jobs through API, broker, worker and simulator, against PostgreSQL's own limit in the same run.

mod database;
mod http;

use anyhow::Result;
use serde_json::json;

use crate::Database;
use crate::client::Api;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    api: Api,
    #[command(flatten)]
    database: Database,
    /// How many jobs
    #[arg(long, default_value_t = 5_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    jobs: u32,
    /// How many at the same time
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2_000))]
    concurrency: u32,
    /// The contract
    #[arg(long, default_value = "ticket-triage@1", value_name = "NAME@VERSION")]
    contract: String,
    /// The provider
    #[arg(long, default_value = "primary", value_name = "NAME")]
    provider: String,
    /// The input of each job
    #[arg(
        long,
        default_value = r#"{"message": "I was charged twice for one order."}"#,
        value_name = "JSON"
    )]
    input: String,
    /// Print the figures as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Times of many operations.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn new(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self(seconds)
    }

    /// The time that `share` of them stay under, in milliseconds.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in a list"
    )]
    fn quantile(&self, share: f64) -> f64 {
        let place = ((self.0.len() as f64 * share).ceil() as usize).clamp(1, self.0.len().max(1)) - 1;
        self.0.get(place).copied().unwrap_or_default() * 1000.0
    }
}

pub async fn run(args: Args) -> Result<()> {
    let say = |text: &str| {
        if !args.json {
            println!("{text}");
        }
    };
    let (jobs, concurrency) = (args.jobs, args.concurrency);
    say(&format!(
        "1/2  {jobs} jobs through API, broker, worker and simulator, {concurrency} at a time"
    ));
    let whole = http::run(&args).await?;
    say(&format!(
        "     {:.0} jobs/s; accepted in p50 {:.1} ms, p99 {:.1} ms; ended after p50 {:.1} ms, p99 {:.1} ms; {} failed",
        whole.rate,
        whole.accepted.quantile(0.5),
        whole.accepted.quantile(0.99),
        whole.ended.quantile(0.5),
        whole.ended.quantile(0.99),
        whole.failed,
    ));
    say(&format!(
        "2/2  the same on PostgreSQL alone: accept, claim and settle as plain statements, {concurrency} at a time"
    ));
    let limit = database::run(&args.database.database_url, jobs, concurrency).await?;
    let share = whole.rate / limit * 100.0;
    say(&format!("     {limit:.0} jobs/s; OneJob reaches {share:.0} % of it"));
    if args.json {
        let figures = json!({
            "jobs": jobs, "concurrency": concurrency, "jobs_per_second": whole.rate, "failed": whole.failed,
            "accept_ms": {"p50": whole.accepted.quantile(0.5), "p99": whole.accepted.quantile(0.99)},
            "end_ms": {"p50": whole.ended.quantile(0.5), "p99": whole.ended.quantile(0.99)},
            "postgresql_jobs_per_second": limit, "share_percent": share,
        });
        println!("{figures}");
    }
    Ok(())
}

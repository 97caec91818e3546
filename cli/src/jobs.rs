//! Commands about jobs and what belongs to them.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use onejob_common::clock;
use reqwest::Method;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::client::{Api, Client, OperatorApi, ended};
use crate::timeline;

#[derive(Debug, Args)]
pub struct Submit {
    #[command(flatten)]
    api: Api,
    /// The contract, such as ticket-triage@1
    #[arg(long, value_name = "NAME@VERSION")]
    contract: String,
    /// The provider to ask first
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// The input as JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    input: String,
    /// The policy as JSON: {"max_attempts", "timeout_ms", "deadline_ms", "fallback", "hedge_after_ms"}
    #[arg(long, value_name = "JSON")]
    policy: Option<String>,
    /// The idempotency key [default: a new one, which is shown]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Wait until it is closed or unknown, for up to a minute
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    api: Api,
    /// The job's id
    id: String,
}

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    api: Api,
    /// queued, running, unknown, succeeded, failed or cancelled
    #[arg(long)]
    state: Option<String>,
    /// Of this contract
    #[arg(long)]
    contract: Option<String>,
    /// How many, 1 to 100
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Print the API's JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct NewAttempt {
    #[command(flatten)]
    api: Api,
    /// The job's id
    id: String,
    /// On another provider; it needs a certificate
    #[arg(long)]
    provider: Option<String>,
    /// Beside one that runs
    #[arg(long)]
    hedge: bool,
}

#[derive(Debug, Args)]
pub struct Cancel {
    #[command(flatten)]
    api: Api,
    /// The job's id
    id: String,
}

#[derive(Debug, Args)]
pub struct Unknowns {
    #[command(flatten)]
    api: OperatorApi,
    /// Print the API's JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct Resolve {
    #[command(flatten)]
    api: OperatorApi,
    /// The attempt's id: the job's id, a dot, and the attempt's number
    attempt: String,
    /// not_executed (it never ran), cancelled (it was stopped), succeeded (it ran; then --result)
    #[arg(long, value_name = "OUTCOME")]
    outcome: String,
    /// How you know; it is kept with your name
    #[arg(long, value_name = "TEXT")]
    note: String,
    /// The result that it had, as JSON or @FILE; it is held to the contract
    #[arg(long, value_name = "JSON|@FILE")]
    result: Option<String>,
}

#[derive(Debug, Args)]
pub struct Names {
    #[command(flatten)]
    api: Api,
    /// Print the API's JSON
    #[arg(long)]
    json: bool,
}

/// JSON of the command line, or of the file that it names: sent as it is written, numbers too.
fn value(text: &str, what: &str) -> Result<Box<RawValue>> {
    let text = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("{what}: cannot read {file}"))?,
    };
    serde_json::from_str(&text).with_context(|| format!("{what} is not JSON"))
}

#[derive(Serialize)]
struct Body<'a> {
    contract: &'a str,
    provider: &'a str,
    input: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Resolution<'a> {
    outcome: &'a str,
    note: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

fn show(job: &Value) {
    print!("{}", timeline::of(job));
    if !job["result"].is_null() {
        println!("  result {}", job["result"]);
    }
    if let Some(detail) = job["error"]["detail"].as_str() {
        println!("  error  {detail}");
    }
}

pub async fn submit(args: Submit) -> Result<()> {
    let client = args.api.client()?;
    let key = args.key.unwrap_or_else(|| clock::new_id().to_string());
    let body = Body {
        contract: &args.contract,
        provider: &args.provider,
        input: value(&args.input, "--input")?,
        policy: args
            .policy
            .as_deref()
            .map(|policy| value(policy, "--policy"))
            .transpose()?,
    };
    eprintln!("Idempotency-Key: {key}");
    let answer = client.submit(&body, &key).await?;
    if answer.replayed {
        eprintln!("The job was there already.");
    }
    let mut job = answer.success()?;
    if args.wait && !ended(&job) {
        job = client
            .wait(job["id"].as_str().unwrap_or_default(), Duration::from_secs(60))
            .await?;
    }
    show(&job);
    Ok(())
}

pub async fn watch(args: Watch) -> Result<()> {
    let client = args.api.client()?;
    let mut shown = String::new();
    loop {
        let job = client.get(&format!("/v1/jobs/{}", args.id)).await?;
        let now = timeline::of(&job);
        if now != shown {
            print!("{now}");
            shown = now;
        }
        if ended(&job) {
            show_end(&job);
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn show_end(job: &Value) {
    match job["state"].as_str() {
        Some("unknown") => {
            println!("  Its outcome is not known. An operator settles it: onejob resolve ATTEMPT --outcome … --note …")
        }
        Some("succeeded") => println!("  result {}", job["result"]),
        Some(_) | None => println!("  {}", job["error"]["detail"].as_str().unwrap_or("no result")),
    }
}

pub async fn list(args: List) -> Result<()> {
    let mut path = format!("/v1/jobs?limit={}", args.limit);
    for (name, value) in [("state", &args.state), ("contract", &args.contract)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", value.replace('@', "%40")));
        }
    }
    let page = args.api.client()?.get(&path).await?;
    if args.json {
        println!("{page}");
        return Ok(());
    }
    println!(
        "{:<36}  {:<9}  {:<20}  {:<12}  attempts",
        "id", "state", "contract", "provider"
    );
    for job in page["items"].as_array().into_iter().flatten() {
        let word = |name: &str| job[name].as_str().unwrap_or("-").to_owned();
        println!(
            "{:<36}  {:<9}  {:<20}  {:<12}  {}",
            word("id"),
            word("state"),
            word("contract"),
            word("provider"),
            job["attempts"].as_array().map_or(0, Vec::len),
        );
    }
    if !page["next_cursor"].is_null() {
        println!("There are more; raise --limit, or page through GET /v1/jobs with its cursor.");
    }
    Ok(())
}

pub async fn attempt(args: NewAttempt) -> Result<()> {
    let mut body = json!({ "hedge": args.hedge });
    if let Some(provider) = args.provider {
        body["provider"] = json!(provider);
    }
    let client = args.api.client()?;
    show(
        &client
            .post(&format!("/v1/jobs/{}/attempts", args.id), &body)
            .await?
            .success()?,
    );
    Ok(())
}

pub async fn cancel(args: Cancel) -> Result<()> {
    let client: Client = args.api.client()?;
    show(
        &client
            .ask::<Value>(Method::POST, &format!("/v1/jobs/{}/cancel", args.id), None, None)
            .await?
            .success()?,
    );
    Ok(())
}

pub async fn unknowns(args: Unknowns) -> Result<()> {
    let page = args.api.client()?.get("/v1/unknowns?limit=100").await?;
    if args.json {
        println!("{page}");
        return Ok(());
    }
    let items = page["items"].as_array().cloned().unwrap_or_default();
    if items.is_empty() {
        println!("Nothing is unknown.");
        return Ok(());
    }
    for item in items {
        let word = |name: &str| item[name].as_str().unwrap_or("-").to_owned();
        println!(
            "{}  {}  {}  since {}",
            word("attempt_id"),
            word("owner"),
            word("provider"),
            word("since")
        );
        println!("    {}", word("reason"));
    }
    if !page["next_cursor"].is_null() {
        println!("There are more than 100; page through GET /v1/unknowns with its cursor.");
    }
    Ok(())
}

pub async fn resolve(args: Resolve) -> Result<()> {
    let result = args
        .result
        .as_deref()
        .map(|result| value(result, "--result"))
        .transpose()?;
    let (outcome, note) = (&args.outcome, &args.note);
    let body = Resolution { outcome, note, result };
    if args.attempt.contains('/') {
        bail!(
            "{:?} is not an attempt's id: a job's id, a dot, and a number",
            args.attempt
        );
    }
    let path = format!("/v1/attempts/{}/resolution", args.attempt);
    show(&args.api.client()?.post(&path, &body).await?.success()?);
    Ok(())
}

/// A list of names with what they are certified for.
pub async fn names(args: Names, path: &str, certified: &str) -> Result<()> {
    let page = args.api.client()?.get(path).await?;
    if args.json {
        println!("{page}");
        return Ok(());
    }
    for item in page["items"].as_array().into_iter().flatten() {
        let listed: Vec<&str> = item[certified]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let listed = if listed.is_empty() {
            "none".to_owned()
        } else {
            listed.join(", ")
        };
        println!(
            "{:<20}  {}: {listed}",
            item["name"].as_str().unwrap_or("-"),
            certified.replace('_', " ")
        );
    }
    Ok(())
}

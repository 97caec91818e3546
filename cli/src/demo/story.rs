//! The scenes.

use std::future::Future;
use std::pin::Pin;

use anyhow::{Context, Result, ensure};
use onejob_common::clock;
use serde_json::{Value, json};

use super::stack::Stack;
use crate::client::Answer;
use crate::timeline;

pub type Scene = for<'a> fn(&'a Stack) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

const PRIMARY: &str = "sim-primary";
const BACKUP: &str = "sim-backup";

fn intent(message: &str, policy: Value) -> Value {
    json!({"contract": "ticket-triage@1", "provider": "primary", "input": {"message": message}, "policy": policy})
}

fn key() -> String {
    format!("demo-{}", clock::new_id())
}

fn id_of(answer: &Answer) -> Result<String> {
    Ok(answer.json["id"]
        .as_str()
        .with_context(|| format!("an answer without a job: {}", answer.text))?
        .to_owned())
}

fn show(job: &Value) {
    print!("{}", timeline::of(job));
}

pub async fn double_click(stack: &Stack) -> Result<()> {
    stack.forget().await?;
    println!("   Two clicks at the same moment, over two API processes, with the key of one intent.");
    let (key, body) = (key(), intent("I was charged twice for one order.", json!({})));
    let (one, other) = tokio::join!(stack.first.submit(&body, &key), stack.second.submit(&body, &key));
    let (one, other) = (one?, other?);
    println!(
        "   Answers: {} and {}, both about job {}.",
        one.status.as_u16(),
        other.status.as_u16(),
        id_of(&one)?
    );
    let mut statuses = [one.status.as_u16(), other.status.as_u16()];
    statuses.sort_unstable();
    ensure!(
        statuses == [200, 201],
        "one click should create the job and one repeat it"
    );
    ensure!(id_of(&one)? == id_of(&other)?, "two jobs for one intent");
    let job = stack.ended(&id_of(&one)?).await?;
    show(&job);
    let submissions = stack.submissions(PRIMARY).await?;
    println!("   The provider saw {submissions} submission: one bill.");
    ensure!(
        submissions == 1 && job["state"] == "succeeded",
        "one submission and one result"
    );
    Ok(())
}

pub async fn other_input(stack: &Stack) -> Result<()> {
    stack.forget().await?;
    let key = key();
    let first = stack
        .first
        .submit(&intent("Where is my invoice?", json!({})), &key)
        .await?;
    let job = stack.ended(&id_of(&first)?).await?;
    show(&job);
    println!("   Now the same key with another text. Elsewhere it would get the first one's answer.");
    let second = stack
        .second
        .submit(&intent("Close my account.", json!({})), &key)
        .await?;
    println!(
        "   Answer: {} {}",
        second.status.as_u16(),
        second.json["detail"].as_str().unwrap_or_default()
    );
    ensure!(
        second.status.as_u16() == 409 && second.problem() == "idempotency-key-reused",
        "a conflict"
    );
    ensure!(
        stack.submissions(PRIMARY).await? == 1,
        "the second text was sent to the provider"
    );
    Ok(())
}

pub async fn silence(stack: &Stack) -> Result<()> {
    stack.forget().await?;
    stack.script(PRIMARY, json!({"hang": true})).await?;
    println!("   The provider takes the request and says nothing. (Ten seconds of silence, shortened to two.)");
    let policy = json!({"timeout_ms": 2000, "max_attempts": 2, "fallback": ["backup"]});
    let sent = stack
        .first
        .submit(&intent("My card was charged, the order is gone.", policy), &key())
        .await?;
    let id = id_of(&sent)?;
    let job = stack.ended(&id).await?;
    show(&job);
    ensure!(job["state"] == "unknown", "silence is unknown, not failed");
    println!("   It may still be running, and it may be billed. The person clicks the fallback button:");
    let button = stack
        .first
        .post(&format!("/v1/jobs/{id}/attempts"), &json!({"provider": "backup"}))
        .await?;
    println!(
        "   Answer: {} {}",
        button.status.as_u16(),
        button.json["detail"].as_str().unwrap_or_default()
    );
    ensure!(
        button.problem() == "attempt-unsettled",
        "the fallback is refused while the first try is unknown"
    );
    ensure!(stack.submissions(BACKUP).await? == 0, "the fallback was called");
    println!("   An operator looks into the provider's dashboard and gives their word: it was never executed.");
    let word = json!({"outcome": "not_executed", "note": "demo: the provider's dashboard shows no such request"});
    stack
        .operator
        .post(&format!("/v1/attempts/{id}.1/resolution"), &word)
        .await?
        .success()?;
    let job = stack.ended(&id).await?;
    show(&job);
    ensure!(
        job["state"] == "succeeded" && job["attempts"][1]["cause"] == "fallback",
        "the certified fallback brings the result"
    );
    println!("   Only now, and only because backup holds a certificate for this contract, the fallback ran.");
    Ok(())
}

pub async fn reverse_order(stack: &Stack) -> Result<()> {
    stack.forget().await?;
    stack.script(PRIMARY, json!({"delay_ms": 3000})).await?;
    stack.script(BACKUP, json!({"delay_ms": 200})).await?;
    println!("   The primary is slow; a hedge starts on the certified backup and finishes first.");
    let sent = stack
        .first
        .submit(&intent("The app logs me out all the time.", json!({})), &key())
        .await?;
    let id = id_of(&sent)?;
    stack
        .until(&id, "its first attempt runs", |job| {
            job["attempts"][0]["state"] == "running"
        })
        .await?;
    let hedge = json!({"provider": "backup", "hedge": true});
    stack
        .first
        .post(&format!("/v1/jobs/{id}/attempts"), &hedge)
        .await?
        .success()?;
    let won = stack.ended(&id).await?;
    let settled = stack
        .until(&id, "its first attempt is settled", |job| {
            !["starting", "running"].contains(&job["attempts"][0]["state"].as_str().unwrap_or_default())
        })
        .await?;
    show(&settled);
    ensure!(won["completed_by"] == format!("{id}.2"), "who finishes first wins");
    ensure!(settled["attempts"][0]["state"] == "lost", "the late primary is lost");
    ensure!(settled["result"] == won["result"], "the result is written once");
    println!("   The late payload was dropped; its usage and cost stay on the attempt, and the loss is counted.");
    Ok(())
}

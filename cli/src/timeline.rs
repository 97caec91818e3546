//! Jobs as people read them: one line an attempt, with its times counted from the job's creation.

use chrono::{DateTime, Utc};
use serde_json::Value;

/// A job with its attempts.
pub fn of(job: &Value) -> String {
    let mut text = String::new();
    let kind = job["error"]["kind"]
        .as_str()
        .map_or(String::new(), |kind| format!(" ({kind})"));
    text.push_str(&format!("  job {}  {}{kind}\n", word(&job["id"]), word(&job["state"])));
    let began = time(&job["created_at"]);
    for attempt in job["attempts"].as_array().into_iter().flatten() {
        let kind = attempt["failure"]["kind"]
            .as_str()
            .map_or(String::new(), |kind| format!(" ({kind})"));
        let winner = if attempt["id"] == job["completed_by"] {
            "  <- the result"
        } else {
            ""
        };
        text.push_str(&format!(
            "    {:>2}  {:<8}  {:<10}  {:<24}  {}{winner}\n",
            attempt["number"],
            word(&attempt["cause"]),
            word(&attempt["provider"]),
            format!("{}{kind}", word(&attempt["state"])),
            steps(attempt, began),
        ));
    }
    text
}

fn steps(attempt: &Value, began: Option<DateTime<Utc>>) -> String {
    let step = |name: &str, field: &str| {
        let at = time(&attempt[field])?;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a job's life")]
        let seconds = (at - began?).num_milliseconds() as f64 / 1000.0;
        Some(format!("{name} +{seconds:.3} s"))
    };
    [
        step("queued", "created_at"),
        step("started", "started_at"),
        step("first sign", "acknowledged_at"),
        step("ended", "finished_at"),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

fn time(value: &Value) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(value.as_str()?)
        .ok()
        .map(|at| at.with_timezone(&Utc))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

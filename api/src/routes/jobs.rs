//! Reading jobs, and what a client may do with one: another attempt, a cancel.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use onejob_common::domain::intent::Fields;
use onejob_common::domain::{ContractName, Event, IdempotencyKey, JobId, ProviderName, PublicState};
use onejob_common::store::job::{Facts, JobFilter, JobRecord};
use serde::Deserialize;
use tokio::time::Instant;

use super::submit::must_exist;
use super::{LONGEST_WAIT, json};
use crate::App;
use crate::auth::Caller;
use crate::body::JsonBody;
use crate::problem::Problem;
use crate::query::{self, Nothing, Strict};
use crate::view::{JobView, Page};

/// A job's id of a path; anything else names no job.
fn job_id(text: &str) -> Result<JobId, Problem> {
    text.parse().map_err(|_| Problem::not_found("job"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Waiting {
    wait: Option<String>,
}

pub(super) async fn read(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Strict(Waiting { wait }): Strict<Waiting>,
) -> Result<Response, Problem> {
    let id = job_id(&id)?;
    let wait = match wait.as_deref() {
        None => Duration::ZERO,
        Some(text) => query::digits(text)
            .map(|seconds| Duration::from_secs(seconds).min(LONGEST_WAIT))
            .ok_or_else(|| Problem::query("wait must be a whole number of seconds; more than 60 counts as 60."))?,
    };
    let job = waited(&app, &caller, id, wait).await?;
    json(StatusCode::OK, &JobView::of(job)?)
}

/// The job, once it is closed or unknown, or `wait` is over.
async fn waited(app: &App, caller: &Caller, id: JobId, wait: Duration) -> Result<JobRecord, Problem> {
    let until = Instant::now() + wait;
    let waiter = if wait.is_zero() {
        None
    } else {
        app.waiters.join(id, app.config.api.max_waiters)
    };
    loop {
        // Told about everything that happens from here on, so nothing falls between the look and the wait.
        let notified = waiter.as_ref().map(|waiter| {
            let mut notified = Box::pin(waiter.notify.notified());
            notified.as_mut().enable();
            notified
        });
        let job = app
            .store
            .job(id, caller.sees())
            .await?
            .ok_or_else(|| Problem::not_found("job"))?;
        let worth_it = match job.public_state() {
            PublicState::Queued | PublicState::Running => false,
            PublicState::Unknown | PublicState::Succeeded | PublicState::Failed | PublicState::Cancelled => true,
        };
        let Some(notified) = notified.filter(|_| !worth_it && Instant::now() < until) else {
            return Ok(job);
        };
        tokio::select! {
            () = notified => {}
            () = tokio::time::sleep_until(until) => {}
            () = app.waiters.stop.cancelled() => return Ok(job),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    state: Option<String>,
    contract: Option<String>,
    idempotency_key: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Strict(filter): Strict<Filter>,
) -> Result<Response, Problem> {
    let filter = JobFilter {
        owner: caller.sees().cloned(),
        state: query::parse::<PublicState>("state", filter.state.as_deref())?,
        contract: query::parse::<ContractName>("contract", filter.contract.as_deref())?,
        key: query::parse::<IdempotencyKey>("idempotency_key", filter.idempotency_key.as_deref())?,
        before: query::parse::<JobId>("cursor", filter.cursor.as_deref())?,
        limit: query::limit(filter.limit.as_deref())?,
    };
    let page = app.store.jobs(&filter).await?;
    let items = page.jobs.into_iter().map(JobView::of).collect::<Result<Vec<_>, _>>()?;
    let next_cursor = page.next.map(|id| id.to_string());
    json(StatusCode::OK, &Page { items, next_cursor })
}

pub(super) async fn attempt(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Strict(Nothing {}): Strict<Nothing>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let id = job_id(&id)?;
    let mut fields = Fields::parse_optional(&body, app.config.api.max_depth)?;
    let provider = fields.take_str("provider")?;
    let hedge = fields.take_bool("hedge")?.unwrap_or(false);
    fields.finish()?;
    let provider = match provider {
        None => None,
        Some(name) => {
            let name: ProviderName = name
                .parse()
                .map_err(|error| Problem::provider_unknown(format!("There is no such provider: {error}.")))?;
            must_exist(&app, &name)?;
            Some(name)
        }
    };
    let view = app
        .act(&caller, id, Event::NewAttempt { provider, hedge }, Facts::default())
        .await?;
    let mut response = json(StatusCode::CREATED, &view)?;
    let location = HeaderValue::from_str(&format!("/v1/jobs/{id}")).map_err(|_| Problem::internal())?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Strict(Nothing {}): Strict<Nothing>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let id = job_id(&id)?;
    Fields::parse_optional(&body, app.config.api.max_depth)?.finish()?;
    let view = app.act(&caller, id, Event::CancelRequested, Facts::default()).await?;
    json(StatusCode::ACCEPTED, &view)
}

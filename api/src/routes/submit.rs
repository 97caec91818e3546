//! `POST /v1/jobs`: one intent becomes one job, however often it is sent.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use onejob_common::clock;
use onejob_common::contract::BLOCKING_ABOVE;
use onejob_common::domain::intent::{Digest, Intent};
use onejob_common::domain::{AttemptNumber, AttemptState, Cause, IdempotencyKey, JobId, JobState, ProviderName};
use onejob_common::store::job::{Accepted, AttemptRecord, JobRecord, NewJob};
use onejob_common::telemetry::metrics;

use super::json;
use crate::App;
use crate::auth::Caller;
use crate::body::JsonBody;
use crate::key;
use crate::problem::Problem;
use crate::query::{Nothing, Strict};
use crate::view::JobView;

pub(super) async fn submit(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Strict(Nothing {}): Strict<Nothing>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let key = key::of(&headers)?;
    let intent = parse(body, app.config.api.max_depth).await?;
    let digest = intent.digest();
    if let Err(problem) = check(&app, &intent).await {
        // What was accepted once is answered as it was then, whatever the configuration has become.
        return match app.store.find_key(&caller.owner, &key).await? {
            Some((id, stored)) if stored == digest => replayed(&app, &caller, &intent, id).await,
            Some((id, _)) => Err(conflict(&intent, id)),
            None => Err(problem),
        };
    }
    let job = new_job(&caller, key, digest, intent.clone(), &headers);
    let accepted =
        app.accepter.accept(job.clone()).await.map_err(|_stopped| {
            Problem::unavailable("The process is stopping. Repeat the request with the same key.")
        })??;
    match accepted {
        Accepted::Created { created_at } => {
            let id = job.id;
            let view = JobView::of(created(job, created_at))?;
            let mut response = json(StatusCode::CREATED, &view)?;
            response.headers_mut().insert(header::LOCATION, location(id)?);
            Ok(response)
        }
        Accepted::Replayed { id } => replayed(&app, &caller, &intent, id).await,
        Accepted::Conflict { id } => Err(conflict(&intent, id)),
    }
}

/// Reads the body; a large one where it holds nobody up.
async fn parse(body: axum::body::Bytes, depth: usize) -> Result<Intent, Problem> {
    if body.len() <= BLOCKING_ABOVE {
        return Ok(Intent::parse(&body, depth)?);
    }
    match tokio::task::spawn_blocking(move || Intent::parse(&body, depth)).await {
        Ok(intent) => Ok(intent?),
        Err(error) => {
            tracing::error!(%error, "reading a body broke down");
            Err(Problem::internal())
        }
    }
}

/// What depends on the configuration: contract, provider, input, fallbacks, in this order.
async fn check(app: &App, intent: &Intent) -> Result<(), Problem> {
    let Some(contract) = app.contracts.get(&intent.contract) else {
        let known: Vec<String> = app
            .contracts
            .iter()
            .map(|contract| contract.name().to_string())
            .collect();
        let detail = format!(
            "There is no contract {}; known are: {}.",
            intent.contract,
            known.join(", ")
        );
        return Err(Problem::contract_unknown(detail));
    };
    must_exist(app, &intent.provider)?;
    contract.check_input(intent.input.value()).map_err(|error| {
        let detail = error.to_string();
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "input-invalid",
            "The input breaks the contract",
            detail,
        )
    })?;
    for fallback in &intent.policy.fallback {
        must_exist(app, fallback)?;
    }
    if !intent.policy.fallback.is_empty() {
        let certified = app.store.certified(&app.gate, &intent.contract).await?;
        if let Some(refused) = intent
            .policy
            .fallback
            .iter()
            .find(|provider| !certified.contains(*provider))
        {
            metrics::failover_blocked(refused, &intent.contract);
            return Err(Problem::not_certified(refused.as_str(), intent.contract.as_str()));
        }
    }
    Ok(())
}

/// # Errors
///
/// `422 provider-unknown`, if no worker of this version could call it.
pub(super) fn must_exist(app: &App, provider: &ProviderName) -> Result<(), Problem> {
    match app.config.provider(provider) {
        Some(config) if config.adapter.is_built() => Ok(()),
        Some(_) => Err(Problem::provider_unknown(format!(
            "{provider} is configured, but the adapter for its protocol is not built yet. Name another provider."
        ))),
        None => {
            let known: Vec<&str> = app.config.providers.keys().map(ProviderName::as_str).collect();
            let detail = format!("There is no provider {provider}; known are: {}.", known.join(", "));
            Err(Problem::provider_unknown(detail))
        }
    }
}

fn new_job(caller: &Caller, key: IdempotencyKey, digest: Digest, intent: Intent, headers: &HeaderMap) -> NewJob {
    NewJob {
        id: clock::new_job_id(),
        owner: caller.owner.clone(),
        key,
        digest,
        contract: intent.contract,
        provider: intent.provider,
        input: intent.input.as_str().to_owned(),
        policy: intent.policy,
        traceparent: traceparent(headers),
    }
}

/// A job that was stored a moment ago, without reading it again.
fn created(job: NewJob, created_at: chrono::DateTime<chrono::Utc>) -> JobRecord {
    let deadline = job.policy.deadline_ms.and_then(|ms| i64::try_from(ms).ok());
    JobRecord {
        id: job.id,
        owner: job.owner,
        key: job.key,
        contract: job.contract,
        provider: job.provider.clone(),
        input: job.input,
        policy: job.policy,
        state: JobState::Open,
        version: 1,
        completed_by: None,
        result: None,
        error: None,
        deadline: deadline.map(|ms| created_at + chrono::Duration::milliseconds(ms)),
        created_at,
        finished_at: None,
        attempts: vec![AttemptRecord {
            number: AttemptNumber::FIRST,
            provider: job.provider,
            cause: Cause::First,
            state: AttemptState::Queued,
            failure: None,
            usage: None,
            cost: None,
            created_at,
            started_at: None,
            acknowledged_at: None,
            finished_at: None,
        }],
    }
}

async fn replayed(app: &App, caller: &Caller, intent: &Intent, id: JobId) -> Result<Response, Problem> {
    metrics::job_accepted(&intent.contract, metrics::AcceptOutcome::Replayed);
    metrics::duplicate_suppressed(metrics::Layer::Api);
    tracing::info!(job_id = %id, owner = %caller.owner, "a repeat: the job was there already");
    let record = app.store.job(id, Some(&caller.owner)).await?;
    let view = JobView::of(record.ok_or_else(|| Problem::not_found("job"))?)?;
    let mut response = json(StatusCode::OK, &view)?;
    let headers = response.headers_mut();
    headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    headers.insert(header::LOCATION, location(id)?);
    Ok(response)
}

fn conflict(intent: &Intent, id: JobId) -> Problem {
    metrics::job_accepted(&intent.contract, metrics::AcceptOutcome::Conflict);
    tracing::info!(job_id = %id, "a conflict: another intent holds the key");
    Problem::new(
        StatusCode::CONFLICT,
        "idempotency-key-reused",
        "The key holds another intent",
        format!(
            "This key was used for another intent, which is job {id}. For the same intent on another provider, start a \
             new attempt of that job (POST /v1/jobs/{id}/attempts). For a new intent, use a new key."
        ),
    )
    .with("job_id", id.to_string())
}

fn location(id: JobId) -> Result<HeaderValue, Problem> {
    HeaderValue::from_str(&format!("/v1/jobs/{id}")).map_err(|_| Problem::internal())
}

/// The W3C trace that the client began, if it is one. A broken header is no reason to refuse a job.
fn traceparent(headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all("traceparent").iter();
    let text = lines.next()?.to_str().ok()?;
    if lines.next().is_some() || text.len() < 55 {
        return None;
    }
    let (head, rest) = text.split_at_checked(55)?;
    let parts: Vec<&str> = head.split('-').collect();
    let [version, trace, span, flags] = parts.as_slice() else {
        return None;
    };
    let hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let nothing = |text: &str| text.bytes().all(|b| b == b'0');
    let whole = hex(version, 2) && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    let later = *version != "00" && rest.starts_with('-');
    if !whole || *version == "ff" || nothing(trace) || nothing(span) || !(rest.is_empty() || later) {
        return None;
    }
    Some(format!("00-{trace}-{span}-{flags}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", HeaderValue::from_str(text).unwrap());
        traceparent(&headers)
    }

    #[test]
    fn a_trace_is_taken_over_and_a_broken_one_is_left() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(read(good).as_deref(), Some(good));
        assert_eq!(read(&format!("01{}-more", &good[2..])).as_deref(), Some(good));
        for bad in [
            "",
            "00",
            &format!("{good}-more"),
            &format!("ff{}", &good[2..]),
            &good.to_uppercase(),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}

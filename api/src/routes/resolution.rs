//! `POST /v1/attempts/{id}/resolution`: an operator says what became of an unknown attempt.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use onejob_common::domain::intent::{Fields, Json};
use onejob_common::domain::{AttemptId, Event, Resolution};
use onejob_common::store::job::Facts;

use super::json;
use crate::App;
use crate::auth::Caller;
use crate::body::JsonBody;
use crate::problem::Problem;
use crate::query::{Nothing, Strict};

pub(super) async fn resolve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Strict(Nothing {}): Strict<Nothing>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    caller.must_be_operator()?;
    let id: AttemptId = id.parse().map_err(|_| Problem::not_found("attempt"))?;
    let mut fields = Fields::parse(&body, app.config.api.max_depth)?;
    let outcome = fields.take_str("outcome")?;
    let result = fields.take_raw("result");
    let note = fields.take_str("note")?;
    fields.finish()?;
    let resolution = match outcome.as_deref() {
        Some("not_executed") => Resolution::NotExecuted,
        Some("cancelled") => Resolution::Cancelled,
        Some("succeeded") => Resolution::Succeeded,
        Some(_) => return Err(Problem::body("outcome must be not_executed, cancelled or succeeded.")),
        None => {
            return Err(Problem::body(
                "outcome is missing: not_executed, cancelled or succeeded.",
            ));
        }
    };
    let note = note.filter(|note| !note.trim().is_empty()).ok_or_else(|| {
        Problem::body(
            "note is missing: say how you know, for whoever reads this later (\"dashboard shows no request\").",
        )
    })?;
    let result = match (resolution, result) {
        (Resolution::Succeeded, Some(result)) => Some(checked(&app, id, result.text).await?),
        (Resolution::Succeeded, None) => {
            return Err(Problem::body(
                "result is missing: an attempt that succeeded needs the result that it had.",
            ));
        }
        (Resolution::NotExecuted | Resolution::Cancelled, None) => None,
        (Resolution::NotExecuted | Resolution::Cancelled, Some(_)) => {
            return Err(Problem::body(
                "result is only for the outcome succeeded: leave it out, or correct the outcome.",
            ));
        }
    };
    let event = Event::Resolved {
        number: id.number,
        resolution,
    };
    let facts = Facts {
        detail: Some(note),
        result,
        ..Facts::default()
    };
    let view = app.act(&caller, id.job, event, facts).await?;
    json(StatusCode::OK, &view)
}

/// The result, held to the contract like a provider's answer.
async fn checked(app: &App, id: AttemptId, text: String) -> Result<Bytes, Problem> {
    let invalid = |detail: String| {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "result-invalid",
            "The result breaks the contract",
            detail,
        )
    };
    let job = app
        .store
        .job(id.job, None)
        .await?
        .ok_or_else(|| Problem::not_found("attempt"))?;
    let contract = app.contracts.get(&job.contract).cloned().ok_or_else(|| {
        invalid(format!(
            "The contract {} is not configured here, so the result can't be checked.",
            job.contract
        ))
    })?;
    let work = tokio::task::spawn_blocking(move || {
        let input = Json::parse(job.input.as_bytes(), Json::DEEPEST).map_err(|error| error.to_string())?;
        contract
            .check_answer(&input, Bytes::from(text))
            .map_err(|violation| violation.sentence)
    });
    match work.await {
        Ok(Ok(checked)) => Ok(checked.into_raw()),
        Ok(Err(sentence)) => Err(invalid(format!("{sentence}."))),
        Err(error) => {
            tracing::error!(%error, attempt_id = %id, "checking a result broke down");
            Err(Problem::internal())
        }
    }
}

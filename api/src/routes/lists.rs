//! Lists: unknowns, providers, contracts, certifications.

use std::collections::BTreeSet;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use onejob_common::domain::{AttemptId, ContractName, ProviderName};
use serde_json::{Value, json as value};
use uuid::Uuid;

use super::json;
use crate::App;
use crate::auth::Caller;
use crate::problem::Problem;
use crate::query::{self, Nothing, Paging, Strict};
use crate::view::{Page, UnknownView};

pub(super) async fn unknowns(
    State(app): State<App>,
    caller: Caller,
    Strict(paging): Strict<Paging>,
) -> Result<Response, Problem> {
    caller.must_be_operator()?;
    let limit = query::limit(paging.limit.as_deref())?;
    let after = query::parse::<AttemptId>("cursor", paging.cursor.as_deref())?;
    let mut records = app.store.unknowns(after, limit + 1).await?;
    let more = cut(&mut records, limit);
    let next_cursor = records.last().filter(|_| more).map(|last| last.attempt.to_string());
    let items: Vec<UnknownView> = records.into_iter().map(UnknownView::from).collect();
    json(StatusCode::OK, &Page { items, next_cursor })
}

pub(super) async fn providers(
    State(app): State<App>,
    _caller: Caller,
    Strict(Nothing {}): Strict<Nothing>,
) -> Result<Response, Problem> {
    let valid = app.store.valid_certificates(&app.gate).await?;
    let items = app.config.providers.iter().map(|(name, provider)| {
        let certified: Vec<&ContractName> = valid.iter().filter(|(_, p)| p == name).map(|(c, _)| c).collect();
        value!({
            "name": name, "digest": hex::encode(provider.digest()), "adapter": provider.adapter, "model": provider.model, "stream": provider.stream,
            "available": provider.adapter.is_built(), "timeout_ms": provider.timeout_ms, "certified_for": certified,
        })
    });
    json(StatusCode::OK, &whole(items.collect()))
}

pub(super) async fn contracts(
    State(app): State<App>,
    _caller: Caller,
    Strict(Nothing {}): Strict<Nothing>,
) -> Result<Response, Problem> {
    let valid: BTreeSet<(ContractName, ProviderName)> = app.store.valid_certificates(&app.gate).await?;
    let items = app.contracts.iter().map(|contract| {
        let name = contract.name();
        let certified: Vec<&ProviderName> = valid.iter().filter(|(c, _)| c == name).map(|(_, p)| p).collect();
        value!({
            "name": name, "description": contract.description(), "digest": hex::encode(contract.digest()),
            "input_schema": contract.input_schema().as_ref(), "output_schema": contract.output_schema().as_ref(),
            "certified_providers": certified,
        })
    });
    json(StatusCode::OK, &whole(items.collect()))
}

pub(super) async fn certifications(
    State(app): State<App>,
    _caller: Caller,
    Strict(paging): Strict<Paging>,
) -> Result<Response, Problem> {
    let limit = query::limit(paging.limit.as_deref())?;
    let before = query::parse::<Uuid>("cursor", paging.cursor.as_deref())?;
    let mut items = app.store.certifications(None, before, limit + 1).await?;
    let more = cut(&mut items, limit);
    let next_cursor = items.last().filter(|_| more).map(|last| last.id.to_string());
    json(StatusCode::OK, &Page { items, next_cursor })
}

pub(super) async fn certification(
    State(app): State<App>,
    _caller: Caller,
    Path(id): Path<String>,
    Strict(Nothing {}): Strict<Nothing>,
) -> Result<Response, Problem> {
    let missing = || Problem::not_found("certification");
    let id: Uuid = id.parse().map_err(|_| missing())?;
    let found = app
        .store
        .certifications(Some(id), None, 1)
        .await?
        .pop()
        .ok_or_else(missing)?;
    json(StatusCode::OK, &found)
}

/// Certifying over HTTP is not built yet.
pub(super) async fn certify(caller: Caller) -> Result<Response, Problem> {
    caller.must_be_operator()?;
    Err(Problem::new(
        StatusCode::NOT_FOUND,
        "not-found",
        "Not built yet",
        "Certifying over HTTP is not built yet. Use the command line: onejob certify --contract C --provider P.",
    ))
}

/// Cuts a list that was read one item too far; tells whether there is more.
fn cut<T>(items: &mut Vec<T>, limit: i64) -> bool {
    let limit = usize::try_from(limit).unwrap_or_default();
    let more = items.len() > limit;
    items.truncate(limit);
    more
}

/// A list that is never long enough for pages.
const fn whole(items: Vec<Value>) -> Page<Value> {
    Page {
        items,
        next_cursor: None,
    }
}

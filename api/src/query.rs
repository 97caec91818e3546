//! Queries and paths, read strictly: what is unknown, doubled or senseless is refused, never ignored.

use std::str::FromStr;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// How many items a page has where nothing is said.
const USUAL: i64 = 50;
/// The most items of a page.
const MOST: i64 = 100;

/// A query of known parameters, each at most once.
pub struct Strict<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Strict<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(QueryRejection::FailedToDeserializeQueryString(error)) => Err(Problem::query(error.body_text())),
            Err(other) => Err(Problem::query(other.body_text())),
        }
    }
}

/// A call that takes no parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Where a page begins and how long it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paging {
    /// How many items at most.
    pub limit: Option<String>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// A page's length.
///
/// # Errors
///
/// `400 query-invalid`.
pub fn limit(text: Option<&str>) -> Result<i64, Problem> {
    let Some(text) = text else { return Ok(USUAL) };
    digits(text)
        .and_then(|limit| i64::try_from(limit).ok())
        .filter(|limit| (1..=MOST).contains(limit))
        .ok_or_else(|| Problem::query(format!("limit must be a whole number from 1 to {MOST}.")))
}

/// A parameter that must be of a certain form, if it is there.
///
/// # Errors
///
/// `400 query-invalid`.
pub fn parse<T: FromStr>(name: &str, text: Option<&str>) -> Result<Option<T>, Problem>
where
    T::Err: std::fmt::Display,
{
    text.map(|text| {
        text.parse()
            .map_err(|error: T::Err| Problem::query(format!("{name}: {error}.")))
    })
    .transpose()
}

/// A whole number without signs.
#[must_use]
pub fn digits(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().unwrap_or(u64::MAX))
}

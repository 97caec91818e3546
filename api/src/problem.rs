//! Errors as RFC 9457 problems: a stable `type`, and a `detail` that says what to do.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use onejob_common::domain::intent::{BodyError, IntentError};
use onejob_common::store::StoreError;
use serde_json::{Map, Value, json};

/// An answer that is not what was asked for.
#[derive(Debug, Clone)]
pub struct Problem(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    status: StatusCode,
    slug: &'static str,
    title: &'static str,
    detail: String,
    more: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem of the type `/problems/<slug>`.
    pub fn new(status: StatusCode, slug: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            status,
            slug,
            title,
            detail: detail.into(),
            more: Map::new(),
            headers: Vec::new(),
        }))
    }

    /// One more member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.more.insert(name.to_owned(), value.into());
        self
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// Its type's last part.
    #[must_use]
    pub fn slug(&self) -> &'static str {
        self.0.slug
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// `401`.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        let challenge = HeaderValue::from_static("Bearer realm=\"onejob\"");
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "No valid API key", detail)
            .header(header::WWW_AUTHENTICATE, challenge)
    }

    /// `403`.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed with this key", detail)
    }

    /// `404`, the same whether it does not exist or is somebody else's.
    #[must_use]
    pub fn not_found(what: &str) -> Self {
        let detail = format!("There is no such {what}, or it belongs to another owner. Check its id.");
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    /// `400 body-invalid`.
    pub fn body(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "body-invalid",
            "The body can't be used",
            detail,
        )
    }

    /// `400 query-invalid`.
    pub fn query(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "query-invalid",
            "The query can't be used",
            detail,
        )
    }

    /// `422 provider-unknown`.
    #[must_use]
    pub fn provider_unknown(detail: String) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "provider-unknown",
            "Unknown provider",
            detail,
        )
    }

    /// `422 contract-unknown`.
    #[must_use]
    pub fn contract_unknown(detail: String) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "contract-unknown",
            "Unknown contract",
            detail,
        )
    }

    /// `422 provider-not-certified`.
    #[must_use]
    pub fn not_certified(provider: &str, contract: &str) -> Self {
        let detail = format!(
            "{provider} holds no valid certificate for {contract}, so it may not take over. Certify it first \
             (onejob certify --contract {contract} --provider {provider}), or name another provider."
        );
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "provider-not-certified",
            "The provider is not certified",
            detail,
        )
    }

    /// `503`: nothing is known to have been done, and it may be asked again.
    #[must_use]
    pub fn unavailable(detail: &str) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "Not available at the moment",
            detail,
        )
        .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// `500`: a defect of ours.
    #[must_use]
    pub fn internal() -> Self {
        let detail = "Something is wrong on our side, and was logged. Repeating the request with the same key is safe.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Parts {
            status,
            slug,
            title,
            detail,
            more,
            headers,
        } = *self.0;
        let mut body = Map::new();
        body.insert("type".to_owned(), json!(format!("/problems/{}", slug)));
        body.insert("title".to_owned(), json!(title));
        body.insert("status".to_owned(), json!(status.as_u16()));
        body.insert("detail".to_owned(), json!(detail));
        body.extend(more);
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, kind, Value::Object(body).to_string()).into_response();
        for (name, value) in headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if error.is_transient() {
            tracing::warn!(%error, "answered 503: the database is not available");
            Self::unavailable("The database does not answer. Repeat the request with the same key.")
        } else {
            tracing::error!(%error, "answered 500");
            Self::internal()
        }
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        Self::body(error.to_string())
    }
}

impl From<IntentError> for Problem {
    fn from(error: IntentError) -> Self {
        let detail = error.to_string();
        match error {
            IntentError::Malformed(_) => Self::body(detail),
            IntentError::UnknownContract(_) => Self::contract_unknown(detail),
            IntentError::UnknownProvider(_) => Self::provider_unknown(detail),
        }
    }
}

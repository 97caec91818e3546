//! Who is asking: the owner and the role come from the API key, never from the body.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use onejob_common::domain::OwnerId;
use onejob_common::store::api_key::{ApiKey, ApiKeySecret, Role};
use onejob_common::store::{Store, StoreError};
use tokio::time::Instant;

use crate::App;
use crate::problem::Problem;

/// The most keys that are remembered: wrong ones are, too, so that guessing costs the database little.
const MOST: usize = 10_000;

/// By the SHA-256 of the secret (the secret itself is not kept): what it is, and until when that is believed.
type Known = HashMap<[u8; 32], (Option<ApiKey>, Instant)>;

/// Keys that were looked up a moment ago.
pub struct Keys {
    known: Mutex<Known>,
    believed_for: Duration,
}

impl Keys {
    /// Believes a look-up for so long; a revoked key stops working after that.
    #[must_use]
    pub fn new(believed_for: Duration) -> Self {
        Self {
            known: Mutex::default(),
            believed_for,
        }
    }

    async fn find(&self, store: &Store, secret: &ApiKeySecret) -> Result<Option<ApiKey>, StoreError> {
        let digest = secret.sha256();
        let remembered = self.lock().get(&digest).cloned();
        if let Some((key, until)) = remembered
            && until > Instant::now()
        {
            return Ok(key);
        }
        let key = store.key(secret).await?;
        let mut known = self.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(digest, (key.clone(), Instant::now() + self.believed_for));
        Ok(key)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The holder of a valid key.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Whose jobs it sends.
    pub owner: OwnerId,
    /// What it may do.
    pub role: Role,
}

impl Caller {
    /// Whose jobs it may see: its own, or, for operators, everybody's.
    #[must_use]
    pub fn sees(&self) -> Option<&OwnerId> {
        match self.role {
            Role::Producer => Some(&self.owner),
            Role::Operator => None,
        }
    }

    /// How events name it.
    #[must_use]
    pub fn actor(&self) -> String {
        match self.role {
            Role::Producer => format!("client {}", self.owner),
            Role::Operator => format!("operator {}", self.owner),
        }
    }

    /// # Errors
    ///
    /// `403`, if it is no operator.
    pub fn must_be_operator(&self) -> Result<(), Problem> {
        match self.role {
            Role::Operator => Ok(()),
            Role::Producer => Err(Problem::forbidden(
                "This call is for operators. Use a key with the role operator (onejob keys create --role operator).",
            )),
        }
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let mut lines = parts.headers.get_all(AUTHORIZATION).iter();
        let (line, other) = (lines.next(), lines.next());
        let secret = line
            .filter(|_| other.is_none())
            .and_then(|line| line.to_str().ok())
            .and_then(|text| text.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .and_then(|(_, secret)| secret.trim().parse::<ApiKeySecret>().ok())
            .ok_or_else(|| {
                Problem::unauthorized("Send one header: Authorization: Bearer oj_… (onejob keys create makes a key).")
            })?;
        match app.keys.find(&app.store, &secret).await? {
            Some(ApiKey { owner, role, .. }) => Ok(Self { owner, role }),
            None => Err(Problem::unauthorized("This API key is not known, or was revoked.")),
        }
    }
}

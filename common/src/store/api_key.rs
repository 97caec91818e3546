//! API keys: who is asking. Only the SHA-256 of a secret is stored; it has 256 random bits, so it needs no salt.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use rand::RngCore as _;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{Store, StoreError};
use crate::clock;
use crate::domain::OwnerId;

/// What the holder of a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends jobs, and sees its own.
    Producer,
    /// Sees and acts on everybody's, and settles unknowns.
    Operator,
}

impl Role {
    /// The word that the database and the command line use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Operator => "operator",
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "producer" => Ok(Self::Producer),
            "operator" => Ok(Self::Operator),
            other => Err(format!("{other:?} is not a role; known are: producer, operator")),
        }
    }
}

/// A key's secret: `oj_` and 64 hexadecimal digits. It is shown once, when it is made.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeySecret(String);

impl ApiKeySecret {
    const PREFIX: &'static str = "oj_";

    fn new() -> Self {
        let mut bytes = [0u8; 32];
        rand::rng().fill_bytes(&mut bytes);
        Self(format!("{}{}", Self::PREFIX, hex::encode(bytes)))
    }

    /// The secret itself, for whoever is given it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is stored of it, and what a cache may remember.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for ApiKeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKeySecret(…)")
    }
}

impl FromStr for ApiKeySecret {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix(Self::PREFIX).filter(|digits| digits.len() == 64);
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match digits {
            Some(digits) if digits.bytes().all(hex) => Ok(Self(text.to_owned())),
            Some(_) | None => Err("an API key is oj_ and 64 hexadecimal digits"),
        }
    }
}

/// Who a secret belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The key's own id.
    pub id: Uuid,
    /// Whose jobs it sends.
    pub owner: OwnerId,
    /// What it may do.
    pub role: Role,
}

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Whose jobs it sends.
    pub owner: OwnerId,
    /// What it may do.
    pub role: Role,
    /// What it is for, in its maker's words.
    pub name: String,
}

/// A key as lists show it.
#[derive(Debug, Clone)]
pub struct KeyRecord {
    /// The key.
    pub key: ApiKey,
    /// What it is for.
    pub name: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it stopped counting.
    pub revoked_at: Option<DateTime<Utc>>,
}

impl Store {
    /// The key that a secret is, if it counts.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn key(&self, secret: &ApiKeySecret) -> Result<Option<ApiKey>, StoreError> {
        let row = sqlx::query!(
            "SELECT id, owner_id, role FROM api_keys WHERE secret_sha256 = $1 AND revoked_at IS NULL",
            secret.sha256().to_vec(),
        )
        .fetch_optional(self.pool())
        .await?;
        row.map(|row| key(row.id, &row.owner_id, &row.role)).transpose()
    }

    /// Makes a key. Its secret is never shown again.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn create_key(&self, new: &NewKey) -> Result<ApiKeySecret, StoreError> {
        let secret = ApiKeySecret::new();
        sqlx::query!(
            "INSERT INTO api_keys (id, secret_sha256, owner_id, role, name) VALUES ($1, $2, $3, $4, $5)",
            clock::new_id(),
            secret.sha256().to_vec(),
            new.owner.as_str(),
            new.role.as_str(),
            new.name,
        )
        .execute(self.pool())
        .await?;
        Ok(secret)
    }

    /// Every key, oldest first.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        sqlx::query!("SELECT id, owner_id, role, name, created_at, revoked_at FROM api_keys ORDER BY created_at, id")
            .fetch_all(self.pool())
            .await?
            .into_iter()
            .map(|row| {
                Ok(KeyRecord {
                    key: key(row.id, &row.owner_id, &row.role)?,
                    name: row.name,
                    created_at: row.created_at,
                    revoked_at: row.revoked_at,
                })
            })
            .collect()
    }

    /// Stops a key from counting; API processes notice within their `key_cache_ms`. Tells whether it counted.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn revoke_key(&self, id: Uuid) -> Result<bool, StoreError> {
        let done = sqlx::query!(
            "UPDATE api_keys SET revoked_at = clock_timestamp() WHERE id = $1 AND revoked_at IS NULL",
            id
        )
        .execute(self.pool())
        .await?;
        Ok(done.rows_affected() == 1)
    }
}

fn key(id: Uuid, owner: &str, role: &str) -> Result<ApiKey, StoreError> {
    let unreadable = |error: String| StoreError::Unreadable(error);
    Ok(ApiKey {
        id,
        owner: owner
            .parse()
            .map_err(|error: crate::domain::InvalidId| unreadable(error.to_string()))?,
        role: role.parse().map_err(unreadable)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_and_shows_nowhere() {
        let (one, other) = (ApiKeySecret::new(), ApiKeySecret::new());
        assert_ne!(one, other);
        assert_eq!(one.expose().parse(), Ok(one.clone()));
        assert!(!format!("{one:?}").contains(&one.expose()[3..]));
    }

    #[test]
    fn what_is_no_secret_is_not_looked_up() {
        let upper = format!("oj_{}", "A".repeat(64));
        for text in ["", "oj_", "oj_12", upper.as_str(), "sk_0000"] {
            assert!(text.parse::<ApiKeySecret>().is_err(), "{text:?}");
        }
    }
}

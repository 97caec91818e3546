//! Certificates: who may take over (G9). One says that exactly this provider, with exactly this configuration, passed exactly
//! this contract: it is bound to the digests of both, expires, and lapses when either changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Store, StoreError};
use crate::clock;
use crate::config::Config;
use crate::contract::Contracts;
use crate::domain::{ContractName, ProviderName};

/// The digests of what this process is configured with: a certificate for anything else does not count.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    providers: BTreeMap<ProviderName, [u8; 32]>,
    contracts: BTreeMap<ContractName, [u8; 32]>,
}

impl Gate {
    /// The gate of a configuration.
    #[must_use]
    pub fn new(config: &Config, contracts: &Contracts) -> Self {
        Self {
            providers: config
                .providers
                .iter()
                .map(|(name, provider)| (name.clone(), provider.digest()))
                .collect(),
            contracts: contracts
                .iter()
                .map(|contract| (contract.name().clone(), *contract.digest()))
                .collect(),
        }
    }

    /// The digests that a certificate for the pair must hold; none if either is unknown here.
    #[must_use]
    pub fn digests(&self, contract: &ContractName, provider: &ProviderName) -> Option<(&[u8; 32], &[u8; 32])> {
        Some((self.contracts.get(contract)?, self.providers.get(provider)?))
    }
}

/// Where a certification stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CertificationState {
    /// Its cases are being run.
    Running,
    /// Every check passed.
    Passed,
    /// One did not, or it was given up.
    Failed,
}

/// One check of a certification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificationCheck {
    /// What was checked.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// What was seen.
    pub detail: String,
}

/// A certification as it is shown.
#[derive(Debug, Clone, Serialize)]
pub struct CertificationRecord {
    /// Its id.
    pub id: Uuid,
    /// The contract.
    pub contract: ContractName,
    /// The provider.
    pub provider: ProviderName,
    /// Where it stands.
    pub state: CertificationState,
    /// What was checked.
    pub checks: Vec<CertificationCheck>,
    /// Of the contract as it was, in hexadecimal.
    pub contract_digest: String,
    /// Of the provider's configuration as it was, in hexadecimal.
    pub provider_digest: String,
    /// When it began.
    pub created_at: DateTime<Utc>,
    /// When it stops counting, if it passed.
    pub expires_at: Option<DateTime<Utc>>,
}

/// Which providers may take over for a contract now, asked inside a transaction that acts on the answer.
pub(super) async fn certified<'e>(
    connection: impl sqlx::PgExecutor<'e>,
    gate: &Gate,
    contract: &ContractName,
) -> Result<BTreeSet<ProviderName>, StoreError> {
    let Some(digest) = gate.contracts.get(contract) else {
        return Ok(BTreeSet::new());
    };
    let rows = sqlx::query!(
        r#"SELECT DISTINCT c.provider, c.provider_digest FROM certificates c
           WHERE c.contract = $1 AND c.contract_digest = $2 AND c.state = 'passed' AND c.revoked_at IS NULL
             AND c.expires_at > now()"#,
        contract.as_str(),
        digest.as_slice(),
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| {
            let provider: ProviderName = row.provider.parse().ok()?;
            let as_configured = gate.providers.get(&provider)?.as_slice() == row.provider_digest;
            as_configured.then_some(provider)
        })
        .collect())
}

impl Store {
    /// Which providers may take over for a contract now.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn certified(&self, gate: &Gate, contract: &ContractName) -> Result<BTreeSet<ProviderName>, StoreError> {
        certified(self.pool(), gate, contract).await
    }

    /// Every pair for which a provider may take over now.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn valid_certificates(&self, gate: &Gate) -> Result<BTreeSet<(ContractName, ProviderName)>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT DISTINCT contract, contract_digest, provider, provider_digest FROM certificates
               WHERE state = 'passed' AND revoked_at IS NULL AND expires_at > now()"#
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let (contract, provider) = (row.contract.parse().ok()?, row.provider.parse().ok()?);
                let (contract_digest, provider_digest) = gate.digests(&contract, &provider)?;
                let as_configured = contract_digest.as_slice() == row.contract_digest
                    && provider_digest.as_slice() == row.provider_digest;
                as_configured.then_some((contract, provider))
            })
            .collect())
    }

    /// Notes that a certification begins, for exactly these digests.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn begin_certification(
        &self,
        contract: &ContractName,
        provider: &ProviderName,
        contract_digest: &[u8; 32],
        provider_digest: &[u8; 32],
    ) -> Result<Uuid, StoreError> {
        let id = clock::new_id();
        sqlx::query!(
            r#"INSERT INTO certificates (id, contract, provider, state, contract_digest, provider_digest)
               VALUES ($1, $2, $3, 'running', $4, $5)"#,
            id,
            contract.as_str(),
            provider.as_str(),
            contract_digest.as_slice(),
            provider_digest.as_slice(),
        )
        .execute(self.pool())
        .await?;
        Ok(id)
    }

    /// Writes how a certification ended; a passed one counts for `valid_for`. Tells whether it was still running.
    ///
    /// Guard: `state = 'running'`, else a late word turns a failed certification into a valid one.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn finish_certification(
        &self,
        id: Uuid,
        passed: bool,
        checks: &[CertificationCheck],
        valid_for: Duration,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query!(
            r#"UPDATE certificates
               SET state = CASE WHEN $2 THEN 'passed' ELSE 'failed' END, checks = $3,
                   expires_at = CASE WHEN $2 THEN clock_timestamp() + $4 * interval '1 second' END
               WHERE id = $1 AND state = 'running'"#,
            id,
            passed,
            sqlx::types::Json(checks) as _,
            valid_for.as_secs_f64(),
        )
        .execute(self.pool())
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// The newest certifications, or one of them.
    ///
    /// # Errors
    ///
    /// If the database can't do it.
    pub async fn certifications(
        &self,
        id: Option<Uuid>,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<CertificationRecord>, StoreError> {
        sqlx::query!(
            r#"SELECT id, contract, provider, state, checks AS "checks: sqlx::types::Json<Vec<CertificationCheck>>",
                      contract_digest, provider_digest, created_at, expires_at
               FROM certificates
               WHERE ($1::uuid IS NULL OR id = $1) AND ($2::uuid IS NULL OR id < $2)
               ORDER BY id DESC LIMIT $3"#,
            id,
            before,
            limit,
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(|row| {
            let unreadable = |error: crate::domain::InvalidId| StoreError::Unreadable(error.to_string());
            Ok(CertificationRecord {
                id: row.id,
                contract: row.contract.parse().map_err(unreadable)?,
                provider: row.provider.parse().map_err(unreadable)?,
                state: match row.state.as_str() {
                    "running" => CertificationState::Running,
                    "passed" => CertificationState::Passed,
                    "failed" => CertificationState::Failed,
                    other => return Err(StoreError::Unreadable(format!("certification state {other:?}"))),
                },
                checks: row.checks.0,
                contract_digest: hex::encode(row.contract_digest),
                provider_digest: hex::encode(row.provider_digest),
                created_at: row.created_at,
                expires_at: row.expires_at,
            })
        })
        .collect()
    }
}

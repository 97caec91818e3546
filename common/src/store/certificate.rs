//! stub for compile until the telemetry branch lands
use crate::domain::{ContractName, ProviderName};
use std::collections::{BTreeMap, BTreeSet};
/// gate
#[derive(Debug, Clone, Default)]
pub struct Gate {
    /// p
    pub providers: BTreeMap<ProviderName, [u8; 32]>,
    /// c
    pub contracts: BTreeMap<ContractName, [u8; 32]>,
}
pub(super) async fn certified<'e>(
    _c: impl sqlx::PgExecutor<'e>,
    _gate: &Gate,
    _contract: &ContractName,
) -> Result<BTreeSet<ProviderName>, super::StoreError> {
    Ok(BTreeSet::new())
}

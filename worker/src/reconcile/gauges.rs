//! What the database knows and dashboards show. Exported by the reconciler alone: two exporters would count it twice.

use std::sync::Arc;
use std::time::Duration;

use onejob_common::config::ms;
use onejob_common::contract::Contracts;
use onejob_common::store::StoreError;
use onejob_common::telemetry::metrics;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Reconciler;

const EVERY: Duration = Duration::from_secs(2);

/// Keeps the gauges until `stop`. While the database is away they stand still.
pub async fn keep(reconciler: Arc<Reconciler>, contracts: Arc<Contracts>, stop: CancellationToken) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        if let Err(error) = refresh(&reconciler, &contracts).await {
            tracing::debug!(%error, "the gauges stand still");
        }
    }
}

async fn refresh(reconciler: &Reconciler, contracts: &Contracts) -> Result<(), StoreError> {
    let gauges = reconciler
        .store
        .gauges(ms(reconciler.config.republish_after_ms))
        .await?;
    metrics::outbox_unpublished(gauges.unpublished);
    for provider in reconciler.limits.keys() {
        let unknown = gauges.unknown.get(provider).copied().unwrap_or_default();
        metrics::unknown_attempts(provider, unknown.count);
        metrics::unknown_oldest(provider, unknown.oldest_seconds);
    }
    let valid = reconciler.store.valid_certificates(&reconciler.gate).await?;
    for contract in contracts.iter() {
        for provider in reconciler.limits.keys() {
            let pair = (contract.name().clone(), provider.clone());
            metrics::certificate_valid(provider, contract.name(), valid.contains(&pair));
        }
    }
    Ok(())
}

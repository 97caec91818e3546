//! `onejob.unknown`: what queues dead-lettered. A message here changes nothing by itself; it says which attempt to look at
//! now instead of later.

use std::sync::Arc;

use onejob_common::broker::{Deliveries, Delivery};
use onejob_common::config::ms;
use onejob_common::domain::AttemptId;
use onejob_common::retry::Retry;
use onejob_common::store::StoreError;
use tokio_util::sync::CancellationToken;

use super::Reconciler;
use crate::pipeline::park;

/// Deliveries that are looked at together.
const TAKEN: usize = 100;

/// Works through the queue until its consumers are stopped.
pub async fn watch(reconciler: Arc<Reconciler>, mut deliveries: Deliveries, stop: CancellationToken) {
    loop {
        let taken = deliveries.next_many(TAKEN).await;
        if taken.is_empty() {
            return;
        }
        let mut readable: Vec<(AttemptId, Delivery)> = Vec::with_capacity(taken.len());
        for delivery in taken {
            match &delivery.message {
                Ok(message) => readable.push((message.attempt, delivery)),
                Err(unreadable) => {
                    let why = unreadable.clone();
                    park(&reconciler.publisher, delivery, &why, &stop).await;
                }
            }
        }
        let attempts: Vec<AttemptId> = readable.iter().map(|(attempt, _)| *attempt).collect();
        let mut retry = Retry::new();
        let looked = loop {
            match look(&reconciler, &attempts).await {
                Ok(()) => break true,
                Err(error) => tracing::warn!(%error, "dead letters wait for the database"),
            }
            tokio::select! {
                () = tokio::time::sleep(retry.delay()) => {}
                () = stop.cancelled() => break false,
            }
        };
        for (_, delivery) in readable {
            if looked {
                delivery.acker.ack().await
            } else {
                delivery.acker.hand_back().await
            };
        }
    }
}

async fn look(reconciler: &Reconciler, attempts: &[AttemptId]) -> Result<(), StoreError> {
    let dead_after = ms(reconciler.worker.dead_after_ms);
    for orphan in reconciler.store.orphans(attempts, dead_after).await? {
        reconciler
            .lose(
                orphan,
                "its message came back, and the worker that had claimed it is gone",
            )
            .await?;
    }
    Ok(())
}

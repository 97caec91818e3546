//! Publishing and consuming on a real RabbitMQ, and what they do when it fails them.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a helper of a test that fails fails the test"
)]

#[path = "broker/consuming.rs"]
mod consuming;
#[path = "broker/publishing.rs"]
mod publishing;

use std::time::Duration;

use onejob_common::broker::{
    Broker, Consumers, Deliveries, Outgoing, Publisher, Subscription, Topology, attempts_queue,
};
use onejob_common::clock::new_job_id;
use onejob_common::config::BrokerConfig;
use onejob_common::domain::{AttemptId, AttemptNumber, ProviderName};
use onejob_tests::SOON;
use onejob_tests::broker::Vhost;
use tokio::time::timeout;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn provider() -> ProviderName {
    "primary".parse().unwrap()
}

fn queue() -> String {
    attempts_queue(&provider())
}

fn topology() -> Topology {
    Topology::new([&provider()])
}

fn broker(url: &str) -> Broker {
    Broker::new(url, "onejob-test", &BrokerConfig::default()).unwrap()
}

/// A broker whose every wait ends after a second, and whose dead links show after two.
fn hasty(url: &str) -> Broker {
    let config = BrokerConfig {
        timeout_ms: 1_000,
        heartbeat_s: 1,
        ..BrokerConfig::default()
    };
    Broker::new(url, "onejob-test", &config).unwrap()
}

fn outgoing() -> Outgoing {
    Outgoing {
        attempt: AttemptId::new(new_job_id(), AttemptNumber::FIRST),
        provider: provider(),
        traceparent: Some(TRACE.into()),
    }
}

/// A publisher that is connected: the queues exist.
async fn publisher(vhost: &Vhost) -> Publisher {
    let publisher = Publisher::start(&broker(&vhost.url), topology()).unwrap();
    soon("the publisher connects", publisher.connected()).await;
    publisher
}

/// The consumer of the one queue, ready.
async fn consumer(vhost: &Vhost, prefetch: u16) -> (Consumers, Deliveries) {
    consumer_of(&broker(&vhost.url), &queue(), prefetch).await
}

async fn consumer_of(broker: &Broker, queue: &str, prefetch: u16) -> (Consumers, Deliveries) {
    let subscription = Subscription {
        queue: queue.into(),
        prefetch,
    };
    let (consumers, mut all) = Consumers::start(broker, topology(), vec![subscription]);
    soon("the consumer is ready", consumers.wait_ready(true)).await;
    (consumers, all.remove(0))
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    within(SOON, what, future).await
}

async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    timeout(limit, future)
        .await
        .unwrap_or_else(|_| panic!("not within {limit:?}: {what}"))
}

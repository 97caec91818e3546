//! Messages that come twice, late, or not at all (scenario B05).

use lapin::BasicProperties;
use onejob_common::broker::{Broker, Outgoing, Publisher, Topology};
use onejob_common::config::BrokerConfig;
use onejob_tests::eventually;
use onejob_tests::process::Process;
use onejob_tests::simulator::answer_after;
use onejob_tests::stack::{Stack, intent};
use serde_json::json;

/// Publishes five more messages for the first attempt of each job.
async fn five_more(stack: &Stack, jobs: &[&str]) {
    let broker = Broker::new(&stack.vhost.url, "onejob-test", &BrokerConfig::default()).unwrap();
    let (primary, backup) = ("primary".parse().unwrap(), "backup".parse().unwrap());
    let publisher = Publisher::start(&broker, Topology::new([&primary, &backup])).unwrap();
    publisher.connected().await;
    let copies: Vec<Outgoing> = jobs
        .iter()
        .flat_map(|id| std::iter::repeat_n(id, 5))
        .map(|id| Outgoing {
            attempt: format!("{id}.1").parse().unwrap(),
            provider: primary.clone(),
            traceparent: None,
        })
        .collect();
    for published in publisher.publish_all(&copies).await {
        published.unwrap();
    }
    publisher.close().await;
}

async fn suppressed(workers: &[&Process]) -> f64 {
    let mut sum = 0.0;
    for worker in workers {
        let layer = [("layer", "worker")];
        sum += worker
            .metric("onejob_duplicates_suppressed_total", &layer)
            .await
            .unwrap();
    }
    sum
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_a_message_change_nothing_in_any_state_of_its_attempt() {
    let stack = Stack::create().await;
    let (api, _relay, _other_relay) = tokio::join!(stack.api(), stack.reconciler(), stack.reconciler());
    let (client, operator) = (stack.producer(&api, "shop").await, stack.operator(&api).await);
    let queued = client.submit("queued", &intent("queued")).await.id();
    five_more(&stack, &[&queued]).await;
    let (first, second) = tokio::join!(stack.worker(), stack.worker());
    let workers = [&first, &second];
    client.until(&queued, "succeeded").await;
    eventually("five copies are suppressed", async || suppressed(&workers).await == 5.0).await;
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1);

    stack
        .simulator
        .next("sim-primary", json!([answer_after(60_000, "slow")]))
        .await;
    let running = client.submit("running", &intent("running")).await.id();
    client.until_running(&running).await;
    stack
        .simulator
        .next("sim-primary", json!([{"drop": "after"}, {"drop": "after"}]))
        .await;
    let unknown = client.submit("unknown", &intent("unknown")).await.id();
    let resolved = client.submit("resolved", &intent("resolved")).await.id();
    client.until(&unknown, "unknown").await;
    client.until(&resolved, "unknown").await;
    let body = json!({"outcome": "succeeded", "note": "seen in the dashboard",
                      "result": {"category": "other", "urgency": 1, "summary": "by hand"}});
    let word = operator
        .post(&format!("/v1/attempts/{resolved}.1/resolution"), &body)
        .await;
    assert_eq!(word.status, 200, "{word:?}");

    let jobs = [&*queued, &running, &unknown, &resolved];
    let mut before = Vec::new();
    for id in jobs {
        before.push(client.job(id).await);
    }
    five_more(&stack, &jobs).await;
    eventually("all copies are suppressed", async || suppressed(&workers).await == 25.0).await;
    for (id, before) in jobs.iter().zip(before) {
        assert_eq!(client.job(id).await, before);
    }
    assert_eq!(
        stack.simulator.calls("sim-primary").await.len(),
        4,
        "one call an attempt"
    );
    assert_eq!(stack.database.count("SELECT count(*) FROM attempts").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_lost_is_published_again_by_the_relay() {
    let stack = Stack::create().await;
    let api = stack.api().await;
    let client = stack.producer(&api, "shop").await;
    let id = client.submit("k", &intent("lost")).await.id();
    stack.vhost.wait_queue("onejob.attempts.primary", 1, 0).await;
    assert!(
        stack.vhost.get("onejob.attempts.primary").await.is_some(),
        "it is taken away"
    );
    let (_worker, _relay, _other_relay) = tokio::join!(stack.worker(), stack.reconciler(), stack.reconciler());
    client.until(&id, "succeeded").await;
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_accepted_while_the_broker_is_away_runs_once_it_is_back() {
    let stack = Stack::create().await;
    let (api, _relay) = tokio::join!(stack.api(), stack.reconciler());
    let client = stack.producer(&api, "shop").await;
    // Without its binding the broker returns what is published: as good as away.
    stack.vhost.delete_queue("onejob.attempts.primary").await;
    let accepted = client.submit("k", &intent("away")).await;
    assert_eq!(accepted.status, 201, "the database alone decides: {accepted:?}");
    let _worker = stack.worker().await;
    client.until(&accepted.id(), "succeeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_can_t_be_read_is_parked_and_one_without_an_attempt_is_dropped() {
    let (stack, api, worker, _reconciler) = Stack::up().await;
    let client = stack.producer(&api, "shop").await;
    let queue = "onejob.attempts.primary";
    let of_type = |kind: &str| BasicProperties::default().with_type(kind.into());
    stack.vhost.put("", queue, of_type("attempt.v1"), b"no json").await;
    stack
        .vhost
        .put("", queue, of_type("attempt.v99"), br#"{"attempt_id":"x"}"#)
        .await;
    let missing = br#"{"attempt_id":"018f0000-0000-7000-8000-000000000001.1"}"#;
    stack
        .vhost
        .put(
            "",
            queue,
            of_type("attempt.v1").with_message_id("018f0000-0000-7000-8000-000000000001.1".into()),
            missing,
        )
        .await;
    stack.vhost.wait_queue("onejob.poison", 2, 0).await;
    eventually("the one without an attempt is counted", async || {
        suppressed(&[&worker]).await == 1.0
    })
    .await;
    let id = client.submit("k", &intent("behind them")).await.id();
    client.until(&id, "succeeded").await;
}

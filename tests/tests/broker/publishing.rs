//! Publishing: what is confirmed is there, what is not there is an error, and every publish ends in time.

use std::time::{Duration, Instant};

use lapin::types::FieldTable;
use onejob_common::broker::{
    ATTEMPTS_EXCHANGE, AttemptMessage, Broker, BrokerError, Link, POISON_QUEUE, PublishError, Publisher, REASON_HEADER,
    Raw, Topology, TopologyError, UNKNOWN_QUEUE,
};
use onejob_common::config::BrokerConfig;
use onejob_tests::broker::{Proxy, Vhost};
use onejob_tests::eventually;
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn a_message_arrives_with_everything_it_says() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let sent = outgoing();
    publisher.publish(&sent).await.unwrap();
    let (properties, body) = vhost.get(&queue()).await.expect("the message is in the queue");
    let read = AttemptMessage::parse(&properties, &body).unwrap();
    assert_eq!(read.attempt, sent.attempt);
    assert_eq!(read.traceparent.as_deref(), Some(TRACE));
    assert_eq!(
        properties.message_id().as_ref().unwrap().as_str(),
        sent.attempt.to_string()
    );
    assert_eq!(
        properties.correlation_id().as_ref().unwrap().as_str(),
        sent.attempt.job.to_string()
    );
    assert_eq!(properties.kind().as_ref().unwrap().as_str(), "attempt.v1");
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert_eq!(body, format!(r#"{{"attempt_id":"{}"}}"#, sent.attempt).into_bytes());
    publisher.close().await;
}

#[tokio::test]
async fn declaring_twice_changes_nothing_and_another_argument_is_told_with_what_to_do() {
    let vhost = Vhost::create().await;
    let limit = Duration::from_secs(5);
    let channel = vhost.channel().await;
    topology().declare(&channel, limit).await.unwrap();
    topology().declare(&channel, limit).await.unwrap();
    vhost.delete_queue(UNKNOWN_QUEUE).await;
    let options = lapin::options::QueueDeclareOptions {
        durable: true,
        ..Default::default()
    };
    let classic = channel
        .queue_declare(UNKNOWN_QUEUE.into(), options, FieldTable::default())
        .await;
    classic.unwrap();
    let error = topology().declare(&channel, limit).await.unwrap_err();
    assert!(matches!(error, TopologyError::Differs { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(UNKNOWN_QUEUE) && text.contains("delete"), "{text}");
}

#[tokio::test]
async fn a_message_that_no_queue_takes_is_an_error_although_the_broker_acks_it() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let stray = Outgoing {
        provider: "nobody".parse().unwrap(),
        ..outgoing()
    };
    let outcome = publisher.publish(&stray).await;
    assert!(matches!(outcome, Err(PublishError::Unroutable { .. })), "{outcome:?}");
    publisher.publish(&outgoing()).await.expect("the lane still works");
}

#[tokio::test]
async fn of_many_published_together_exactly_the_unroutable_ones_fail() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let messages: Vec<_> = (0..2_000)
        .map(|n| Outgoing {
            provider: if n % 3 == 0 {
                "nobody".parse().unwrap()
            } else {
                provider()
            },
            ..outgoing()
        })
        .collect();
    let outcomes = publisher.publish_all(&messages).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        if n % 3 == 0 {
            assert!(
                matches!(outcome, Err(PublishError::Unroutable { .. })),
                "{n}: {outcome:?}"
            );
        } else {
            assert_eq!(*outcome, Ok(()), "{n}");
        }
    }
    let routed = messages.iter().filter(|message| message.provider == provider()).count();
    vhost.wait_queue(&queue(), u32::try_from(routed).unwrap(), 0).await;
}

#[tokio::test]
async fn a_queue_that_was_deleted_makes_publishing_fail_once_and_is_declared_again() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    vhost.delete_queue(&queue()).await;
    let outcome = publisher.publish(&outgoing()).await;
    assert!(matches!(outcome, Err(PublishError::Unroutable { .. })), "{outcome:?}");
    eventually("a publish finds its queue again", async || {
        publisher.publish(&outgoing()).await.is_ok()
    })
    .await;
    vhost.wait_queue(&queue(), 1, 0).await;
}

#[tokio::test]
async fn a_queue_that_was_unbound_is_bound_again() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    vhost.unbind(&queue(), ATTEMPTS_EXCHANGE, provider().as_str()).await;
    let outcome = publisher.publish(&outgoing()).await;
    assert!(matches!(outcome, Err(PublishError::Unroutable { .. })), "{outcome:?}");
    eventually("a publish finds its queue again", async || {
        publisher.publish(&outgoing()).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn an_exchange_that_is_gone_is_an_error_and_is_declared_again() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let channel = vhost.channel().await;
    let deleted = channel
        .exchange_delete(ATTEMPTS_EXCHANGE.into(), Default::default())
        .await;
    deleted.unwrap();
    let outcome = publisher.publish(&outgoing()).await;
    assert!(matches!(outcome, Err(PublishError::Disconnected { .. })), "{outcome:?}");
    eventually("a publish works again", async || {
        publisher.publish(&outgoing()).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_connection_closed_in_the_middle_ends_every_publish_and_the_next_connection_confirms_again() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let mut published = 0_u32;
    let mut failed = 0_usize;
    let closing = async {
        // The link is in use all the time while the broker closes it.
        loop {
            let messages: Vec<_> = (0..500).map(|_| outgoing()).collect();
            let outcomes = within(Duration::from_secs(6), "a batch ends", publisher.publish_all(&messages)).await;
            published += u32::try_from(outcomes.iter().filter(|outcome| outcome.is_ok()).count()).unwrap();
            failed += outcomes.iter().filter(|outcome| outcome.is_err()).count();
            if failed > 0 {
                break;
            }
        }
    };
    let ((), closed) = tokio::join!(closing, vhost.close_connections("onejob-test publish"));
    assert_eq!(closed, 1);
    soon("a new connection", publisher.connected()).await;
    publisher.publish(&outgoing()).await.unwrap();
    let stray = Outgoing {
        provider: "nobody".parse().unwrap(),
        ..outgoing()
    };
    let outcome = publisher.publish(&stray).await;
    assert!(matches!(outcome, Err(PublishError::Unroutable { .. })), "{outcome:?}");
    let (ready, _) = vhost.queue(&queue()).await;
    assert!(
        ready > published,
        "every confirmed message is there: {ready} of {published} + 1"
    );
}

#[tokio::test]
async fn a_message_is_parked_with_its_reason_and_without_what_would_act_again() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let mut headers = FieldTable::default();
    headers.insert("kept".into(), lapin::types::AMQPValue::LongString("yes".into()));
    headers.insert("CC".into(), lapin::types::AMQPValue::FieldArray(Default::default()));
    let raw = Raw {
        properties: lapin::BasicProperties::default()
            .with_type("attempt.v9".into())
            .with_message_id("anything".into())
            .with_expiration("1".into())
            .with_user_id("somebody".into())
            .with_headers(headers),
        body: b"\xff not ours".to_vec(),
    };
    publisher
        .publish_poison(&raw, "type attempt.v9 is not known")
        .await
        .unwrap();
    vhost.wait_queue(POISON_QUEUE, 1, 0).await;
    let (properties, body) = vhost.get(POISON_QUEUE).await.expect("it is parked");
    assert_eq!(body, raw.body);
    assert_eq!(properties.kind(), raw.properties.kind());
    assert_eq!(properties.message_id(), raw.properties.message_id());
    assert_eq!((properties.expiration(), properties.user_id()), (&None, &None));
    let parked = Raw { properties, body };
    assert_eq!(
        parked.header(REASON_HEADER).as_deref(),
        Some("type attempt.v9 is not known")
    );
    assert_eq!(parked.header("kept").as_deref(), Some("yes"));
}

#[tokio::test]
async fn a_broker_that_is_away_wrong_or_silent_fails_every_publish_in_time() {
    let vhost = Vhost::create().await;
    // Accepts the connection, and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = format!("amqp://127.0.0.1:{}/%2f", mute.local_addr().unwrap().port());
    let no_vhost = format!("{}-not", vhost.url);
    for url in ["amqp://127.0.0.1:1/%2f", &no_vhost, &mute] {
        let publisher = Publisher::start(&hasty(url), topology()).unwrap();
        let began = Instant::now();
        // The first one waits for the first try to connect; the others know.
        for _ in 0..3 {
            let outcome = publisher.publish(&outgoing()).await;
            assert!(outcome.is_err(), "{outcome:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        eventually("the state says so", async || {
            publisher.state().link == Link::Disconnected
        })
        .await;
        let outcome = publisher.publish(&outgoing()).await;
        assert!(matches!(outcome, Err(PublishError::Disconnected { .. })), "{outcome:?}");
        within(Duration::from_secs(5), "it closes", publisher.close()).await;
    }
}

#[tokio::test]
async fn a_half_open_link_is_noticed_and_replaced_by_one_connection() {
    let vhost = Vhost::create().await;
    let (proxy, url) = Proxy::before(&vhost.url).await;
    let publisher = Publisher::start(&hasty(&url), topology()).unwrap();
    soon("the publisher connects", publisher.connected()).await;
    proxy.silence(true);
    let outcome = within(
        Duration::from_secs(3),
        "a publish into the hole ends",
        publisher.publish(&outgoing()),
    )
    .await;
    assert!(outcome.is_err());
    proxy.silence(false);
    eventually("a publish gets through", async || {
        publisher.publish(&outgoing()).await.is_ok()
    })
    .await;
    eventually("one connection is left", async || {
        vhost.connections("onejob-test publish").await.len() == 1
    })
    .await;
}

#[tokio::test]
async fn while_the_broker_blocks_every_publish_fails_at_once_and_afterwards_the_same_connection_works() {
    let vhost = Vhost::create().await;
    let (proxy, url) = Proxy::before(&vhost.url).await;
    let publisher = Publisher::start(&broker(&url), topology()).unwrap();
    soon("the publisher connects", publisher.connected()).await;
    publisher.publish(&outgoing()).await.unwrap();
    eventually("it is listed", async || {
        vhost.connections("onejob-test publish").await.len() == 1
    })
    .await;
    let before = vhost.connections("onejob-test publish").await;
    proxy.block("low on memory");
    eventually("the state says so", async || publisher.state().link == Link::Blocked).await;
    assert_eq!(publisher.state().reason.as_deref(), Some("low on memory"));
    let messages: Vec<_> = (0..200).map(|_| outgoing()).collect();
    let outcomes = within(
        Duration::from_millis(500),
        "200 refusals",
        publisher.publish_all(&messages),
    )
    .await;
    let refused = |outcome: &Result<(), PublishError>| matches!(outcome, Err(PublishError::Blocked { .. }));
    assert!(outcomes.iter().all(refused), "{outcomes:?}");
    proxy.unblock();
    soon("it works again", publisher.connected()).await;
    publisher.publish(&outgoing()).await.unwrap();
    vhost.wait_queue(&queue(), 2, 0).await;
    assert_eq!(vhost.connections("onejob-test publish").await, before);
}

#[tokio::test]
async fn what_is_on_its_way_when_the_block_comes_is_refused_and_the_lanes_are_clean_after_it() {
    let vhost = Vhost::create().await;
    // Before the lanes have their channels, and after.
    for lanes_are_open in [false, true] {
        let (proxy, url) = Proxy::before(&vhost.url).await;
        let publisher = Publisher::start(&broker(&url), topology()).unwrap();
        soon("the publisher connects", publisher.connected()).await;
        if lanes_are_open {
            publisher.publish(&outgoing()).await.unwrap();
        }
        // Nothing yields between these: the state still says connected when the publishes begin.
        proxy.block("low on disk");
        let strays: Vec<_> = (0..300)
            .map(|_| Outgoing {
                provider: "nobody".parse().unwrap(),
                ..outgoing()
            })
            .collect();
        assert_eq!(publisher.state().link, Link::Connected);
        let outcomes = publisher.publish_all(&strays);
        let outcomes = within(Duration::from_secs(4), "no publish waits for its limit", outcomes).await;
        assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
        eventually("the state says so", async || publisher.state().link == Link::Blocked).await;
        proxy.unblock();
        soon("it works again", publisher.connected()).await;
        // The returns of strays that lay in the buffer are not taken for these.
        let routed: Vec<_> = (0..300).map(|_| outgoing()).collect();
        let outcomes = publisher.publish_all(&routed).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }
}

#[tokio::test]
async fn a_publisher_closes_in_time_while_it_is_blocked() {
    let vhost = Vhost::create().await;
    let (proxy, url) = Proxy::before(&vhost.url).await;
    let publisher = Publisher::start(&hasty(&url), topology()).unwrap();
    soon("the publisher connects", publisher.connected()).await;
    publisher.publish(&outgoing()).await.unwrap();
    proxy.block("low on memory");
    let outcome = publisher.publish(&outgoing()).await;
    assert!(outcome.is_err(), "{outcome:?}");
    within(Duration::from_secs(4), "it closes", publisher.close()).await;
}

#[tokio::test]
async fn closing_publishes_what_was_taken() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let messages: Vec<_> = (0..300).map(|_| outgoing()).collect();
    let (outcomes, ()) = tokio::join!(publisher.publish_all(&messages), publisher.close());
    let ok = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    vhost.wait_queue(&queue(), u32::try_from(ok).unwrap(), 0).await;
    assert!(publisher.publish(&outgoing()).await.is_err());
}

#[tokio::test]
async fn an_address_that_is_none_is_told_at_the_start() {
    let error = Broker::new("localhost", "onejob-test", &BrokerConfig::default()).unwrap_err();
    assert!(matches!(error, BrokerError::Address));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_ten_thousand_is_confirmed_and_nothing_is_doubled() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let messages: Vec<_> = (0..10_000).map(|_| outgoing()).collect();
    let began = Instant::now();
    let outcomes = publisher.publish_all(&messages).await;
    println!("{:.0} confirmed messages/s", 10_000.0 / began.elapsed().as_secs_f64());
    assert!(
        outcomes.iter().all(Result::is_ok),
        "{:?}",
        outcomes.iter().find(|outcome| outcome.is_err())
    );
    vhost.wait_queue(&queue(), 10_000, 0).await;
}

#[tokio::test]
async fn the_queues_of_a_provider_that_is_not_configured_are_not_made() {
    let vhost = Vhost::create().await;
    let none = Topology::new([]);
    none.declare(&vhost.channel().await, Duration::from_secs(5))
        .await
        .unwrap();
    let passive = lapin::options::QueueDeclareOptions {
        passive: true,
        ..Default::default()
    };
    let asked = vhost.channel().await;
    assert!(
        asked
            .queue_declare(queue().as_str().into(), passive, FieldTable::default())
            .await
            .is_err()
    );
}

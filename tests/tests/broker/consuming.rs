//! Consuming: one consumer a queue whatever dies, late acks dropped, nothing lost at a stop.

use std::collections::HashSet;
use std::time::Duration;

use lapin::BasicProperties;
use onejob_common::broker::{ATTEMPTS_EXCHANGE, Acked, Delivery, Link, POISON_QUEUE, UNKNOWN_QUEUE};
use onejob_tests::broker::{Proxy, Vhost};
use onejob_tests::eventually;

use super::*;

async fn next(deliveries: &mut Deliveries) -> Delivery {
    soon("a delivery", deliveries.next()).await.expect("consuming goes on")
}

#[tokio::test]
async fn a_delivery_says_which_attempt_and_is_gone_once_acked() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let (consumers, mut deliveries) = consumer(&vhost, 10).await;
    assert!(consumers.is_ready());
    let sent = outgoing();
    publisher.publish(&sent).await.unwrap();
    let delivery = next(&mut deliveries).await;
    let message = delivery.message.unwrap();
    assert_eq!(message.attempt, sent.attempt);
    assert_eq!(message.traceparent, sent.traceparent);
    assert!(!delivery.redelivered);
    assert_eq!(delivery.acker.ack().await, Acked::Sent);
    let stopped = soon("it stops", consumers.stop()).await;
    soon("it closes", stopped.close()).await;
    vhost.wait_queue(&queue(), 0, 0).await;
    eventually("no connection is left", async || {
        vhost.connections("consume").await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn no_more_than_the_prefetch_is_in_flight() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let (_consumers, mut deliveries) = consumer(&vhost, 3).await;
    let messages: Vec<_> = (0..10).map(|_| outgoing()).collect();
    assert!(publisher.publish_all(&messages).await.iter().all(Result::is_ok));
    let mut held = vec![
        next(&mut deliveries).await,
        next(&mut deliveries).await,
        next(&mut deliveries).await,
    ];
    vhost.wait_queue(&queue(), 7, 1).await;
    assert!(timeout(Duration::from_millis(200), deliveries.next()).await.is_err());
    assert_eq!(held.remove(0).acker.ack().await, Acked::Sent);
    next(&mut deliveries).await;
}

#[tokio::test]
async fn a_rejected_message_waits_in_the_unknown_queue_with_the_reason() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let (_consumers, mut deliveries) = consumer(&vhost, 10).await;
    let (_reconciler, mut unknowns) = consumer_of(&broker(&vhost.url), UNKNOWN_QUEUE, 10).await;
    let sent = outgoing();
    publisher.publish(&sent).await.unwrap();
    assert_eq!(next(&mut deliveries).await.acker.reject_to_dlx().await, Acked::Sent);
    let unknown = next(&mut unknowns).await;
    let death = unknown.raw.death().expect("x-death");
    assert_eq!((death.queue, death.reason), (queue(), "rejected".into()));
    let message = unknown.message.unwrap();
    assert_eq!((message.attempt, message.traceparent), (sent.attempt, sent.traceparent));
    assert_eq!(unknown.acker.reject_to_dlx().await, Acked::Sent);
    vhost.wait_queue(POISON_QUEUE, 1, 0).await;
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_given_as_it_came() {
    let vhost = Vhost::create().await;
    let (_consumers, mut deliveries) = consumer(&vhost, 10).await;
    let properties = BasicProperties::default().with_type("attempt.v2".into());
    vhost
        .put(ATTEMPTS_EXCHANGE, provider().as_str(), properties, b"?")
        .await;
    let delivery = next(&mut deliveries).await;
    assert!(delivery.message.unwrap_err().to_string().contains("attempt.v2"));
    assert_eq!(delivery.raw.body, b"?");
}

#[tokio::test]
async fn a_connection_that_the_broker_closes_is_rebuilt_with_one_consumer_and_late_acks_are_dropped() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let (consumers, mut deliveries) = consumer(&vhost, 10).await;
    let messages: Vec<_> = (0..4).map(|_| outgoing()).collect();
    assert!(publisher.publish_all(&messages).await.iter().all(Result::is_ok));
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(next(&mut deliveries).await);
    }
    let (closed, ()) = tokio::join!(
        vhost.close_connections("onejob-test consume"),
        soon("readiness is false", consumers.wait_ready(false))
    );
    assert_eq!(closed, 1);
    soon("it is ready again", consumers.wait_ready(true)).await;
    for delivery in held {
        assert_eq!(delivery.acker.ack().await, Acked::Gone);
    }
    let mut again = HashSet::new();
    for _ in 0..4 {
        let delivery = next(&mut deliveries).await;
        assert!(delivery.redelivered);
        again.insert(delivery.message.unwrap().attempt);
        assert_eq!(delivery.acker.ack().await, Acked::Sent);
    }
    assert_eq!(again, messages.iter().map(|message| message.attempt).collect());
    vhost.wait_queue(&queue(), 0, 1).await;
    eventually("one connection", async || {
        vhost.connections("onejob-test consume").await.len() == 1
    })
    .await;
}

#[tokio::test]
async fn a_queue_that_was_deleted_is_declared_and_consumed_again() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let (consumers, mut deliveries) = consumer(&vhost, 10).await;
    let name = queue();
    let ((), ()) = tokio::join!(
        vhost.delete_queue(&name),
        soon("readiness is false", consumers.wait_ready(false))
    );
    soon("it is ready again", consumers.wait_ready(true)).await;
    let sent = outgoing();
    publisher.publish(&sent).await.unwrap();
    let delivery = next(&mut deliveries).await;
    assert_eq!(delivery.message.unwrap().attempt, sent.attempt);
    delivery.acker.ack().await;
    vhost.wait_queue(&queue(), 0, 1).await;
}

#[tokio::test]
async fn a_channel_that_the_broker_closes_is_rebuilt_on_the_same_connection_and_late_acks_are_dropped() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let (proxy, url) = Proxy::before(&vhost.url).await;
    let (consumers, mut deliveries) = consumer_of(&broker(&url), &queue(), 10).await;
    publisher.publish(&outgoing()).await.unwrap();
    let held = next(&mut deliveries).await;
    // The channel that declared the queues is closed by then.
    eventually("one channel", async || {
        vhost.channels("onejob-test consume").await.len() == 1
    })
    .await;
    let before = vhost.connections("onejob-test consume").await;
    let channel = vhost.channels("onejob-test consume").await[0];
    let ((), ()) = tokio::join!(
        async { proxy.foreign_ack(channel) },
        soon("readiness is false", consumers.wait_ready(false))
    );
    soon("it is ready again", consumers.wait_ready(true)).await;
    assert_eq!(held.acker.ack().await, Acked::Gone);
    let again = next(&mut deliveries).await;
    assert!(again.redelivered);
    assert_eq!(again.acker.ack().await, Acked::Sent);
    vhost.wait_queue(&queue(), 0, 1).await;
    assert_eq!(vhost.connections("onejob-test consume").await, before);
}

#[tokio::test]
async fn stopping_hands_back_what_no_one_took_and_what_is_in_flight_can_still_be_acked() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let (consumers, mut deliveries) = consumer(&vhost, 50).await;
    let messages: Vec<_> = (0..100).map(|_| outgoing()).collect();
    assert!(publisher.publish_all(&messages).await.iter().all(Result::is_ok));
    let in_flight = next(&mut deliveries).await;
    vhost.wait_queue(&queue(), 50, 1).await;
    let stopped = soon("it stops", consumers.stop()).await;
    assert!(soon("the deliveries end", deliveries.next()).await.is_none());
    // A quorum queue counts a cancelled consumer until its last delivery is answered.
    vhost.wait_queue(&queue(), 99, 1).await;
    assert_eq!(in_flight.acker.ack().await, Acked::Sent);
    vhost.wait_queue(&queue(), 99, 0).await;
    soon("it closes", stopped.close()).await;
    vhost.wait_queue(&queue(), 99, 0).await;
}

#[tokio::test]
async fn what_is_dropped_without_an_answer_comes_back_when_its_channel_ends() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let (consumers, mut deliveries) = consumer(&vhost, 1).await;
    publisher.publish(&outgoing()).await.unwrap();
    drop(next(&mut deliveries).await);
    vhost.wait_queue(&queue(), 0, 1).await;
    assert!(consumers.is_ready());
    soon("it stops", consumers.stop()).await.close().await;
    vhost.wait_queue(&queue(), 1, 0).await;
}

#[tokio::test]
async fn another_queue_than_the_declared_one_is_never_consumed_and_the_state_says_what_to_do() {
    let vhost = Vhost::create().await;
    let durable = lapin::options::QueueDeclareOptions {
        durable: true,
        ..Default::default()
    };
    let channel = vhost.channel().await;
    channel
        .queue_declare(queue().as_str().into(), durable, Default::default())
        .await
        .unwrap();
    let subscription = Subscription {
        queue: queue(),
        prefetch: 1,
    };
    let (consumers, _deliveries) = Consumers::start(&broker(&vhost.url), topology(), vec![subscription]);
    eventually("the state tells", async || consumers.state().link == Link::Disconnected).await;
    assert!(!consumers.is_ready());
    let reason = consumers.state().reason.unwrap();
    assert!(reason.contains(&queue()) && reason.contains("delete"), "{reason}");
    vhost.delete_queue(&queue()).await;
    soon("it is ready once the queue is gone", consumers.wait_ready(true)).await;
}

#[tokio::test]
async fn a_half_open_link_is_noticed_while_a_delivery_is_in_flight() {
    let vhost = Vhost::create().await;
    let publisher = publisher(&vhost).await;
    let (proxy, url) = Proxy::before(&vhost.url).await;
    let (consumers, mut deliveries) = consumer_of(&hasty(&url), &queue(), 10).await;
    publisher.publish(&outgoing()).await.unwrap();
    let held = next(&mut deliveries).await;
    proxy.silence(true);
    within(Duration::from_secs(4), "four heartbeats", consumers.wait_ready(false)).await;
    assert_eq!(held.acker.ack().await, Acked::Gone);
    proxy.silence(false);
    soon("it is ready again", consumers.wait_ready(true)).await;
    let again = next(&mut deliveries).await;
    assert!(again.redelivered);
    assert_eq!(again.acker.ack().await, Acked::Sent);
    vhost.wait_queue(&queue(), 0, 1).await;
    eventually("one connection is left", async || {
        vhost.connections("onejob-test consume").await.len() == 1
    })
    .await;
}

#[tokio::test]
async fn a_broker_that_is_away_does_not_keep_a_worker_from_stopping() {
    let subscription = Subscription {
        queue: queue(),
        prefetch: 1,
    };
    let (consumers, mut all) = Consumers::start(&hasty("amqp://127.0.0.1:1/%2f"), topology(), vec![subscription]);
    eventually("the state tells", async || consumers.state().link == Link::Disconnected).await;
    let stopped = within(Duration::from_secs(3), "it stops", consumers.stop()).await;
    assert!(all.remove(0).next().await.is_none());
    within(Duration::from_secs(3), "it closes", stopped.close()).await;
}

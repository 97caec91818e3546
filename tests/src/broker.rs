//! A virtual host of its own for each test, on a real RabbitMQ: tests can't see each other's queues.
//!
//! `AMQP_URL` and `AMQP_MANAGEMENT_URL` say where it is, with a user that may make virtual hosts (`guest` may).
#![expect(
    clippy::expect_used,
    reason = "a helper that fails fails its test; the message says what was expected"
)]

use std::time::{Duration, Instant};

use lapin::options::{BasicGetOptions, BasicPublishOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use reqwest::{Client, Method};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

use crate::{SOON, eventually};

/// A virtual host; deleted, with its queues and connections, when the value is dropped.
pub struct Vhost {
    /// The address for `AMQP_URL` of what is tested.
    pub url: String,
    name: String,
    management: String,
    client: Client,
    /// The test's own connection, beside those that are tested.
    control: Connection,
}

impl Vhost {
    /// Makes one.
    ///
    /// # Panics
    ///
    /// If the environment does not name a RabbitMQ, or it can't be reached.
    pub async fn create() -> Self {
        let env = |name| {
            std::env::var(name).unwrap_or_else(|_| {
                panic!("{name} is not set: `./dev test` sets it; by hand, name a RabbitMQ with its management plugin")
            })
        };
        let mut uri: AMQPUri = env("AMQP_URL").parse().expect("AMQP_URL must be an AMQP address");
        let management = env("AMQP_MANAGEMENT_URL").trim_end_matches('/').to_owned();
        // reqwest is built without a TLS provider of its own, and asks for one even for plain HTTP.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let client = Client::builder().timeout(SOON).build().expect("an HTTP client");
        let name = format!("test-{}", Uuid::new_v4().simple());
        uri.vhost.clone_from(&name);
        let user = uri.authority.userinfo.username.clone();
        let url = uri.to_string();
        send(&client, Method::PUT, &format!("{management}/api/vhosts/{name}"), None).await;
        let all = serde_json::json!({"configure": ".*", "write": ".*", "read": ".*"});
        let permissions = format!("{management}/api/permissions/{name}/{user}");
        send(&client, Method::PUT, &permissions, Some(all)).await;
        let properties = ConnectionProperties::default().with_connection_name("test control".into());
        let control = Connection::connect(&url, properties)
            .await
            .expect("the test's own connection");
        Self {
            url,
            name,
            management,
            client,
            control,
        }
    }

    /// A channel of the test's own.
    pub async fn channel(&self) -> Channel {
        self.control.create_channel().await.expect("a channel")
    }

    /// Ready messages and consumers of a queue, asked of the queue itself: the management's figures lag.
    pub async fn queue(&self, queue: &str) -> (u32, u32) {
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let channel = self.channel().await;
        match channel
            .queue_declare(queue.into(), passive, FieldTable::default())
            .await
        {
            Ok(queue) => (queue.message_count(), queue.consumer_count()),
            Err(_) => (0, 0),
        }
    }

    /// Waits until a queue has so many ready messages and consumers.
    ///
    /// # Panics
    ///
    /// If it has not [`SOON`].
    pub async fn wait_queue(&self, queue: &str, ready: u32, consumers: u32) {
        let began = Instant::now();
        loop {
            let found = self.queue(queue).await;
            if found == (ready, consumers) {
                return;
            }
            assert!(
                began.elapsed() < SOON,
                "not within {SOON:?}: {queue} has (ready, consumers) {found:?} and not {:?}",
                (ready, consumers)
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Takes a message out of a queue.
    pub async fn get(&self, queue: &str) -> Option<(BasicProperties, Vec<u8>)> {
        let options = BasicGetOptions { no_ack: true };
        let got = self
            .channel()
            .await
            .basic_get(queue.into(), options)
            .await
            .expect("basic.get");
        got.map(|message| (message.delivery.properties, message.delivery.data))
    }

    /// Publishes anything.
    pub async fn put(&self, exchange: &str, key: &str, properties: BasicProperties, body: &[u8]) {
        let channel = self.channel().await;
        channel.confirm_select(Default::default()).await.expect("confirm mode");
        let options = BasicPublishOptions::default();
        let published = channel
            .basic_publish(exchange.into(), key.into(), options, body, properties)
            .await;
        published.expect("a publish").await.expect("a confirm");
    }

    /// Deletes a queue.
    pub async fn delete_queue(&self, queue: &str) {
        let options = QueueDeleteOptions::default();
        self.channel()
            .await
            .queue_delete(queue.into(), options)
            .await
            .expect("a deleted queue");
    }

    /// Unbinds a queue.
    pub async fn unbind(&self, queue: &str, exchange: &str, key: &str) {
        let unbound = self.channel().await;
        let unbound = unbound.queue_unbind(queue.into(), exchange.into(), key.into(), FieldTable::default());
        unbound.await.expect("an unbound queue");
    }

    /// The connections whose own name contains `part`, by the broker's name for them.
    pub async fn connections(&self, part: &str) -> Vec<String> {
        let url = format!("{}/api/vhosts/{}/connections", self.management, self.name);
        let listed = send(&self.client, Method::GET, &url, None).await;
        let listed = listed.as_array().cloned().unwrap_or_default();
        let named = listed.iter().filter(|c| {
            c["user_provided_name"]
                .as_str()
                .or(c["client_properties"]["connection_name"].as_str())
                .is_some_and(|n| n.contains(part))
        });
        named.filter_map(|c| c["name"].as_str().map(Into::into)).collect()
    }

    /// The numbers of the open channels of the connections whose own name contains `part`.
    pub async fn channels(&self, part: &str) -> Vec<u16> {
        let mut numbers = Vec::new();
        for name in self.connections(part).await {
            let url = self.of_connection(&name, &["channels"]);
            let listed = self.client.get(url).send().await.expect("the management answers");
            let listed: Value = listed.json().await.unwrap_or(Value::Null);
            let listed = listed.as_array().cloned().unwrap_or_default();
            numbers.extend(listed.iter().filter_map(|c| u16::try_from(c["number"].as_u64()?).ok()));
        }
        numbers
    }

    fn of_connection(&self, name: &str, more: &[&str]) -> reqwest::Url {
        let mut url = reqwest::Url::parse(&self.management).expect("AMQP_MANAGEMENT_URL must be a URL");
        let mut segments = url.path_segments_mut().expect("a URL with a path");
        segments.extend(["api", "connections", name]).extend(more);
        drop(segments);
        url
    }

    /// Has the broker close the connections whose own name contains `part`; says how many there were.
    pub async fn close_connections(&self, part: &str) -> usize {
        // A connection that has just been made is listed only a moment later.
        let mut names = Vec::new();
        eventually("the connection is listed", async || {
            names = self.connections(part).await;
            !names.is_empty()
        })
        .await;
        for name in &names {
            let closed = self.client.delete(self.of_connection(name, &[])).send().await;
            closed.expect("the management answers");
        }
        names.len()
    }
}

impl Drop for Vhost {
    fn drop(&mut self) {
        let url = format!("{}/api/vhosts/{}", self.management, self.name);
        // On a thread and with a client of its own: there is no waiting in here, and the test's runtime, which drives the
        // pooled connections of the other client, stands still.
        let deleted = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let client = Client::builder().timeout(Duration::from_secs(5)).build();
            let delete = async { client?.delete(url).send().await.map(drop) };
            runtime.block_on(delete).map_err(std::io::Error::other)
        });
        drop(deleted.join());
    }
}

async fn send(client: &Client, method: Method, url: &str, body: Option<Value>) -> Value {
    let request = client.request(method, url);
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    let answer = request
        .send()
        .await
        .expect("the management of AMQP_MANAGEMENT_URL answers");
    let status = answer.status();
    let text = answer.text().await.expect("an answer");
    assert!(status.is_success(), "RabbitMQ's management answered {status}: {text}");
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

/// A way to the broker that can fall silent in both directions, with no reset (a half-open link), and that can put in a
/// frame of its own: what a broker or a client would not say on demand.
///
/// A frame may only be put in while the link is idle, so that it does not land inside another one.
pub struct Proxy {
    silent: watch::Sender<bool>,
    to_client: broadcast::Sender<Vec<u8>>,
    to_server: broadcast::Sender<Vec<u8>>,
}

impl Proxy {
    /// Starts one in front of the broker of `url`; also gives the address through it.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn before(url: &str) -> (Self, String) {
        let mut uri: AMQPUri = url.parse().expect("an AMQP address");
        let target = format!("{}:{}", uri.authority.host, uri.authority.port);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        uri.authority.host = "127.0.0.1".into();
        uri.authority.port = listener.local_addr().expect("an address").port();
        let proxy = Self {
            silent: watch::Sender::new(false),
            to_client: broadcast::Sender::new(8),
            to_server: broadcast::Sender::new(8),
        };
        let (silent, to_client, to_server) = (
            proxy.silent.subscribe(),
            proxy.to_client.clone(),
            proxy.to_server.clone(),
        );
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (to_client, to_server) = (to_client.subscribe(), to_server.subscribe());
                tokio::spawn(pass(client, target.clone(), silent.clone(), to_client, to_server));
            }
        });
        (proxy, uri.to_string())
    }

    /// From now on nothing gets through, on old links and on new ones; or again everything on new ones.
    pub fn silence(&self, silent: bool) {
        self.silent.send_replace(silent);
    }

    /// Says `connection.blocked` to every client, as a broker does with a memory or disk alarm.
    ///
    /// # Panics
    ///
    /// If there is no link.
    pub fn block(&self, reason: &str) {
        let mut payload = vec![0, 10, 0, 60, u8::try_from(reason.len()).expect("a short reason")];
        payload.extend(reason.as_bytes());
        self.to_client.send(method_frame(0, &payload)).expect("a link");
    }

    /// Says `connection.unblocked` to every client.
    ///
    /// # Panics
    ///
    /// If there is no link.
    pub fn unblock(&self) {
        self.to_client.send(method_frame(0, &[0, 10, 0, 61])).expect("a link");
    }

    /// Sends the broker a `basic.ack` of a delivery that it never made: it closes that channel (406).
    ///
    /// # Panics
    ///
    /// If there is no link.
    pub fn foreign_ack(&self, channel: u16) {
        let mut payload = vec![0, 60, 0, 80];
        payload.extend(999_999_u64.to_be_bytes());
        payload.push(0);
        self.to_server.send(method_frame(channel, &payload)).expect("a link");
    }
}

/// A method frame of AMQP 0-9-1: type, channel, size, payload, end.
fn method_frame(channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![1];
    frame.extend(channel.to_be_bytes());
    frame.extend(u32::try_from(payload.len()).expect("a small frame").to_be_bytes());
    frame.extend(payload);
    frame.push(0xCE);
    frame
}

async fn pass(
    client: TcpStream,
    target: String,
    mut silent: watch::Receiver<bool>,
    to_client: broadcast::Receiver<Vec<u8>>,
    to_server: broadcast::Receiver<Vec<u8>>,
) {
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    let relays = async {
        tokio::select! {
            () = relay(client_in, server_out, to_server) => {}
            () = relay(server_in, client_out, to_client) => {}
        }
    };
    let mut relays = std::pin::pin!(relays);
    let fell_silent = async { silent.wait_for(|silent| *silent).await.map(drop) };
    tokio::select! {
        () = &mut relays => {}
        Ok(()) = fell_silent => {
            // Both sockets stay open, and nobody reads them.
            std::future::pending::<()>().await;
        }
    }
}

async fn relay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut put_in: broadcast::Receiver<Vec<u8>>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let written = tokio::select! {
            biased;
            read = from.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return,
                Ok(read) => to.write_all(&buffer[..read]).await,
            },
            Ok(frame) = put_in.recv() => to.write_all(&frame).await,
        };
        if written.is_err() {
            return;
        }
    }
}

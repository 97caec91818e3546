//! The simulator from outside, over real connections: a server on a free port and a plain HTTP/1.1 client.
//!
//! The client never repeats a request and shows whether a transfer was whole, which most clients hide.

mod control;
mod faults;
mod plain;
mod stream;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

/// Long enough for a busy machine, short enough to notice a hang.
const LIMIT: Duration = Duration::from_secs(20);

/// What a client got.
#[derive(Debug)]
struct Got {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// The transfer ended as HTTP says it must.
    whole: bool,
}

impl Got {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    fn content(&self) -> String {
        self.json()["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn kind(&self) -> &str {
        self.headers
            .get(header::CONTENT_TYPE)
            .map_or("", |kind| kind.to_str().unwrap())
    }

    /// The events of a stream, `[DONE]` as a string.
    fn events(&self) -> Vec<Value> {
        let events = self
            .text()
            .split_terminator("\n\n")
            .map(|event| event.strip_prefix("data: ").unwrap());
        events
            .map(|data| serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned())))
            .collect()
    }
}

struct Sim(SocketAddr);

impl Sim {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sim = Self(listener.local_addr().unwrap());
        tokio::spawn(crate::server::serve(listener, crate::control::router()));
        sim
    }

    /// A simulator with one behaviour queued for the model `m`.
    async fn with(behaviour: Value) -> Self {
        let sim = Self::start().await;
        sim.script(json!([behaviour])).await;
        sim
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.0).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn send(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Result<Got, hyper::Error> {
        send(&mut self.connect().await, method, path, body).await
    }

    async fn script(&self, behaviours: Value) {
        let got = self
            .send(
                "PUT",
                "/_sim/next",
                json!({"model": "m", "behaviours": behaviours}).to_string(),
            )
            .await;
        let got = got.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
    }

    async fn ask(&self, body: Value) -> Result<Got, hyper::Error> {
        self.send("POST", "/v1/chat/completions", body.to_string()).await
    }

    async fn calls(&self) -> Vec<Value> {
        let got = self.send("GET", "/_sim/calls", "").await.unwrap();
        got.json().as_array().unwrap().clone()
    }

    /// How the calls ended, oldest first.
    async fn ended(&self) -> Vec<String> {
        self.calls()
            .await
            .iter()
            .map(|call| call["ended"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Waits until the log says so. What the other side of a connection has noticed cannot be signalled.
    async fn until_ended(&self, wanted: &[&str]) {
        let start = Instant::now();
        while self.ended().await != wanted {
            assert!(start.elapsed() < LIMIT, "never {wanted:?}: {:?}", self.ended().await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn send(
    sender: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    body: impl Into<Bytes>,
) -> Result<Got, hyper::Error> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "simulator");
    let request = request
        .header("X-Test", "a")
        .header("x-test", "b")
        .body(Full::new(body.into()))
        .unwrap();
    let (head, mut rest) = tokio::time::timeout(LIMIT, sender.send_request(request))
        .await
        .unwrap()?
        .into_parts();
    let (mut body, mut whole) = (Vec::new(), true);
    while let Some(frame) = tokio::time::timeout(LIMIT, rest.frame()).await.unwrap() {
        match frame {
            Ok(frame) => body.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(_) => {
                whole = false;
                break;
            }
        }
    }
    Ok(Got {
        status: head.status,
        headers: head.headers,
        body,
        whole,
    })
}

/// A plain request to the model `m`.
fn plain() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "Charged twice!"}]})
}

fn streamed() -> Value {
    let mut body = plain();
    body["stream"] = true.into();
    body
}

/// The request wants this schema.
fn under(mut body: Value, schema: &Value) -> Value {
    body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
    body
}

fn triage() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["category", "urgency", "summary"], "properties": {
        "category": {"enum": ["billing", "technical", "account", "other"]},
        "urgency": {"type": "integer", "minimum": 1, "maximum": 5},
        "summary": {"type": "string"}}})
}

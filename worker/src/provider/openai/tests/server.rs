//! A server of scripts: one for each request that it gets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What is done after a request was read.
#[derive(Clone)]
pub(super) struct Script {
    send: Vec<u8>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// The next request on this connection.
    Keep,
    Close,
    Reset,
    /// Neither a byte nor an end.
    Silence,
}

impl Script {
    fn new(send: impl Into<Vec<u8>>, then: Then) -> Self {
        Self {
            send: send.into(),
            then,
        }
    }

    /// A whole answer, and the connection stays.
    pub fn answer(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::new(
            format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}"),
            Then::Keep,
        )
    }

    pub fn json(status: &str, body: &str) -> Self {
        Self::answer(status, "content-type: application/json\r\n", body)
    }

    /// An event stream whose end is the connection's.
    pub fn stream(events: &str) -> Self {
        Self::new(format!("{STREAM_HEAD}{events}"), Then::Close)
    }

    /// Sends so much, and then nothing more, without an end.
    pub fn silent_after(send: &str) -> Self {
        Self::new(send, Then::Silence)
    }

    pub fn closed_after(send: &str) -> Self {
        Self::new(send, Then::Close)
    }

    pub fn reset_after(send: &str) -> Self {
        Self::new(send, Then::Reset)
    }
}

pub(super) const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n";

/// It plays its scripts in order, whatever connection a request comes on; after the last one it closes connections.
pub(super) struct Server {
    pub base_url: String,
    requests: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    pub async fn start(scripts: impl IntoIterator<Item = Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let mut scripts: Vec<Script> = scripts.into_iter().collect();
        scripts.reverse();
        let scripts = Arc::new(Mutex::new(scripts));
        let seen = Arc::clone(&requests);
        let accepting = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(connection, Arc::clone(&scripts), Arc::clone(&seen)));
            }
        });
        Self {
            base_url,
            requests,
            accepting,
        }
    }

    /// Every request so far, as it came.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut connection: TcpStream, scripts: Arc<Mutex<Vec<Script>>>, seen: Arc<Mutex<Vec<String>>>) {
    while let Some(request) = read(&mut connection).await {
        seen.lock().unwrap().push(request);
        let script = scripts.lock().unwrap().pop();
        let Some(Script { send, then }) = script else { return };
        if connection.write_all(&send).await.is_err() {
            return;
        }
        match then {
            Then::Keep => {}
            Then::Close => return,
            Then::Reset => {
                // Whatever is still on its way gets there before the reset does.
                tokio::time::sleep(Duration::from_millis(50)).await;
                connection.set_zero_linger().unwrap();
                return;
            }
            Then::Silence => {
                // The client's own end: it gave up.
                drop(connection.read(&mut [0]).await);
                return;
            }
        }
    }
}

async fn read(connection: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        match connection.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(0, |(_, value)| value.parse().unwrap());
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
    }
}

//! What the tests on real services share: a virtual host and a database for each test, and OneJob's own processes.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test; the message says what was expected"
)]

pub mod broker;
pub mod client;
pub mod database;
pub mod process;
pub mod simulator;
pub mod stack;
pub mod valve;

use std::time::{Duration, Instant};

/// How long a test waits for what must happen.
pub const SOON: Duration = Duration::from_secs(30);

/// Asks again and again, for what nobody sends a signal for.
///
/// # Panics
///
/// If it has not become true [`SOON`].
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A variable that `./dev test` sets.
fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run the tests with `./dev test`"))
}

/// reqwest is built without a TLS provider of its own, and asks for one even for plain HTTP.
fn install_tls() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

/// A client that waits longer than any answer may take, and not for ever.
fn http() -> reqwest::Client {
    install_tls();
    let longest = Duration::from_secs(90);
    reqwest::Client::builder()
        .timeout(longest)
        .build()
        .expect("an HTTP client")
}

//! What a repeat gets (scenario B20), and requests that break off (B21).

use onejob_tests::simulator::rejected;
use onejob_tests::stack::{Stack, intent};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_gives_the_job_as_it_stands_and_starts_nothing() {
    let (stack, api, _worker, _reconciler) = Stack::up().await;
    let client = stack.producer(&api, "shop").await;
    // A request that was refused holds no key.
    assert_eq!(client.submit("k", &json!({"contract": "no-such@1"})).await.status, 400);
    let mut wrong = intent("x");
    wrong["input"] = json!({"nope": 1});
    assert_eq!(client.submit("k", &wrong).await.problem(), "input-invalid");
    assert_eq!(client.submit("k", &intent("right")).await.status, 201);

    stack.simulator.calls("sim-primary").await;
    let id = client.submit("k", &intent("right")).await.id();
    client.until(&id, "succeeded").await;
    stack.simulator.next("sim-primary", json!([rejected()])).await;
    let failed = client.submit("failed", &intent("fails")).await.id();
    client.until(&failed, "failed").await;
    stack.simulator.next("sim-primary", json!([{"drop": "after"}])).await;
    let unknown = client.submit("unknown", &intent("lost")).await.id();
    client.until(&unknown, "unknown").await;
    for (key, message, id, state) in [
        ("k", "right", &id, "succeeded"),
        ("failed", "fails", &failed, "failed"),
        ("unknown", "lost", &unknown, "unknown"),
    ] {
        let before = client.job(id).await;
        let again = client.submit(key, &intent(message)).await;
        assert_eq!((again.status, again.replayed()), (200, true), "{state}");
        assert_eq!(again.json, before, "{state}: the job as it stands");
        assert_eq!(client.job(id).await, before);
    }
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_cut_at_any_byte_wedges_no_key() {
    let (stack, api, _worker, _reconciler) = Stack::up().await;
    let client = stack.producer(&api, "shop").await;
    let secret = client.request(reqwest::Method::GET, "/").build().unwrap();
    let credential = secret.headers()["authorization"].to_str().unwrap().to_owned();
    let address = client.url.trim_start_matches("http://").to_owned();
    let body = intent("cut").to_string();
    for n in 1..=7 {
        let key = format!("cut-{n}");
        let request = format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: onejob\r\nauthorization: {credential}\r\nidempotency-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut connection = TcpStream::connect(&address).await.unwrap();
        let cut = request.len() * n / 7;
        let whole = cut == request.len();
        let sent = &request.as_bytes()[..cut];
        connection.write_all(sent).await.unwrap();
        if !whole {
            // Nothing can have been answered to a part.
            connection.shutdown().await.unwrap();
            let mut answer = String::new();
            drop(connection.read_to_string(&mut answer).await);
            assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        }
        drop(connection);
        let retried = client.submit(&key, &intent("cut")).await;
        assert!(matches!(retried.status, 200 | 201), "cut at {cut}: {retried:?}");
        assert!(whole || retried.status == 201, "a part of a request makes no job");
        client.until(&retried.id(), "succeeded").await;
    }
    assert_eq!(stack.simulator.calls("sim-primary").await.len(), 7);
}

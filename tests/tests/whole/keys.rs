//! Idempotency keys: races, syntax, owners (scenarios B12, B14, B18, B19).

use futures::future::join_all;
use onejob_tests::client::Client;
use onejob_tests::eventually;
use onejob_tests::stack::{Stack, intent};
use reqwest::Method;
use reqwest::header::HeaderValue;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_posts_of_one_key_over_two_api_processes_are_one_job() {
    let stack = Stack::create().await;
    let (mut first, second, _worker, _reconciler) =
        tokio::join!(stack.api(), stack.api(), stack.worker(), stack.reconciler());
    let clients = [
        stack.producer(&first, "shop").await,
        stack.producer(&second, "shop").await,
    ];
    let body = intent("a hundred times");
    let post = |n: usize| {
        let (client, other, body) = (clients[n % 2].clone(), clients[1].clone(), body.clone());
        async move {
            match client.try_submit("hundred", &body).await {
                Ok(answer) => answer,
                // Its process was killed: at the other one.
                Err(_) => other.submit("hundred", &body).await,
            }
        }
    };
    let (answers, ()) = tokio::join!(join_all((0..100).map(post)), first.kill());
    let id = answers[0].id();
    for answer in &answers {
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        assert_eq!(answer.id(), id);
        assert_eq!(answer.replayed(), answer.status == 200);
    }
    let restarted = stack.api().await;
    let back = Client::new(restarted.listen.as_ref().unwrap(), "");
    assert_eq!(back.get("/v1/jobs").await.status, 401);
    clients[1].until(&id, "succeeded").await;
    // The losers' connections are as good as new.
    for n in 0..20 {
        assert_eq!(clients[1].submit(&format!("after-{n}"), &body).await.status, 201);
    }
    assert_eq!(
        stack
            .database
            .count("SELECT count(*) FROM jobs WHERE idempotency_key = 'hundred'")
            .await,
        1
    );
    assert_eq!(stack.database.count("SELECT count(*) FROM attempts").await, 21);
    eventually("every job has one call", async || {
        stack.simulator.calls("sim-primary").await.len() == 21
    })
    .await;
    let counted = |outcome: &'static str| {
        let second = &second;
        async move {
            second
                .metric("onejob_jobs_accepted_total", &[("outcome", outcome)])
                .await
                .unwrap()
        }
    };
    assert_eq!(counted("conflict").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_idempotency_key_may_be() {
    let stack = Stack::create().await;
    let api = stack.api().await;
    let client = stack.producer(&api, "shop").await;
    let body = intent("keys");
    let post = async |keys: &[&[u8]]| {
        let mut request = client.request(Method::POST, "/v1/jobs").json(&body);
        for key in keys {
            // Whatever HTTP lets through is sent: the server is to judge it.
            request = request.header("idempotency-key", HeaderValue::from_bytes(key).unwrap());
        }
        client.send(request).await.unwrap()
    };
    let longest = [b'k'; 255];
    let too_long = [b'k'; 256];
    let not_ascii = "é".repeat(128);
    let refused: [(&[&[u8]], &str); 11] = [
        (&[], "idempotency-key-missing"),
        (&[b""], "idempotency-key-invalid"),
        (&[b"   "], "idempotency-key-invalid"),
        (&[b"\"\""], "idempotency-key-invalid"),
        (&[&too_long], "idempotency-key-invalid"),
        (&[not_ascii.as_bytes()], "idempotency-key-invalid"),
        (&[b"a\tb"], "idempotency-key-invalid"),
        (&[b"\xff\xfe"], "idempotency-key-invalid"),
        (&[b"one", b"two"], "idempotency-key-invalid"),
        (&[b"\"open"], "idempotency-key-invalid"),
        (&[b"\"a\" \"b\""], "idempotency-key-invalid"),
    ];
    for (keys, problem) in refused {
        let answer = post(keys).await;
        assert_eq!((answer.status, answer.problem()), (400, problem), "{keys:?}");
    }
    assert_eq!(stack.database.count("SELECT count(*) FROM jobs").await, 0);
    for key in [&b"k"[..], &longest, b"a,b", b"a b", b"K"] {
        let answer = post(&[key]).await;
        assert_eq!(answer.status, 201, "{key:?}: {answer:?}");
        let quoted = [b"\"", key, b"\""].concat();
        let again = post(&[&quoted]).await;
        assert_eq!(
            (again.status, again.id()),
            (200, answer.id()),
            "quoted and bare are one"
        );
    }
    let kept = "SELECT count(*) FROM jobs WHERE length(idempotency_key) = 255";
    assert_eq!(stack.database.count(kept).await, 1, "nothing was cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_belongs_to_its_owner_and_not_to_the_api_key_that_sent_it() {
    let stack = Stack::create().await;
    let api = stack.api().await;
    let (one, same_owner, other) = (
        stack.producer(&api, "shop").await,
        stack.producer(&api, "shop").await,
        stack.producer(&api, "bank").await,
    );
    let first = one.submit("order-1", &intent("mine")).await;
    assert_eq!(same_owner.submit("order-1", &intent("mine")).await.id(), first.id());
    let theirs = other.submit("order-1", &intent("something else")).await;
    assert_eq!(theirs.status, 201, "{theirs:?}");
    assert_ne!(theirs.id(), first.id());
    // What another owner sees of a job that is there is what they see of one that is not.
    let missing = "018f0000-0000-7000-8000-000000000001";
    let (there, not_there) = (first.id(), missing.to_owned());
    for (method, path, body) in [
        (Method::GET, "/v1/jobs/ID", json!(null)),
        (Method::POST, "/v1/jobs/ID/attempts", json!({})),
        (Method::POST, "/v1/jobs/ID/cancel", json!({})),
    ] {
        let ask = async |id: &str| {
            let request = other.request(method.clone(), &path.replace("ID", id));
            let request = if body.is_null() { request } else { request.json(&body) };
            let mut answer = other.send(request).await.unwrap();
            // It names the id that was asked for.
            answer.json = serde_json::from_str(&answer.json.to_string().replace(id, "ID")).unwrap();
            (answer.status, answer.json)
        };
        let found = ask(&there).await;
        assert_eq!(found.0, 404, "{method} {path}");
        assert_eq!(found, ask(&not_there).await, "{method} {path}");
    }
    let listed = other.get("/v1/jobs?idempotency_key=order-1").await;
    assert_eq!(listed.json["items"].as_array().map(Vec::len), Some(1));
    let smuggled =
        json!({"contract": "ticket-triage@1", "provider": "primary", "input": {"message": "x"}, "owner": "shop"});
    assert_eq!(other.submit("order-2", &smuggled).await.problem(), "body-invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_intents_in_other_words_are_one_and_unequal_ones_are_not() {
    let stack = Stack::create().await;
    let (api, _worker, _reconciler) = tokio::join!(stack.api(), stack.worker(), stack.reconciler());
    let client = stack.producer(&api, "shop").await;
    let body = |options: &str| {
        format!(
            r#"{{"contract":"summarize@1","provider":"primary","input":{{"text":"caf\u00e9","options":{options}}}}}"#
        )
    };
    let post = async |text: String| {
        let request = client
            .request(Method::POST, "/v1/jobs")
            .header("idempotency-key", "k")
            .header("content-type", "application/json");
        client.send(request.body(text)).await.unwrap()
    };
    let options = r#"{"t":1.0,"o":{"b":2,"a":1},"l":[1,2],"n":null,"z":-0}"#;
    let first = post(body(options)).await;
    assert_eq!(first.status, 201, "{first:?}");
    for (from, to) in [
        ("1.0", "1"),
        ("1.0", "1e0"),
        ("1.0", "10e-1"),
        (r#"{"b":2,"a":1}"#, r#"{ "a" : 1,  "b":2 }"#),
        ("-0", "0"),
        ("\"t\"", "\"\\u0074\""),
    ] {
        let again = post(body(&options.replacen(from, to, 1))).await;
        assert_eq!((again.status, again.id()), (200, first.id()), "{from} and {to} are one");
    }
    let raw = post(body(options).replace("\\u00e9", "\u{e9}")).await;
    assert_eq!(raw.status, 200, "an escape is its character");
    for (from, to) in [
        ("[1,2]", "[2,1]"),
        ("1.0", "\"1\""),
        ("1.0", "1.0000000000000000000000001"),
        (r#","n":null"#, ""),
        ("\"t\"", "\"T\""),
    ] {
        let refused = post(body(&options.replacen(from, to, 1))).await;
        assert_eq!(
            (refused.status, refused.problem()),
            (409, "idempotency-key-reused"),
            "{from} is not {to}"
        );
    }
    let decomposed = post(body(options).replace("\\u00e9", "e\u{301}")).await;
    assert_eq!(
        decomposed.status, 409,
        "text is not normalised: the model would see other bytes"
    );
    let with_mark = post(format!("\u{feff}{}", body(options))).await;
    assert_eq!(
        (with_mark.status, with_mark.problem()),
        (400, "body-invalid"),
        "a byte order mark is not JSON"
    );
    client.until(&first.id(), "succeeded").await;
    let sent = stack.simulator.calls("sim-primary").await[0]["body"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(sent.contains("1.0"), "the provider gets the original: {sent}");
}

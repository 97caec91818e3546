//! Metrics: there from the start, and as many after a thousand jobs as after a few (scenarios B57, B58).

use futures::future::join_all;
use onejob_tests::process::Process;
use onejob_tests::simulator::answer_after;
use onejob_tests::stack::{Stack, TRIAGE, intent, intent_with};
use onejob_tests::{SOON, eventually};
use serde_json::{Value, json};

async fn series(processes: &[&Process]) -> usize {
    let mut sum = 0;
    for process in processes {
        let url = format!("{}/metrics", process.admin.as_ref().unwrap());
        let text = reqwest::get(&url).await.unwrap().text().await.unwrap();
        sum += text.lines().filter(|line| line.starts_with("onejob_")).count();
    }
    sum
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_series_does_not_grow_with_jobs_owners_models_or_errors() {
    let (stack, api, worker, reconciler) = Stack::up().await;
    let processes = [&api, &worker, &reconciler];
    let odd: Vec<Value> = (0..60)
        .map(|n| match n % 3 {
            0 => json!({"model": format!("model-{n}")}),
            1 => json!({"status": 400, "body": format!(r#"{{"error":{{"message":"text {n}"}}}}"#)}),
            _ => json!({"status": 418 + n, "body": "{}"}),
        })
        .collect();
    stack.simulator.next("sim-primary", json!(odd)).await;
    let round = async |owners: usize, jobs: usize| {
        let mut submitted = Vec::new();
        for owner in 0..owners {
            let client = stack.producer(&api, &format!("owner-{owner}")).await;
            submitted.extend((0..jobs).map(|n| {
                let client = client.clone();
                async move {
                    client
                        .submit(
                            &format!("key-{owner}-{n}"),
                            &intent_with("x", json!({"max_attempts": 1})),
                        )
                        .await
                        .id()
                }
            }));
        }
        join_all(submitted).await;
        eventually("all are closed or unknown", async || {
            let open = "SELECT count(*) FROM attempts WHERE state IN ('queued', 'starting', 'running')";
            stack.database.count(open).await == 0
        })
        .await;
    };
    let at_start = series(&processes).await;
    round(5, 20).await;
    let few = series(&processes).await;
    round(30, 40).await;
    assert_eq!(few, at_start, "every series was there from the start");
    assert_eq!(
        series(&processes).await,
        few,
        "a thousand jobs and thirty owners more add none"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_race_loss_of_a_process_shows_as_an_increase_from_zero() {
    let (stack, api, worker, reconciler) = Stack::up().await;
    stack.certify("backup", TRIAGE).await;
    let client = stack.producer(&api, "shop").await;
    for process in [&worker, &reconciler] {
        for reason in ["late", "after_cancel", "after_resolution"] {
            for provider in ["primary", "backup"] {
                let labels = [("reason", reason), ("provider", provider)];
                let loss = process.metric("onejob_race_losses_total", &labels).await;
                assert_eq!(loss, Some(0.0), "{labels:?}");
            }
        }
    }
    assert_eq!(
        reconciler
            .metric("onejob_unknown_attempts", &[("provider", "primary")])
            .await,
        Some(0.0)
    );
    stack
        .simulator
        .next("sim-primary", json!([answer_after(6_000, "late")]))
        .await;
    let body = intent_with("race", json!({"fallback": ["backup"], "hedge_after_ms": 50}));
    let id = client.submit("race", &body).await.id();
    client.until(&id, "succeeded").await;
    let labels = [("provider", "primary"), ("reason", "late")];
    eventually("one loss", async || {
        worker.metric("onejob_race_losses_total", &labels).await == Some(1.0)
    })
    .await;
    assert_eq!(
        stack
            .database
            .count("SELECT count(*) FROM attempts WHERE state = 'lost'")
            .await,
        1
    );

    stack.simulator.next("sim-primary", json!([{"drop": "after"}])).await;
    let unknown = client.submit("unknown", &intent("lost")).await.id();
    client.until(&unknown, "unknown").await;
    let provider = [("provider", "primary")];
    eventually("the unknown one shows", async || {
        reconciler.metric("onejob_unknown_attempts", &provider).await == Some(1.0)
    })
    .await;
    assert!(
        reconciler
            .metric("onejob_unknown_oldest_seconds", &provider)
            .await
            .unwrap()
            < SOON.as_secs_f64()
    );
    assert_eq!(
        worker.metric("onejob_unknown_attempts", &provider).await,
        None,
        "the reconciler alone exports it"
    );
}

//! Taking jobs in: grouped inserts, and the publishing after their commit.
//!
//! Both run in tasks of their own: a client that goes away in the middle leaves a whole job, published, or none.

use std::time::Duration;

use onejob_common::broker::{Outgoing, Publisher};
use onejob_common::domain::{AttemptId, AttemptNumber, Identity, ProviderName};
use onejob_common::grouping::{Grouped, Stopped};
use onejob_common::store::job::{Accepted, NewJob};
use onejob_common::store::{Store, StoreError};
use onejob_common::telemetry::{accepted, metrics};
use tokio_util::task::TaskTracker;

/// The most jobs of one statement.
const MOST: usize = 100;
/// Statements that run at the same time.
const WRITERS: usize = 4;
/// How soon the relay tries a message that the broker did not confirm.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The way in. Cheap to clone.
#[derive(Clone)]
pub struct Accepter(Grouped<NewJob, Result<Accepted, StoreError>>);

impl Accepter {
    /// Starts the writers; what they publish is tracked in `tasks`. `republish_after` is when the relay takes over what
    /// was not published.
    #[must_use]
    pub fn start(store: Store, publisher: Publisher, republish_after: Duration, tasks: TaskTracker) -> Self {
        Self(Grouped::spawn(WRITERS, MOST, move |jobs: Vec<NewJob>| {
            let (store, publisher, tasks) = (store.clone(), publisher.clone(), tasks.clone());
            async move {
                let answers = match store.accept(&jobs, republish_after).await {
                    Ok(answers) => answers.into_iter().map(Ok).collect(),
                    Err(error) if jobs.len() == 1 || error.is_transient() => {
                        jobs.iter().map(|_| Err(error.again())).collect()
                    }
                    // One of them is what the database refuses: it must not take the others with it.
                    Err(_) => one_by_one(&store, &jobs, republish_after).await,
                };
                let created = jobs.iter().zip(&answers).filter_map(|(job, answer)| match answer {
                    Ok(Accepted::Created { .. }) => Some(first_attempt(job)),
                    Ok(Accepted::Replayed { .. } | Accepted::Conflict { .. }) | Err(_) => None,
                });
                publish(&store, &publisher, created.collect(), &tasks);
                answers
            }
        }))
    }

    /// Stores a job, once.
    ///
    /// # Errors
    ///
    /// If the database can't do it, or the process is stopping.
    pub async fn accept(&self, job: NewJob) -> Result<Result<Accepted, StoreError>, Stopped> {
        self.0.call(job).await
    }
}

async fn one_by_one(store: &Store, jobs: &[NewJob], republish_after: Duration) -> Vec<Result<Accepted, StoreError>> {
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let answer = store.accept(std::slice::from_ref(job), republish_after).await;
        let none = || StoreError::Unreadable("a statement without an answer".to_owned());
        answers.push(answer.and_then(|answers| answers.into_iter().next().ok_or_else(none)));
    }
    answers
}

fn first_attempt(job: &NewJob) -> Outgoing {
    let attempt = AttemptId::new(job.id, AttemptNumber::FIRST);
    let identity = Identity {
        attempt,
        owner: job.owner.clone(),
        traceparent: job.traceparent.clone(),
    };
    metrics::job_accepted(&job.contract, metrics::AcceptOutcome::Created);
    accepted(&job.provider);
    tracing::info!(
        job_id = %job.id, attempt_id = %attempt, owner = %job.owner, trace_id = %identity.trace_id(),
        contract = %job.contract, provider = %job.provider, "accepted"
    );
    outgoing(attempt, job.provider.clone(), job.traceparent.clone())
}

/// The message of an attempt.
#[must_use]
pub const fn outgoing(attempt: AttemptId, provider: ProviderName, traceparent: Option<String>) -> Outgoing {
    Outgoing {
        attempt,
        provider,
        traceparent,
    }
}

/// Publishes attempts that are committed, beside the request. What the broker does not take is left to the relay, soon.
pub fn publish(store: &Store, publisher: &Publisher, messages: Vec<Outgoing>, tasks: &TaskTracker) {
    if messages.is_empty() {
        return;
    }
    let (store, publisher) = (store.clone(), publisher.clone());
    tasks.spawn(async move {
        let answers = publisher.publish_all(&messages).await;
        let mut failed = Vec::new();
        for (message, answer) in messages.iter().zip(answers) {
            if let Err(error) = answer {
                tracing::warn!(attempt_id = %message.attempt, job_id = %message.attempt.job, %error, "not published; the relay does it");
                failed.push(message.attempt);
            }
        }
        if !failed.is_empty()
            && let Err(error) = store.bring_forward(&failed, AGAIN_AFTER).await
        {
            tracing::warn!(%error, "the relay could not be told; it finds the attempts by itself, a little later");
        }
    });
}

//! The writes of the plain way, grouped: what queues up while a statement runs goes out as the next one.

use std::time::Duration;

use onejob_common::domain::JobId;
use onejob_common::grouping::{Grouped, Stopped};
use onejob_common::retry::Retry;
use onejob_common::store::job::{Acknowledgement, Claim, Claimed, NotClaimed, Settled, Settlement};
use onejob_common::store::{Store, StoreError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The most rows of one statement.
const MOST: usize = 100;
/// Statements of one kind that run at the same time.
const WRITERS: usize = 2;

/// What a claim gave, or why the database could not say.
type Claiming = Result<Result<Claimed, NotClaimed>, StoreError>;

/// The writers of one process.
#[derive(Clone)]
pub struct Writers {
    claims: Grouped<Claim, Claiming>,
    signs: Grouped<Acknowledgement, Result<(), StoreError>>,
    settlements: Grouped<Settlement, Result<Settled, StoreError>>,
    notices: Grouped<JobId, ()>,
}

/// The writers are gone, or nobody wants the answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenUp;

impl From<Stopped> for GivenUp {
    fn from(_: Stopped) -> Self {
        Self
    }
}

impl Writers {
    /// Starts the writers of the worker process `worker`.
    #[must_use]
    pub fn start(store: &Store, worker: Uuid, grace: Duration, dead_after: Duration) -> Self {
        let claiming = store.clone();
        let claims = Grouped::spawn(WRITERS, MOST, move |claims: Vec<Claim>| {
            let store = claiming.clone();
            async move {
                match store.claim(worker, grace, dead_after, &claims).await {
                    Ok(answers) => answers.into_iter().map(Ok).collect(),
                    Err(error) if claims.len() == 1 || error.is_transient() => failed(claims.len(), &error),
                    // One of them is what the database refuses: it must not take the others with it.
                    Err(_) => {
                        let mut answers = Vec::with_capacity(claims.len());
                        for claim in claims {
                            let one = store.claim(worker, grace, dead_after, &[claim]).await;
                            answers.push(one.and_then(only));
                        }
                        answers
                    }
                }
            }
        });
        let signing = store.clone();
        let signs = Grouped::spawn(1, MOST, move |signs: Vec<Acknowledgement>| {
            let store = signing.clone();
            async move {
                match store.acknowledge(worker, &signs).await {
                    Ok(()) => signs.iter().map(|_| Ok(())).collect(),
                    Err(error) => failed(signs.len(), &error),
                }
            }
        });
        let settling = store.clone();
        let settlements = Grouped::spawn(WRITERS, MOST, move |settlements: Vec<Settlement>| {
            let store = settling.clone();
            async move {
                match store.settle(&settlements).await {
                    Ok(answers) => answers.into_iter().map(Ok).collect(),
                    Err(error) if settlements.len() == 1 || error.is_transient() => failed(settlements.len(), &error),
                    Err(_) => {
                        let mut answers = Vec::with_capacity(settlements.len());
                        for settlement in settlements {
                            answers.push(store.settle(&[settlement]).await.and_then(only));
                        }
                        answers
                    }
                }
            }
        });
        let noticing = store.clone();
        let notices = Grouped::spawn(1, MOST * 10, move |jobs: Vec<JobId>| {
            let store = noticing.clone();
            async move {
                if let Err(error) = store.notify(&jobs).await {
                    tracing::debug!(%error, "waiting clients were not woken; they find out by their slow poll");
                }
                vec![(); jobs.len()]
            }
        });
        Self {
            claims,
            signs,
            settlements,
            notices,
        }
    }

    /// Claims, for as long as the database is away, until `stop`. The time is that at which the statement was asked for.
    ///
    /// # Errors
    ///
    /// [`GivenUp`] at `stop`: it may have been claimed, and nothing was sent.
    pub async fn claim(&self, claim: Claim, stop: &CancellationToken) -> Result<(Instant, Claiming), GivenUp> {
        let mut retry = Retry::new();
        loop {
            let began = Instant::now();
            match self.claims.call(claim).await? {
                Err(error) if error.is_transient() => wait(&mut retry, &error, "claim", stop).await?,
                answer => return Ok((began, answer)),
            }
        }
    }

    /// Says that the provider gave its first sign.
    ///
    /// # Errors
    ///
    /// [`GivenUp`] at `stop`.
    pub async fn acknowledge(&self, sign: Acknowledgement, stop: &CancellationToken) -> Result<(), GivenUp> {
        let mut retry = Retry::new();
        loop {
            match self.signs.call(sign).await? {
                Err(error) if error.is_transient() => wait(&mut retry, &error, "acknowledge", stop).await?,
                Err(error) => {
                    tracing::error!(%error, "a first sign could not be stored");
                    return Ok(());
                }
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Settles with the same bytes until the database has answered, or `stop`.
    ///
    /// # Errors
    ///
    /// [`GivenUp`] at `stop`: whether it was settled is not known.
    pub async fn settle(
        &self,
        settlement: Settlement,
        stop: &CancellationToken,
    ) -> Result<Result<Settled, StoreError>, GivenUp> {
        let mut retry = Retry::new();
        loop {
            match self.settlements.call(settlement.clone()).await? {
                Err(error) if error.is_transient() => wait(&mut retry, &error, "settle", stop).await?,
                answer => return Ok(answer),
            }
        }
    }

    /// Wakes whoever waits for the job, without waiting itself.
    pub fn notify(&self, job: JobId) {
        let notices = self.notices.clone();
        tokio::spawn(async move {
            if notices.call(job).await.is_err() {
                tracing::debug!(%job, "nobody is woken while the process stops");
            }
        });
    }
}

/// Waits before a write is tried again.
///
/// # Errors
///
/// [`GivenUp`] at `stop`.
pub async fn wait(retry: &mut Retry, error: &StoreError, what: &str, stop: &CancellationToken) -> Result<(), GivenUp> {
    let delay = retry.delay();
    tracing::warn!(%error, what, retry_in_ms = delay.as_millis(), "the database did not answer; the write is repeated");
    tokio::select! {
        () = tokio::time::sleep(delay) => Ok(()),
        () = stop.cancelled() => Err(GivenUp),
    }
}

/// The same answer for every item of a group: the error itself can't be copied, so its text is.
fn failed<T>(items: usize, error: &StoreError) -> Vec<Result<T, StoreError>> {
    (0..items).map(|_| Err(error.again())).collect()
}

fn only<T>(answers: Vec<T>) -> Result<T, StoreError> {
    answers
        .into_iter()
        .next()
        .ok_or_else(|| StoreError::Unreadable("a statement without an answer".to_owned()))
}

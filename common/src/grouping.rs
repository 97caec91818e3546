//! Groups writes without making anybody wait: a writer takes what has queued up while its last statement ran, and sends it
//! as one. An idle system pays no delay (there are no timers), a busy one batches by itself.
//!
//! It also shields writes from cancelled requests: the statement runs in the writer's task, so that a client which goes
//! away in the middle leaves a whole write or none.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};

/// The writers have stopped: the process is shutting down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the process is shutting down")]
pub struct Stopped;

struct Request<I, O> {
    item: I,
    answer: oneshot::Sender<O>,
}

/// A handle to the writers of one kind of statement.
pub struct Grouped<I, O> {
    sender: mpsc::Sender<Request<I, O>>,
}

impl<I, O> Clone for Grouped<I, O> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
        }
    }
}

impl<I: Send + 'static, O: Send + 'static> Grouped<I, O> {
    /// Starts `writers` tasks that run `statement` on up to `most` items at a time. It must answer as many items as it got,
    /// in their order. They end when the last handle is dropped.
    pub fn spawn<F, R>(writers: usize, most: usize, statement: F) -> Self
    where
        F: Fn(Vec<I>) -> R + Send + Sync + 'static,
        R: Future<Output = Vec<O>> + Send,
    {
        // Callers wait for a place when the writers fall behind: back-pressure, not memory.
        let (sender, receiver) = mpsc::channel::<Request<I, O>>(most.saturating_mul(writers).saturating_mul(4).max(1));
        let receiver = Arc::new(Mutex::new(receiver));
        let statement = Arc::new(statement);
        for _ in 0..writers.max(1) {
            let (receiver, statement) = (Arc::clone(&receiver), Arc::clone(&statement));
            tokio::spawn(async move {
                loop {
                    let mut requests = Vec::new();
                    // The lock is held while waiting for the first item, so that one idle writer takes a whole group.
                    if receiver.lock().await.recv_many(&mut requests, most).await == 0 {
                        return;
                    }
                    let (items, answers): (Vec<I>, Vec<_>) = requests.into_iter().map(|r| (r.item, r.answer)).unzip();
                    for (answer, output) in answers.into_iter().zip(statement(items).await) {
                        // Nobody waits any more: the caller's request was cancelled, the write stands.
                        drop(answer.send(output));
                    }
                }
            });
        }
        Self { sender }
    }

    /// Runs one item, together with whatever else is waiting.
    ///
    /// # Errors
    ///
    /// [`Stopped`], if the writers are gone.
    pub async fn call(&self, item: I) -> Result<O, Stopped> {
        let (answer, answered) = oneshot::channel();
        self.sender
            .send(Request { item, answer })
            .await
            .map_err(|_closed| Stopped)?;
        answered.await.map_err(|_dropped| Stopped)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Mutex, Notify};

    use super::*;

    #[tokio::test]
    async fn what_queues_up_during_a_statement_goes_as_one() {
        let (sizes, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let (started, seen) = (Arc::new(Notify::new()), Arc::clone(&sizes));
        let (gate_in, started_in) = (Arc::clone(&gate), Arc::clone(&started));
        let grouped = Grouped::spawn(1, 100, move |items: Vec<u32>| {
            let (seen, gate, started) = (Arc::clone(&seen), Arc::clone(&gate_in), Arc::clone(&started_in));
            async move {
                seen.lock().await.push(items.len());
                started.notify_one();
                gate.notified().await;
                items.into_iter().map(|item| item * 2).collect()
            }
        });
        let first = tokio::spawn({
            let grouped = grouped.clone();
            async move { grouped.call(1).await }
        });
        started.notified().await;
        let rest: Vec<_> = (2..12u32)
            .map(|item| {
                let grouped = grouped.clone();
                tokio::spawn(async move { grouped.call(item).await })
            })
            .collect();
        while grouped.sender.capacity() > grouped.sender.max_capacity() - 10 {
            tokio::task::yield_now().await;
        }
        gate.notify_one();
        started.notified().await;
        gate.notify_one();
        assert_eq!(first.await.unwrap(), Ok(2));
        for (item, answer) in (2..12u32).zip(rest) {
            assert_eq!(answer.await.unwrap(), Ok(item * 2));
        }
        assert_eq!(*sizes.lock().await, [1, 10]);
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_does_not_stop_the_write() {
        let (started, go, written) = (
            Arc::new(Notify::new()),
            Arc::new(Notify::new()),
            Arc::new(Notify::new()),
        );
        let (starts, goes, writes) = (Arc::clone(&started), Arc::clone(&go), Arc::clone(&written));
        let grouped = Grouped::spawn(1, 10, move |items: Vec<()>| {
            let (starts, goes, writes) = (Arc::clone(&starts), Arc::clone(&goes), Arc::clone(&writes));
            async move {
                starts.notify_one();
                goes.notified().await;
                writes.notify_one();
                items
            }
        });
        let call = tokio::spawn({
            let grouped = grouped.clone();
            async move { grouped.call(()).await }
        });
        started.notified().await;
        call.abort();
        assert!(call.await.is_err(), "its caller is gone");
        go.notify_one();
        written.notified().await;
    }
}

//! The answer to a delivery: ack, reject, or hand back.
//!
//! A delivery tag is valid on the channel that it came by, and nowhere else; a foreign or second one makes the broker
//! close the channel, and with it every other delivery in flight comes back. So an answer that is late, since its
//! channel has died meanwhile, is dropped and not sent. That is no error: the broker has the message in the queue
//! again, and the attempt's state in PostgreSQL makes the second delivery harmless.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lapin::options::{BasicAckOptions, BasicNackOptions, BasicRejectOptions};
use tokio::time::timeout;

/// What became of an answer. None of them needs handling: whatever was not sent is delivered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acked {
    /// It was sent. (AMQP has no receipt for it: it may still be lost with the connection.)
    Sent,
    /// The channel of the delivery is gone; nothing was sent.
    Gone,
    /// It could not be sent within the limit.
    TimedOut,
}

/// Answers one delivery, once.
#[derive(Debug)]
pub struct Acker {
    inner: lapin::Acker,
    /// False once the channel was given up: lapin would take the tag for one of the next channel of that number.
    alive: Arc<AtomicBool>,
    limit: Duration,
    /// The `message_id`, for the log.
    message: String,
    answered: bool,
}

impl Acker {
    pub(super) fn new(inner: lapin::Acker, alive: Arc<AtomicBool>, limit: Duration, message: String) -> Self {
        Self {
            inner,
            alive,
            limit,
            message,
            answered: false,
        }
    }

    /// True while an answer can still be sent.
    #[must_use]
    pub fn usable(&self) -> bool {
        self.alive.load(Ordering::Acquire) && self.inner.usable()
    }

    /// Done: what the message asks for is in PostgreSQL. Call it after the commit.
    pub async fn ack(self) -> Acked {
        let acker = self.inner.clone();
        self.send("ack", acker.ack(BasicAckOptions::default())).await
    }

    /// Failed: the message goes to the dead-letter exchange, and from there to `onejob.unknown`.
    pub async fn reject_to_dlx(self) -> Acked {
        let acker = self.inner.clone();
        self.send("reject", acker.reject(BasicRejectOptions { requeue: false }))
            .await
    }

    /// Not begun: the message goes back to its queue, for another worker. A nack and not a reject, since from RabbitMQ
    /// 4.3 only a reject counts towards the delivery limit.
    pub async fn hand_back(self) -> Acked {
        let acker = self.inner.clone();
        let options = BasicNackOptions {
            multiple: false,
            requeue: true,
        };
        self.send("hand back", acker.nack(options)).await
    }

    async fn send(mut self, answer: &'static str, sending: impl Future<Output = lapin::Result<bool>>) -> Acked {
        self.answered = true;
        let outcome = if self.usable() {
            match timeout(self.limit, sending).await {
                Ok(Ok(true)) => Acked::Sent,
                // Either the channel died while it was under way, or lapin knew before.
                Ok(Ok(false) | Err(_)) => Acked::Gone,
                Err(_) => Acked::TimedOut,
            }
        } else {
            Acked::Gone
        };
        if outcome != Acked::Sent {
            tracing::debug!(attempt_id = %self.message, answer, ?outcome, "an answer was not sent; the broker delivers again");
        }
        outcome
    }
}

impl Drop for Acker {
    fn drop(&mut self) {
        if !self.answered {
            tracing::debug!(
                attempt_id = %self.message,
                "a delivery was dropped without an answer; it is delivered again when its channel ends"
            );
        }
    }
}

//! An answer as data, and the playing of it: every API says what is sent and when, this module sends it.
//!
//! The hazard is the log: a client that has seen the end of its answer and then asks for the log must find the call
//! ended. So the word is said before the last bytes are given to the connection, or before it is cut, never after.

use std::collections::VecDeque;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use tokio::time::{Instant, sleep_until};

use crate::log::{Ended, OpenCall};
use crate::server::{Cut, cut};

/// What follows the head of an answer.
#[derive(Debug)]
pub enum Step {
    WaitUntil(Instant),
    Send(Bytes),
    /// Cuts the connection once all before it is on its way.
    Cut,
}

/// An answer. The head goes out at `start`, with what may be sent at once.
#[derive(Debug)]
pub struct Answer {
    pub start: Instant,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub steps: VecDeque<Step>,
}

impl Answer {
    /// An answer whose whole length is known, and said.
    pub fn whole(start: Instant, status: StatusCode, mut headers: HeaderMap, body: Bytes) -> Self {
        let steps = if body.is_empty() {
            VecDeque::new()
        } else {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
            VecDeque::from([Step::Send(body)])
        };
        Self {
            start,
            status,
            headers,
            steps,
        }
    }

    /// The same answer, cut after about half of its last bytes, which are most of it. `None` for an answer that can
    /// have no body: it has no middle.
    pub fn cut_in_the_middle(mut self) -> Option<Self> {
        if bodiless(self.status) {
            return None;
        }
        match self.steps.pop_back() {
            Some(Step::Send(last)) => self.steps.push_back(Step::Send(last.slice(..last.len() / 2))),
            Some(step @ (Step::WaitUntil(_) | Step::Cut)) => self.steps.push_back(step),
            // The head alone would be a whole answer: so it promises a byte that does not come.
            None => {
                self.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(1));
            }
        }
        self.steps.push_back(Step::Cut);
        Some(self)
    }

    /// Waits for its time, and gives the response that plays the rest.
    pub async fn play(self, call: OpenCall) -> Response {
        sleep_until(self.start).await;
        // hyper never asks for a body that it does not send, so that a step of it would never be played.
        let body = if self.steps.is_empty() || bodiless(self.status) {
            call.end(Ended::Answered);
            Body::empty()
        } else {
            Body::from_stream(stream::unfold((self.steps, call), step))
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Statuses whose answer ends with its head (RFC 9110, 6.4.1).
fn bodiless(status: StatusCode) -> bool {
    status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED
}

type Rest = (VecDeque<Step>, OpenCall);

async fn step((mut steps, call): Rest) -> Option<(Result<Bytes, Cut>, Rest)> {
    loop {
        match steps.pop_front()? {
            Step::WaitUntil(time) => sleep_until(time).await,
            Step::Send(bytes) => {
                if steps.is_empty() {
                    call.end(Ended::Answered);
                }
                return Some((Ok(bytes), (steps, call)));
            }
            Step::Cut => {
                // hyper flushes what it holds when the body has nothing ready, and throws it away when the body fails.
                tokio::task::yield_now().await;
                call.end(Ended::Dropped);
                return Some((Err(Cut), (steps, call)));
            }
        }
    }
}

/// Cuts the connection at its time without a byte of an answer.
pub async fn cut_at(time: Instant, call: OpenCall) -> Response {
    sleep_until(time).await;
    call.end(Ended::Dropped);
    cut()
}

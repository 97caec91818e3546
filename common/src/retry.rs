//! How long to wait before a dependency that is away is tried again.
//!
//! The only place that knows the `backoff` crate. It is no longer maintained (RUSTSEC-2025-0012; through `instant`
//! RUSTSEC-2024-0384), so nothing of it may show outside: it can be replaced here.

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;

/// The longest wait between two tries: one that is back is found within this time.
const LONGEST: Duration = Duration::from_secs(5);
const FIRST: Duration = Duration::from_millis(100);

/// Growing waits with jitter, for ever: a supervisor never gives up.
#[derive(Debug)]
pub struct Retry(ExponentialBackoff);

impl Retry {
    /// Begins with the shortest wait.
    #[must_use]
    pub fn new() -> Self {
        Self(ExponentialBackoff {
            current_interval: FIRST,
            initial_interval: FIRST,
            // Jitter of half: many processes that lost the same broker or database do not come back at the same moment.
            randomization_factor: 0.5,
            multiplier: 2.0,
            max_interval: LONGEST,
            // The default gives up after 15 minutes.
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        })
    }

    /// The next wait; longer each time until [`reset`](Self::reset).
    pub fn delay(&mut self) -> Duration {
        self.0.next_backoff().unwrap_or(LONGEST)
    }

    /// It worked: the next failure is a new one.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_stay_under_the_limit_and_never_end() {
        let mut retry = Retry::new();
        let first = retry.delay();
        assert!(first <= FIRST.mul_f64(1.5), "{first:?}");
        let later: Vec<_> = (0..1_000).map(|_| retry.delay()).collect();
        assert!(later.iter().all(|delay| *delay <= LONGEST.mul_f64(1.5)));
        assert!(later[999] >= LONGEST.mul_f64(0.5));
        retry.reset();
        assert!(retry.delay() <= FIRST.mul_f64(1.5));
    }
}

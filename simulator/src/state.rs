//! What the simulator remembers: the queued behaviours and the call log, under one lock.
//!
//! One lock, so that the n-th call of a model in the log is the one that met its n-th behaviour, and so that forgetting
//! is one step. It is held for a push and a pop only, never while anything is awaited or written out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::behaviour::Queues;
use crate::chat;
use crate::log::{Call, Log, OpenCall, Submission};

/// Shared by all handlers.
#[derive(Clone, Default)]
pub struct Simulator(Arc<Shared>);

#[derive(Default)]
struct Shared {
    memory: Mutex<Memory>,
    answers: AtomicU64,
}

#[derive(Default)]
struct Memory {
    queues: Queues<chat::Behaviour>,
    log: Log,
}

impl Simulator {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        // No step under the lock leaves it half done, so that a panic elsewhere need not stop the log.
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues behaviours after those already queued; gives how many the model now has.
    pub fn queue(&self, model: &str, behaviours: Vec<chat::Behaviour>) -> usize {
        self.memory().queues.push(model, behaviours)
    }

    /// Logs a submission and takes its behaviour off the queue; the default one when none is queued.
    pub fn submit(&self, submission: Submission) -> (OpenCall, chat::Behaviour) {
        let mut memory = self.memory();
        let behaviour = submission
            .model
            .as_deref()
            .and_then(|model| memory.queues.pop(model))
            .unwrap_or_default();
        (memory.log.open(crate::clock::now(), submission), behaviour)
    }

    pub fn calls(&self, model: Option<&str>) -> Vec<Arc<Call>> {
        self.memory().log.list(model)
    }

    /// Forgets queued behaviours and logged calls. Calls in flight go on as they were told to.
    pub fn forget(&self) {
        let mut memory = self.memory();
        memory.queues.forget();
        memory.log.forget();
    }

    /// A number that no other answer of this process has.
    pub fn next_answer(&self) -> u64 {
        self.0.answers.fetch_add(1, Ordering::Relaxed)
    }
}

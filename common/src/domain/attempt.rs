//! A job with its attempts, as [`decide`](super::decide) sees them, and what an effect does to them.

use chrono::{DateTime, Utc};

use super::{
    AttemptNumber, AttemptState, Cause, ContractName, Effect, FailureKind, JobId, JobState, OwnerId, Policy,
    ProviderName, PublicState,
};

/// One intent with all tries at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub owner: OwnerId,
    /// What input and answer must keep.
    pub contract: ContractName,
    /// The provider that the intent names.
    pub provider: ProviderName,
    /// What the client decided about tries.
    pub policy: Policy,
    /// Whether the result slot is free.
    pub state: JobState,
    /// Moves when the slot closes or is reopened, and not between.
    pub version: i64,
    /// The attempt that holds the slot.
    pub completed_by: Option<AttemptNumber>,
    /// Past it nothing new starts.
    pub deadline: Option<DateTime<Utc>>,
    /// Every try, by number.
    pub attempts: Vec<Attempt>,
}

/// One try.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// 1, 2, 3…
    pub number: AttemptNumber,
    /// Who is called.
    pub provider: ProviderName,
    /// Why it was started.
    pub cause: Cause,
    /// Where it stands.
    pub state: AttemptState,
    /// The job's version when it was started: it settles that one and no other.
    pub job_version: i64,
    /// Not claimed before.
    pub run_at: DateTime<Utc>,
    /// Since when it stands where it stands, as far as its times tell.
    pub since: DateTime<Utc>,
    /// How it failed, if it did.
    pub failure: Option<FailureKind>,
}

impl Job {
    /// The attempt of that number.
    #[must_use]
    pub fn attempt(&self, number: AttemptNumber) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.number == number)
    }

    /// What users read.
    #[must_use]
    pub fn public_state(&self) -> PublicState {
        PublicState::of(self.state, self.attempts.iter().map(|attempt| attempt.state))
    }

    /// Whether a provider has been tried already.
    #[must_use]
    pub fn tried(&self, provider: &ProviderName) -> bool {
        self.attempts.iter().any(|attempt| &attempt.provider == provider)
    }

    /// How many attempts count against `max_attempts`: all but manual ones.
    #[must_use]
    pub fn counted(&self) -> u16 {
        let counted = self
            .attempts
            .iter()
            .filter(|attempt| attempt.cause != Cause::Manual)
            .count();
        u16::try_from(counted).unwrap_or(u16::MAX)
    }

    /// How many of the last attempts, without a break, went to the provider of the last one.
    #[must_use]
    pub fn tries_on_last_provider(&self) -> u32 {
        let last = self.attempts.last().map(|attempt| &attempt.provider);
        let run = self
            .attempts
            .iter()
            .rev()
            .take_while(|attempt| Some(&attempt.provider) == last)
            .count();
        u32::try_from(run).unwrap_or(u32::MAX)
    }

    /// Does to the job what the store does for an effect. Tests and the protocol's model run on this.
    pub fn apply(&mut self, effect: &Effect, now: DateTime<Utc>) {
        match effect {
            Effect::Move {
                number, to, failure, ..
            } => {
                if let Some(attempt) = self.attempts.iter_mut().find(|attempt| attempt.number == *number) {
                    attempt.state = *to;
                    attempt.since = now;
                    attempt.failure = *failure;
                }
            }
            Effect::Close {
                state, completed_by, ..
            } => {
                self.state = *state;
                self.completed_by = *completed_by;
                self.version += 1;
            }
            Effect::Reopen => {
                self.state = JobState::Open;
                self.version += 1;
            }
            Effect::Start {
                number,
                provider,
                cause,
                run_at,
            } => self.attempts.push(Attempt {
                number: *number,
                provider: provider.clone(),
                cause: *cause,
                state: AttemptState::Queued,
                job_version: self.version,
                run_at: *run_at,
                since: now,
                failure: None,
            }),
            Effect::Loss { .. } | Effect::Blocked { .. } | Effect::AskCancel { .. } => {}
        }
    }
}

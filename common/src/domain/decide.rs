//! What an event does to a job: one function, effects as data.

use chrono::{DateTime, Utc};

use super::policy::{Ended, FollowUp, follow_up};
use super::{
    Attempt, AttemptNumber, AttemptState, Cause, ContractName, FailureKind, Job, JobState, ProviderName, RetryAfter,
};

/// What happened, or what is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A worker wants the attempt.
    Claim {
        /// Which attempt.
        number: AttemptNumber,
    },
    /// The provider acknowledged it: a handle, or a stream's first event.
    Acknowledged {
        /// Which attempt.
        number: AttemptNumber,
    },
    /// It produced a result that keeps the contract.
    Answered {
        /// Which attempt.
        number: AttemptNumber,
    },
    /// It produced no result, for certain.
    Failed {
        /// Which attempt.
        number: AttemptNumber,
        /// How.
        kind: FailureKind,
        /// How long the provider asked to be left alone.
        retry_after: Option<RetryAfter>,
    },
    /// A byte may have left, and nothing is known since.
    ContactLost {
        /// Which attempt.
        number: AttemptNumber,
    },
    /// The provider confirmed that it stopped.
    ProviderCancelled {
        /// Which attempt.
        number: AttemptNumber,
    },
    /// An operator says what became of an unknown attempt.
    Resolved {
        /// Which attempt.
        number: AttemptNumber,
        /// What became of it.
        resolution: Resolution,
    },
    /// The client cancels the job.
    CancelRequested,
    /// The client, or a person, wants one more attempt.
    NewAttempt {
        /// On which provider; none: the job's own.
        provider: Option<ProviderName>,
        /// Whether it may start beside one that runs.
        hedge: bool,
    },
    /// An attempt has run for as long as the policy lets it run alone.
    HedgeDue {
        /// Which attempt.
        number: AttemptNumber,
    },
    /// The job's deadline may have passed, or its slot may have closed while an attempt was being queued.
    DeadlineDue,
}

/// What an operator says of an unknown attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// It never ran.
    NotExecuted,
    /// It was stopped before it had a result.
    Cancelled,
    /// It ran, and this was its result.
    Succeeded,
}

/// What must change. The store does each with a guard on the state that it was decided on.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// An attempt changes its state.
    Move {
        /// Which attempt.
        number: AttemptNumber,
        /// Where it stood.
        from: AttemptState,
        /// Where it goes.
        to: AttemptState,
        /// The kind of failure, where it goes to `failed`.
        failure: Option<FailureKind>,
    },
    /// The result slot closes, and the version moves.
    Close {
        /// How.
        state: JobState,
        /// The attempt that holds the slot, where it succeeded.
        completed_by: Option<AttemptNumber>,
        /// What went wrong, where it failed.
        error: Option<JobError>,
    },
    /// A failed job's slot opens again, and the version moves.
    Reopen,
    /// A new attempt.
    Start {
        /// Its number.
        number: AttemptNumber,
        /// Who is called.
        provider: ProviderName,
        /// Why.
        cause: Cause,
        /// Not before.
        run_at: DateTime<Utc>,
    },
    /// A result came too late: its payload is dropped, the loss is counted.
    Loss {
        /// Which attempt.
        number: AttemptNumber,
        /// What had closed the slot.
        reason: LossReason,
    },
    /// A provider that holds no certificate was not allowed to take over.
    Blocked {
        /// Which provider.
        provider: ProviderName,
    },
    /// The attempt's provider is to be asked to stop.
    AskCancel {
        /// Which attempt.
        number: AttemptNumber,
    },
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobError {
    /// The kind of its last attempt, or `deadline`.
    pub kind: FailureKind,
    /// The fallbacks that were refused for want of a certificate.
    pub blocked: Vec<ProviderName>,
}

/// What had closed the slot before a result came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LossReason {
    /// Another attempt had won.
    Late,
    /// The job was cancelled.
    AfterCancel,
    /// The attempt itself was settled otherwise: the evidence contradicts what stands.
    AfterResolution,
}

impl LossReason {
    /// Every reason there is.
    pub const ALL: &[Self] = &[Self::Late, Self::AfterCancel, Self::AfterResolution];

    /// The word that metrics and events use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::AfterCancel => "after_cancel",
            Self::AfterResolution => "after_resolution",
        }
    }
}

/// The attempt that forbids a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsettled {
    /// Which attempt.
    pub number: AttemptNumber,
    /// Where it stands.
    pub state: AttemptState,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// Why an event is not allowed. Nothing changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// The job has no such attempt.
    #[error("the job has no attempt {0}")]
    NoSuchAttempt(AttemptNumber),
    /// The job is closed in a way that does not allow it.
    #[error("the job is {0}")]
    JobFinished(JobState),
    /// The job's deadline has passed, and nothing new starts.
    #[error("the job's deadline passed at {0}")]
    DeadlinePassed(DateTime<Utc>),
    /// An earlier attempt is not settled.
    #[error("attempt {} is {} since {}", .0.number, .0.state, .0.since)]
    Unsettled(Unsettled),
    /// The provider holds no valid certificate for the job's contract.
    #[error("{0} holds no valid certificate for {1}")]
    NotCertified(ProviderName, ContractName),
    /// Only an unknown attempt can be resolved.
    #[error("the attempt is {0}, not unknown")]
    NotUnknown(AttemptState),
    /// It is not there to be claimed: not queued, or not yet due.
    #[error("the attempt is {0} and cannot be claimed now")]
    NotClaimable(AttemptState),
    /// The attempt numbers are used up.
    #[error("the job has as many attempts as it can hold")]
    TooManyAttempts,
}

/// What is not in the job itself.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time, by the database's clock.
    pub now: DateTime<Utc>,
    /// Drawn evenly from 0 to 1.
    pub jitter: f64,
    /// Whether a provider holds a valid certificate for the job's contract.
    pub certified: &'a dyn Fn(&ProviderName) -> bool,
}

/// What `event` does to `job`.
///
/// An event that is merely late (an acknowledgement of an attempt that has ended, say) changes nothing and is no error.
///
/// # Errors
///
/// [`Illegal`], if the event is a wish that can't be granted now.
pub fn decide(job: &Job, event: &Event, context: &Context<'_>) -> Result<Vec<Effect>, Illegal> {
    match event {
        Event::Claim { number } => claim(job, find(job, *number)?, context),
        Event::Acknowledged { number } => Ok(match find(job, *number)? {
            attempt if attempt.state == AttemptState::Starting => vec![moved(attempt, AttemptState::Running)],
            _late => vec![],
        }),
        Event::Answered { number } => Ok(answered(job, find(job, *number)?)),
        Event::Failed {
            number,
            kind,
            retry_after,
        } => {
            let attempt = find(job, *number)?;
            if !attempt.state.may_be_answered() {
                return Ok(vec![]);
            }
            let effect = failed(attempt, *kind);
            Ok(ended(job, attempt, effect, *kind, *retry_after, context))
        }
        Event::ContactLost { number } => Ok(match find(job, *number)? {
            attempt if matches!(attempt.state, AttemptState::Starting | AttemptState::Running) => {
                vec![moved(attempt, AttemptState::Unknown)]
            }
            _late => vec![],
        }),
        Event::ProviderCancelled { number } => {
            let attempt = find(job, *number)?;
            if !attempt.state.may_be_answered() {
                return Ok(vec![]);
            }
            Ok(cancelled(job, attempt, context))
        }
        Event::Resolved { number, resolution } => {
            let attempt = find(job, *number)?;
            if attempt.state != AttemptState::Unknown {
                return Err(Illegal::NotUnknown(attempt.state));
            }
            Ok(match resolution {
                Resolution::Succeeded => answered(job, attempt),
                Resolution::Cancelled => cancelled(job, attempt, context),
                Resolution::NotExecuted => {
                    let kind = FailureKind::NotExecuted;
                    let effect = failed(attempt, kind);
                    ended(job, attempt, effect, kind, None, context)
                }
            })
        }
        Event::CancelRequested => match job.state {
            JobState::Open => Ok(close(job, JobState::Cancelled, None, None)),
            JobState::Cancelled => Ok(vec![]),
            JobState::Succeeded | JobState::Failed => Err(Illegal::JobFinished(job.state)),
        },
        Event::NewAttempt { provider, hedge } => new_attempt(job, provider.as_ref(), *hedge, context),
        Event::HedgeDue { number } => hedge_due(job, find(job, *number)?, context),
        Event::DeadlineDue => Ok(deadline_due(job, context)),
    }
}

fn find(job: &Job, number: AttemptNumber) -> Result<&Attempt, Illegal> {
    job.attempt(number).ok_or(Illegal::NoSuchAttempt(number))
}

fn moved(attempt: &Attempt, to: AttemptState) -> Effect {
    Effect::Move {
        number: attempt.number,
        from: attempt.state,
        to,
        failure: None,
    }
}

fn failed(attempt: &Attempt, kind: FailureKind) -> Effect {
    Effect::Move {
        number: attempt.number,
        from: attempt.state,
        to: AttemptState::Failed,
        failure: Some(kind),
    }
}

fn deadline_passed(job: &Job, now: DateTime<Utc>) -> bool {
    job.deadline.is_some_and(|deadline| deadline <= now)
}

fn claim(job: &Job, attempt: &Attempt, context: &Context<'_>) -> Result<Vec<Effect>, Illegal> {
    if job.state != JobState::Open {
        return Err(Illegal::JobFinished(job.state));
    }
    if attempt.state != AttemptState::Queued || attempt.run_at > context.now || deadline_passed(job, context.now) {
        return Err(Illegal::NotClaimable(attempt.state));
    }
    Ok(vec![moved(attempt, AttemptState::Starting)])
}

/// Settle: the slot is free, or the race is lost. Order of finishing decides (G8).
fn answered(job: &Job, attempt: &Attempt) -> Vec<Effect> {
    match attempt.state {
        AttemptState::Starting | AttemptState::Running | AttemptState::Unknown => {
            if job.state == JobState::Open && job.version == attempt.job_version && job.completed_by.is_none() {
                let mut effects = vec![moved(attempt, AttemptState::Succeeded)];
                effects.extend(close(job, JobState::Succeeded, Some(attempt.number), None));
                return effects;
            }
            let reason = if job.state == JobState::Cancelled {
                LossReason::AfterCancel
            } else {
                LossReason::Late
            };
            vec![
                moved(attempt, AttemptState::Lost),
                Effect::Loss {
                    number: attempt.number,
                    reason,
                },
            ]
        }
        // Settled as something that had no result: the evidence is kept and counted, and changes nothing.
        AttemptState::Failed | AttemptState::Cancelled => {
            vec![Effect::Loss {
                number: attempt.number,
                reason: LossReason::AfterResolution,
            }]
        }
        // The same evidence again.
        AttemptState::Succeeded | AttemptState::Lost => vec![],
        // Never claimed, so nobody can have been asked.
        AttemptState::Queued => vec![],
    }
}

/// Closes the slot, cancels what is still queued, and asks the providers of what is in flight to stop.
fn close(job: &Job, state: JobState, completed_by: Option<AttemptNumber>, error: Option<JobError>) -> Vec<Effect> {
    let mut effects = vec![Effect::Close {
        state,
        completed_by,
        error,
    }];
    for sibling in job
        .attempts
        .iter()
        .filter(|sibling| Some(sibling.number) != completed_by)
    {
        match sibling.state {
            AttemptState::Queued => effects.push(moved(sibling, AttemptState::Cancelled)),
            AttemptState::Starting | AttemptState::Running | AttemptState::Unknown => {
                effects.push(Effect::AskCancel { number: sibling.number });
            }
            AttemptState::Succeeded | AttemptState::Lost | AttemptState::Failed | AttemptState::Cancelled => {}
        }
    }
    effects
}

fn cancelled(job: &Job, attempt: &Attempt, context: &Context<'_>) -> Vec<Effect> {
    let effect = moved(attempt, AttemptState::Cancelled);
    ended(job, attempt, effect, FailureKind::NotExecuted, None, context)
}

/// An attempt ended without a result: `effect`, and what the policy says follows.
fn ended(
    job: &Job,
    attempt: &Attempt,
    effect: Effect,
    kind: FailureKind,
    retry_after: Option<RetryAfter>,
    context: &Context<'_>,
) -> Vec<Effect> {
    let mut effects = vec![effect];
    let sibling_unsettled = job
        .attempts
        .iter()
        .any(|other| other.number != attempt.number && !other.state.is_final());
    if job.state != JobState::Open || sibling_unsettled {
        return effects;
    }
    let candidates = Candidates::of(job, context);
    let next = follow_up(
        &job.policy,
        &Ended {
            kind,
            retry_after,
            counted: job.counted(),
            tries_on_provider: job.tries_on_last_provider(),
            fallback: candidates.certified,
            deadline: job.deadline,
        },
        context.now,
        context.jitter,
    );
    let number = job.attempts.last().and_then(|last| last.number.next());
    match (next, number) {
        (FollowUp::Retry { run_at }, Some(number)) => {
            // A refusal is told only where the fallback would have been taken.
            if job.policy.max_attempts.saturating_sub(job.counted()) == 1 {
                effects.extend(candidates.blocked());
            }
            effects.push(Effect::Start {
                number,
                provider: attempt.provider.clone(),
                cause: Cause::Retry,
                run_at,
            });
        }
        (FollowUp::Fallback { provider }, Some(number)) => {
            effects.extend(candidates.blocked());
            effects.push(Effect::Start {
                number,
                provider,
                cause: Cause::Fallback,
                run_at: context.now,
            });
        }
        (FollowUp::Fail { kind }, _) => effects.extend(fail(kind, &candidates)),
        (FollowUp::Retry { .. } | FollowUp::Fallback { .. }, None) => effects.extend(fail(kind, &candidates)),
    }
    effects
}

fn fail(kind: FailureKind, candidates: &Candidates<'_>) -> Vec<Effect> {
    let mut effects: Vec<Effect> = candidates.blocked().collect();
    let error = JobError {
        kind,
        blocked: candidates.refused.iter().map(|&provider| provider.clone()).collect(),
    };
    effects.push(Effect::Close {
        state: JobState::Failed,
        completed_by: None,
        error: Some(error),
    });
    effects
}

/// The fallbacks that were not tried yet: the refused ones before the first that may take over.
struct Candidates<'a> {
    refused: Vec<&'a ProviderName>,
    certified: Option<&'a ProviderName>,
}

impl<'a> Candidates<'a> {
    fn of(job: &'a Job, context: &Context<'_>) -> Self {
        let mut refused = Vec::new();
        for provider in job.policy.fallback.iter().filter(|provider| !job.tried(provider)) {
            if (context.certified)(provider) {
                return Self {
                    refused,
                    certified: Some(provider),
                };
            }
            refused.push(provider);
        }
        Self {
            refused,
            certified: None,
        }
    }

    fn blocked(&self) -> impl Iterator<Item = Effect> {
        self.refused.iter().map(|&provider| Effect::Blocked {
            provider: provider.clone(),
        })
    }
}

fn new_attempt(
    job: &Job,
    provider: Option<&ProviderName>,
    hedge: bool,
    context: &Context<'_>,
) -> Result<Vec<Effect>, Illegal> {
    match job.state {
        JobState::Succeeded | JobState::Cancelled => return Err(Illegal::JobFinished(job.state)),
        JobState::Open | JobState::Failed => {}
    }
    // Asked of every attempt, running ones last: what blocks a hedge too is the better answer.
    let blocking = job.attempts.iter().find(|attempt| attempt.state.blocks_new_attempts());
    let running = job
        .attempts
        .iter()
        .find(|attempt| attempt.state == AttemptState::Running);
    if let Some(attempt) = blocking.or(running.filter(|_| !hedge)) {
        let Attempt {
            number, state, since, ..
        } = *attempt;
        return Err(Illegal::Unsettled(Unsettled { number, state, since }));
    }
    if let Some(deadline) = job.deadline.filter(|deadline| *deadline <= context.now) {
        return Err(Illegal::DeadlinePassed(deadline));
    }
    let provider = provider.unwrap_or(&job.provider);
    if provider != &job.provider && !(context.certified)(provider) {
        return Err(Illegal::NotCertified(provider.clone(), job.contract.clone()));
    }
    let number = job
        .attempts
        .last()
        .and_then(|last| last.number.next())
        .ok_or(Illegal::TooManyAttempts)?;
    let cause = if running.is_some() { Cause::Hedge } else { Cause::Manual };
    let start = Effect::Start {
        number,
        provider: provider.clone(),
        cause,
        run_at: context.now,
    };
    Ok(if job.state == JobState::Failed {
        vec![Effect::Reopen, start]
    } else {
        vec![start]
    })
}

fn hedge_due(job: &Job, attempt: &Attempt, context: &Context<'_>) -> Result<Vec<Effect>, Illegal> {
    let alone = job
        .attempts
        .iter()
        .all(|other| other.number == attempt.number || other.state.is_final());
    let once = job.attempts.iter().all(|other| other.cause != Cause::Hedge);
    if job.state != JobState::Open
        || attempt.state != AttemptState::Running
        || job.policy.hedge_after_ms.is_none()
        || !alone
        || !once
        || job.counted() >= job.policy.max_attempts
        || deadline_passed(job, context.now)
    {
        return Ok(vec![]);
    }
    let number = job
        .attempts
        .last()
        .and_then(|last| last.number.next())
        .ok_or(Illegal::TooManyAttempts)?;
    let candidates = Candidates::of(job, context);
    let mut effects: Vec<Effect> = candidates.blocked().collect();
    if let Some(provider) = candidates.certified {
        effects.push(Effect::Start {
            number,
            provider: provider.clone(),
            cause: Cause::Hedge,
            run_at: context.now,
        });
    }
    Ok(effects)
}

/// Past the deadline what is queued is cancelled; a job with nothing in flight fails. An unknown one stays visible.
fn deadline_due(job: &Job, context: &Context<'_>) -> Vec<Effect> {
    if job.state == JobState::Open && !deadline_passed(job, context.now) {
        return vec![];
    }
    let queued = |attempt: &&Attempt| attempt.state == AttemptState::Queued;
    let mut effects: Vec<Effect> = job
        .attempts
        .iter()
        .filter(queued)
        .map(|attempt| moved(attempt, AttemptState::Cancelled))
        .collect();
    if job.state == JobState::Open && !job.attempts.iter().any(|attempt| attempt.state.may_be_answered()) {
        let error = JobError {
            kind: FailureKind::Deadline,
            blocked: vec![],
        };
        effects.push(Effect::Close {
            state: JobState::Failed,
            completed_by: None,
            error: Some(error),
        });
    }
    effects
}

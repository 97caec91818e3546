//! The metrics of design §12. Labels are names from the configuration and closed sets of words: never an id, an owner or a
//! key. Every series stands at 0 from the start, so that an alert on its growth needs no first event.
//!
//! Gauges that are read from the database are the reconciler's alone: two exporters would count the same rows twice.

use std::time::Duration;

use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::domain::{AttemptState, Cause, ContractName, FailureKind, JobState, LossReason, Meaning, ProviderName};

/// Which process exports; it decides who shows the database's gauges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// The HTTP API.
    Api,
    /// A worker that calls providers.
    Worker,
    /// A worker in the reconciler role.
    Reconciler,
}

/// Why metrics can't be exported.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The exporter can't be built.
    #[error("metrics can't be set up: {0}")]
    Build(#[from] BuildError),
    /// There is a recorder already.
    #[error("metrics were set up twice in one process")]
    Twice,
}

/// What `/metrics` shows.
#[derive(Clone)]
pub struct Rendered {
    handle: PrometheusHandle,
    process: metrics_process::Collector,
}

impl Rendered {
    /// The exposition text.
    #[must_use]
    pub fn text(&self) -> String {
        self.process.collect();
        self.handle.render()
    }

    /// Puts recorded values into their buckets.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type { $($(#[$variant_doc])* $variant),+ }

        impl $type {
            const ALL: &[Self] = &[$(Self::$variant),+];

            const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

words! {
    /// What ended an unknown.
    ResolvedBy {
        /// The provider's late answer.
        Evidence = "evidence",
        /// A question to the provider.
        Probe = "probe",
        /// A confirmed cancel.
        Cancel = "cancel",
        /// A person.
        Operator = "operator",
    }
}

words! {
    /// Who found a duplicate and did nothing about it.
    Layer {
        /// A repeated POST.
        Api = "api",
        /// A message for an attempt that is under way or settled.
        Worker = "worker",
        /// A call-back that had come before.
        Callback = "callback",
    }
}

words! {
    /// What became of a POST.
    AcceptOutcome {
        /// A new job.
        Created = "created",
        /// The job was there already.
        Replayed = "replayed",
        /// Another intent holds the key.
        Conflict = "conflict",
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// With an answer, whether or not it keeps the contract.
    Answered,
    /// Without one, for certain.
    Failed(FailureKind),
    /// Nothing is certain.
    Unknown,
}

impl CallOutcome {
    /// How it ended, by what its end means.
    #[must_use]
    pub const fn of(meaning: &Meaning) -> Self {
        match meaning {
            Meaning::Answer(_) => Self::Answered,
            Meaning::Failed(definite) => Self::Failed(definite.kind),
            Meaning::Unknown { .. } => Self::Unknown,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed(kind) => kind.as_str(),
            Self::Unknown => "unknown",
        }
    }
}

/// The kinds of failure that a call itself can show.
const OF_A_CALL: &[FailureKind] = &[
    FailureKind::Rejected,
    FailureKind::RateLimited,
    FailureKind::Overloaded,
    FailureKind::ProviderError,
    FailureKind::Unreachable,
    FailureKind::Truncated,
    FailureKind::Refused,
];
const CLOSED: &[JobState] = &[JobState::Succeeded, JobState::Failed, JobState::Cancelled];
const SETTLED: &[AttemptState] = &[
    AttemptState::Succeeded,
    AttemptState::Lost,
    AttemptState::Failed,
    AttemptState::Cancelled,
];

/// In seconds: what the database and the broker take, up to what a slow one may.
const SHORT: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];
/// In seconds: what models take.
const LONG: &[f64] = &[
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0,
];

/// Starts recording, with every series at 0.
///
/// # Errors
///
/// [`MetricsError`].
pub fn install(
    process: Process,
    providers: &[ProviderName],
    contracts: &[ContractName],
) -> Result<Rendered, MetricsError> {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in [
        ("onejob_provider_call_seconds", LONG),
        ("onejob_queue_wait_seconds", SHORT),
        ("onejob_settle_seconds", SHORT),
        ("onejob_job_seconds", LONG),
    ] {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|_| MetricsError::Twice)?;
    describe();
    let collector = metrics_process::Collector::default();
    collector.describe();
    register(process, providers, contracts);
    Ok(Rendered {
        handle,
        process: collector,
    })
}

fn register(process: Process, providers: &[ProviderName], contracts: &[ContractName]) {
    for provider in providers {
        let name = || provider.to_string();
        for cause in Cause::ALL {
            for state in AttemptState::ALL {
                counter!("onejob_attempts_total", "provider" => name(), "cause" => cause.as_str(), "state" => state.as_str())
                    .absolute(0);
            }
        }
        for reason in LossReason::ALL {
            counter!("onejob_race_losses_total", "provider" => name(), "reason" => reason.as_str()).absolute(0);
        }
        let failed = OF_A_CALL.iter().map(|kind| CallOutcome::Failed(*kind));
        for outcome in [CallOutcome::Answered, CallOutcome::Unknown].into_iter().chain(failed) {
            counter!("onejob_provider_calls_total", "provider" => name(), "outcome" => outcome.as_str()).absolute(0);
        }
        for by in ResolvedBy::ALL {
            for state in SETTLED {
                counter!("onejob_unknown_resolved_total", "provider" => name(), "by" => by.as_str(), "outcome" => state.as_str())
                    .absolute(0);
            }
        }
        drop(histogram!("onejob_provider_call_seconds", "provider" => name()));
        gauge!("onejob_lost_cost_total", "provider" => name()).set(0.0);
        for contract in contracts {
            counter!("onejob_failovers_blocked_total", "provider" => name(), "contract" => contract.to_string())
                .absolute(0);
        }
        if process == Process::Reconciler {
            unknown_attempts(provider, 0);
            unknown_oldest(provider, 0.0);
            for contract in contracts {
                certificate_valid(provider, contract, false);
            }
        }
    }
    for contract in contracts {
        for outcome in AcceptOutcome::ALL {
            counter!("onejob_jobs_accepted_total", "contract" => contract.to_string(), "outcome" => outcome.as_str())
                .absolute(0);
        }
        for state in CLOSED {
            drop(histogram!("onejob_job_seconds", "contract" => contract.to_string(), "state" => state.as_str()));
        }
    }
    for layer in Layer::ALL {
        counter!("onejob_duplicates_suppressed_total", "layer" => layer.as_str()).absolute(0);
    }
    counter!("onejob_poisoned_messages_total").absolute(0);
    drop(histogram!("onejob_queue_wait_seconds"));
    drop(histogram!("onejob_settle_seconds"));
    if process == Process::Reconciler {
        outbox_unpublished(0);
    }
}

fn describe() {
    use metrics::{describe_counter as c, describe_gauge as g, describe_histogram as h};
    c!("onejob_jobs_accepted_total", "POSTs of jobs, by what became of them");
    c!("onejob_attempts_total", "Attempts that reached a state");
    c!(
        "onejob_race_losses_total",
        "Results that came too late; their payload was dropped"
    );
    c!("onejob_provider_calls_total", "Calls of providers, by how they ended");
    h!("onejob_provider_call_seconds", "How long calls of providers took");
    h!(
        "onejob_queue_wait_seconds",
        "How long attempts that were ready waited for a worker"
    );
    h!(
        "onejob_settle_seconds",
        "How long it took to store a result, retries included"
    );
    h!(
        "onejob_job_seconds",
        "From a job's creation to the close of its result slot"
    );
    g!("onejob_unknown_attempts", "Attempts whose outcome is not known");
    g!(
        "onejob_unknown_oldest_seconds",
        "How long the oldest of them has been unknown"
    );
    c!(
        "onejob_unknown_resolved_total",
        "Unknown attempts that were settled, by what settled them"
    );
    c!("onejob_duplicates_suppressed_total", "Duplicates that changed nothing");
    c!(
        "onejob_failovers_blocked_total",
        "Take-overs refused for want of a certificate"
    );
    g!(
        "onejob_certificate_valid",
        "1 if the provider may take over for the contract"
    );
    g!(
        "onejob_outbox_unpublished",
        "Queued attempts that no worker has claimed in time"
    );
    g!(
        "onejob_lost_cost_total",
        "What lost results have cost, in US dollars; it only grows"
    );
    c!(
        "onejob_poisoned_messages_total",
        "Messages that can't be read and were parked in onejob.poison"
    );
}

/// An attempt reached a state.
pub fn attempt(provider: &ProviderName, cause: Cause, state: AttemptState) {
    counter!("onejob_attempts_total", "provider" => provider.to_string(), "cause" => cause.as_str(), "state" => state.as_str())
        .increment(1);
}

/// An attempt that was ready waited for a worker.
pub fn queue_wait(waited: Duration) {
    histogram!("onejob_queue_wait_seconds").record(waited);
}

/// A result was stored.
pub fn settle(took: Duration) {
    histogram!("onejob_settle_seconds").record(took);
}

/// A job's slot closed.
pub fn job_done(contract: &ContractName, state: JobState, age: Duration) {
    histogram!("onejob_job_seconds", "contract" => contract.to_string(), "state" => state.as_str()).record(age);
}

/// A result came too late.
pub fn race_lost(provider: &ProviderName, reason: LossReason, cost: Option<f64>) {
    counter!("onejob_race_losses_total", "provider" => provider.to_string(), "reason" => reason.as_str()).increment(1);
    gauge!("onejob_lost_cost_total", "provider" => provider.to_string()).increment(cost.unwrap_or_default());
}

/// A call of a provider ended.
pub fn provider_call(provider: &ProviderName, outcome: CallOutcome, took: Duration) {
    counter!("onejob_provider_calls_total", "provider" => provider.to_string(), "outcome" => outcome.as_str())
        .increment(1);
    histogram!("onejob_provider_call_seconds", "provider" => provider.to_string()).record(took);
}

/// An unknown attempt was settled.
pub fn unknown_resolved(provider: &ProviderName, by: ResolvedBy, outcome: AttemptState) {
    counter!("onejob_unknown_resolved_total", "provider" => provider.to_string(), "by" => by.as_str(), "outcome" => outcome.as_str())
        .increment(1);
}

/// A duplicate changed nothing.
pub fn duplicate_suppressed(layer: Layer) {
    counter!("onejob_duplicates_suppressed_total", "layer" => layer.as_str()).increment(1);
}

/// A take-over was refused for want of a certificate.
pub fn failover_blocked(provider: &ProviderName, contract: &ContractName) {
    counter!("onejob_failovers_blocked_total", "provider" => provider.to_string(), "contract" => contract.to_string())
        .increment(1);
}

/// A message that can't be read was parked.
pub fn message_poisoned() {
    counter!("onejob_poisoned_messages_total").increment(1);
}

/// A POST of a job was answered.
pub fn job_accepted(contract: &ContractName, outcome: AcceptOutcome) {
    counter!("onejob_jobs_accepted_total", "contract" => contract.to_string(), "outcome" => outcome.as_str())
        .increment(1);
}

/// How many queued attempts no worker has claimed in time.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^53")]
pub fn outbox_unpublished(attempts: u64) {
    gauge!("onejob_outbox_unpublished").set(attempts as f64);
}

/// How many attempts of a provider are unknown.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^53")]
pub fn unknown_attempts(provider: &ProviderName, attempts: u64) {
    gauge!("onejob_unknown_attempts", "provider" => provider.to_string()).set(attempts as f64);
}

/// How long the oldest unknown attempt of a provider has been unknown, in seconds.
pub fn unknown_oldest(provider: &ProviderName, seconds: f64) {
    gauge!("onejob_unknown_oldest_seconds", "provider" => provider.to_string()).set(seconds);
}

/// Whether a provider may take over for a contract.
pub fn certificate_valid(provider: &ProviderName, contract: &ContractName, valid: bool) {
    gauge!("onejob_certificate_valid", "provider" => provider.to_string(), "contract" => contract.to_string())
        .set(if valid { 1.0 } else { 0.0 });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_stands_at_zero_from_the_start_and_empty_histograms_have_buckets() {
        let (providers, contracts) = (["primary".parse().unwrap()], ["ticket-triage@1".parse().unwrap()]);
        let text = install(Process::Reconciler, &providers, &contracts).unwrap().text();
        for line in [
            r#"onejob_race_losses_total{provider="primary",reason="after_resolution"} 0"#,
            r#"onejob_provider_calls_total{provider="primary",outcome="unknown"} 0"#,
            r#"onejob_unknown_resolved_total{provider="primary",by="probe",outcome="failed"} 0"#,
            r#"onejob_lost_cost_total{provider="primary"} 0"#,
            r#"onejob_certificate_valid{provider="primary",contract="ticket-triage@1"} 0"#,
            r#"onejob_job_seconds_bucket{contract="ticket-triage@1",state="cancelled",le="+Inf"} 0"#,
            r#"onejob_provider_call_seconds_bucket{provider="primary",le="0.5"} 0"#,
            r#"onejob_queue_wait_seconds_bucket{le="0.001"} 0"#,
            r#"onejob_settle_seconds_bucket{le="+Inf"} 0"#,
            "onejob_outbox_unpublished 0",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
        assert!(
            install(Process::Api, &providers, &contracts).is_err(),
            "twice in one process"
        );
    }
}

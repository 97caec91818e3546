//! Logs: one JSON object a line on standard output.
//!
//! Everything about an attempt is logged inside a span with `job_id`, `attempt_id`, `owner` and `trace_id`; they stand in
//! each line under `span`. `RUST_LOG` chooses what is logged (`info` by default).

use tracing_subscriber::EnvFilter;

/// Starts logging. A second call changes nothing.
pub fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let started = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_env_filter(filter)
        .with_writer(std::io::stdout)
        .try_init();
    if started.is_ok() {
        // A panic is a line like every other, so that whoever searches the logs finds it.
        std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "panicked")));
    }
}

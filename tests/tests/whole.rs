//! The whole product: API, workers and reconciler as processes, on a real PostgreSQL and a real RabbitMQ, with the
//! simulator as provider. `breakpoints` are the four that everything else follows from.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "whole/breakpoints.rs"]
mod breakpoints;
#[path = "whole/connections.rs"]
mod connections;
#[path = "whole/crashes.rs"]
mod crashes;
#[path = "whole/deliveries.rs"]
mod deliveries;
#[path = "whole/keys.rs"]
mod keys;
#[path = "whole/metrics.rs"]
mod metrics;
#[path = "whole/providers.rs"]
mod providers;
#[path = "whole/replays.rs"]
mod replays;

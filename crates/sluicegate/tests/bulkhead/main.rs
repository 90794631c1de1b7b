//! Bulkheads: admission, queueing, timeouts and the release of permits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod builder;
mod cancellation;
mod capacity;
mod limits;
mod liveness;
mod model;
mod queueing;
mod support;
mod threads;

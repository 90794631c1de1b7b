//! Bulkheads: admission, queueing, timeouts and the release of permits.

mod builder;
mod cancellation;
mod capacity;
mod limits;
mod liveness;
mod model;
mod queueing;
mod support;
mod threads;

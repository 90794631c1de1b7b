//! Bulkheads: who is let in, who waits and for how long, and that nothing is ever lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod building;
mod cancelling;
mod limits;
mod liveness;
mod model;
mod places;
mod support;
mod threads;
mod waiting;

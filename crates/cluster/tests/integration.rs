//! Integration tests of this crate, in one binary: linking is a large part of the time of a test build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod adhoc;
mod cluster;
mod data_loss;
mod exact;
mod lease;
mod outages;
mod regressions;
mod rules;
mod support;

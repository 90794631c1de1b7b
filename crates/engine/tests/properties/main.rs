//! What every algorithm promises, tried on all of them through one trait.
//!
//! Each file is one theme; [`subject`] makes the limits that are tried. The judges and the arrivals
//! are `sluicegate-testkit`'s. No test sleeps: time is an argument.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod bounds;
mod extremes;
mod forgetting;
mod high_rates;
mod laws;
mod merging;
mod regressions;
mod seed_cases;
mod settling;
mod subject;
mod waits;
mod warm_up;

//! Property tests of the guarantees of every algorithm, through one trait.
//!
//! Each file covers one topic; [`subject`] generates the limits. Checkers and arrivals come from
//! `sluicegate-testkit`. No test sleeps: time is an argument.

mod bounds;
mod eviction;
mod extremes;
mod high_rates;
mod invariants;
mod merging;
mod regressions;
mod seed_cases;
mod settling;
mod subject;
mod waits;
mod warm_up;

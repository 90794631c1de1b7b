//! Integration tests of this crate, in one binary: linking is a large part of the time of a test build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::type_complexity, reason = "tests")]

mod adhoc;
mod async_decide;
mod bandwidth;
mod batches;
mod change;
mod cluster;
mod counts;
mod fast_path;
mod flood;
mod gates;
mod keys_by_values;
mod named;
mod permits;
mod properties;
mod regressions_change;
mod regressions_mixed;
mod regressions_permits;
mod regressions_saved;
mod regressions_sluice;
mod regressions_table;
mod regressions_waiting;
mod reload;
mod rule_index;
mod saved;
mod sharded;
mod sluice;
mod support;
mod table;
mod top_keys;
mod waiting;

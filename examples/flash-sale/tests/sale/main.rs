//! Tests of the sale with real databases, caches and queues and with killed processes: no overselling, no lost order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod bad_input;
#[path = "../../../../crates/cli/tests/dashboard/browser.rs"]
#[allow(dead_code, reason = "shared with the dashboard tests of the CLI")]
mod browser;
mod caches;
mod cluster;
mod dashboard;
#[path = "../../../../crates/cli/tests/dashboard/http.rs"]
#[allow(dead_code, reason = "shared with the dashboard tests of the CLI")]
mod http;
mod killed;
mod orders;
mod page;
mod partial_failures;
mod payment;
mod process;
mod queues;
mod steps;
mod support;

//! The sale with real parts: databases, caches, queues, processes that are killed. Never oversold, nothing lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod bad_input;
#[path = "../../../../crates/cli/tests/dashboard/browser.rs"]
#[allow(dead_code, reason = "the tests of the dashboard itself need more of it")]
mod browser;
mod caches;
mod dashboard;
mod fleet;
mod killed;
mod mishaps;
mod orders;
mod page;
mod payment;
mod process;
mod queues;
mod steps;
mod support;
#[path = "../../../../crates/cli/tests/dashboard/wire.rs"]
#[allow(dead_code, reason = "the tests of the dashboard itself need more of it")]
mod wire;

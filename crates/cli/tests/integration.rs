//! Integration tests of this crate, in one binary: linking is a large part of the time of a test build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod admin;
mod bad_input;
mod cli;
mod clients;
mod dashboard;
mod docs;
mod overload;
mod packaging;
mod pages;
mod probe;
mod program;
mod reload;
mod restart;
mod schemathesis;
mod server;
mod stall_monitor;
#[path = "../../server/tests/support/mod.rs"]
mod support;
mod top;

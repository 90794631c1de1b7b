//! The access log and request ids, as clients, servers and whoever reads the file see them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod departures;
mod file;
mod ids;
mod lines;
#[path = "../support/mod.rs"]
mod support;

//! Access log and request IDs, as seen by clients, servers and readers of the file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod disconnects;
mod file;
mod ids;
mod lines;
#[path = "../support/mod.rs"]
mod support;

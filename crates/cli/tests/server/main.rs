//! The real program with a decision server: restart and shutdown under load, crash, invalid files, and a real
//! Envoy.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../../../server/tests/support/mod.rs"]
mod support;

mod crash;
mod draining;
mod envoy;
mod invalid_files;
mod load;
mod program;
mod restarts;
mod shared_rules;
mod unix_sockets;

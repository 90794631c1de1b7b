//! The real program with a decision server: restarted and stopped under load, killed, given bad files,
//! asked by a real Envoy.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../../../server/tests/support/mod.rs"]
mod support;

mod bad_files;
mod draining;
mod envoy;
mod killed;
mod load;
mod program;
mod restarts;
mod together;
mod unix_sockets;

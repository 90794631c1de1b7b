//! The exact-mode scripts on a real server, against the engine's algorithms.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod acl;
mod decisions;
mod differential;
mod foreign_values;
mod permits;
mod settling;
pub(crate) mod support;

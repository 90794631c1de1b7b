//! The scripts on a real server, against the engine's own algorithms.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod asks;
mod differential;
mod foreign;
mod permits;
mod rights;
mod settling;
pub(crate) mod support;

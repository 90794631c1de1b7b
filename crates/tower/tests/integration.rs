//! Integration tests of this crate, in one binary: linking is a large part of the time of a test build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod client;
#[cfg(feature = "reqwest")]
mod client_sockets;
mod client_throttle;
mod incoming;
mod incoming_bodies;
mod incoming_overload;

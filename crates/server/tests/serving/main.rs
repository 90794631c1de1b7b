//! End-to-end tests of the decision server: from the text of a rule file to client results over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../support/mod.rs"]
mod support;

mod certificates;
mod cluster;
mod connection_limits;
mod endpoints;
mod forward_auth;
mod shutdown;
mod slow_clients;

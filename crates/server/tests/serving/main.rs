//! The decision server as a whole, from the text of a rule file to what its clients see over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../support/mod.rs"]
mod support;

mod bounds;
mod certificates;
mod cluster;
mod forward_auth;
mod places;
mod slow_clients;
mod stopping;

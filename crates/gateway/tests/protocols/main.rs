//! What clients and servers may say to each other through the gateway, and that it arrives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod real_clients;
mod scripted;
mod streaming;
mod trailers;
mod uploads;
mod websocket;
mod websockets_py;

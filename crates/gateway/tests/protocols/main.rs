//! Protocol tests: messages between clients and servers pass the gateway correctly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

#[path = "../support/mod.rs"]
mod support;

mod real_clients;
mod responses;
mod scripted;
mod streaming;
mod trailers;
mod uploads;
mod websocket;
mod websockets_py;

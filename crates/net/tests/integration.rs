//! Integration tests of this crate, in one binary: linking is a large part of the time of a test build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod deadlines;
mod idle_http2;
mod in_flight;
mod limits;
mod listener_of_axum;
mod parking;
mod serving;
mod shutdown;
mod support;

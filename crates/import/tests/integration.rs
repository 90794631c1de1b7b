//! Integration tests of this crate, in one binary: linking is a large part of the time of a test build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod envoy_ratelimit;
mod envoy_ratelimit_any_input;
mod envoy_ratelimit_refused;
mod nginx;
mod nginx_any_input;
mod nginx_numbers;

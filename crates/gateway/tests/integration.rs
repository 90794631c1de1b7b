//! Integration tests of this crate, in one binary: linking is a large part of the time of a test build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod access_log;
mod balancing;
mod costs;
mod deadlines;
mod faults;
mod floods;
mod http2_servers;
mod identity;
mod malformed;
mod nginx_cases;
mod parking;
mod permits;
mod protocols;
mod proxying;
mod queues;
mod rules;
mod support;

//! The real program under load: restart, shutdown, invalid rules, certificate reload and log rotation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod certificates;
mod load;
mod long_lived;
#[path = "../pages/page.rs"]
mod page;
mod program;
mod protocols;
mod raw_http;
mod rotation;
mod serving;
mod upstream;

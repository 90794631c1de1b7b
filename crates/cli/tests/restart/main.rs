//! The real program under load: restarted, told to stop, given bad rules, new certificates and a new log.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod certificates;
mod load;
mod long;
#[path = "../pages/page.rs"]
mod page;
mod program;
mod protocols;
mod rotation;
mod serving;
mod talk;
mod upstream;

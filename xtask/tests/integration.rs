//! Integration tests of this crate, in one binary: linking is a large part of the time of a test build.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod modules;
mod pictures;
mod reference;

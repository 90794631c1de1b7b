//! The dashboard as people use it: the real program, and a real browser that is driven from outside.
//!
//! Every test ends by asking the browser what went wrong on its console, and where it sent requests to. Pictures of
//! what was seen are kept in `target/tests/dashboard`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../program/mod.rs"]
mod program;

mod bans;
mod browser;
mod editing;
mod files;
mod keys;
mod languages;
mod link;
mod numbers;
mod phone;
mod place;
mod scripts;
mod strain;
mod tokens;
mod wire;

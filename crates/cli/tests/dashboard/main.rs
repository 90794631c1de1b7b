//! Dashboard tests with the real program and a real browser.
//!
//! Every test ends by checking the browser's console and the origins it requested. Screenshots are saved in
//! `target/tests/dashboard`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../program/mod.rs"]
mod program;

mod bans;
mod browser;
mod chinese;
mod connection_loss;
mod editing;
mod files;
mod fixture;
mod http;
mod keys;
mod languages;
mod numbers;
mod overload;
mod phone;
mod readme_screenshot;
mod scripts;
mod tokens;

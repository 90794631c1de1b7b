//! Dashboard tests with the real program and a real browser.
//!
//! Every test ends by checking the browser's console and the origins it requested. Screenshots are saved in
//! `target/tests/dashboard`.

use crate::program;

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

//! Control laws in a closed loop: a real gate, a simulated service behind it, and a manual clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod conditions;
mod cpu;
mod simulated_service;

//! The sale with real parts: databases, caches, queues, processes that are killed. Never oversold, nothing lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod bad_input;
mod fleet;
mod killed;
mod orders;
mod page;
mod payment;
mod process;
mod queues;
mod steps;
mod support;

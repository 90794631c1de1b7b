//! Statements in flight on a real database: SQLite in a file, several connections.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod classes;
mod release;
mod statement;
mod support;

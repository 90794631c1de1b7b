//! Statements in flight on a real database: SQLite in a file, several connections.

mod classes;
mod release;
mod statement;
mod support;

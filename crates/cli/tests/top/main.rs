//! `sluicegate top`, as a user meets it: against servers that speak the admin API, and some that do not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod admin;
mod bad_servers;
mod once;
#[path = "../program/mod.rs"]
mod program;
mod screen;
mod terminal;
mod tls;
mod whole;

use std::process::{Command, Output, Stdio};

use program::until;

/// The program without a token of the environment's.
fn top() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.arg("top").env_remove("SLUICEGATE_TOKEN").stdin(Stdio::null());
    command
}

fn run(words: &[&str]) -> Output {
    top().args(words).output().unwrap()
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// What it said went wrong: one line, with exit code 1.
fn failure(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    assert!(!said.trim_end().contains(char::is_control), "{said:?}");
    said
}

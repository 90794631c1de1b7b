//! `sluicegate top` against fake, broken and real admin API servers.

mod admin;
mod end_to_end;
mod invalid_servers;
mod once;
use crate::program;
mod screen;
mod terminal;
mod tls;

use std::process::{Command, Output, Stdio};

use program::wait_until;

/// The program without a token in its environment.
fn top_command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.arg("top").env_remove("SLUICEGATE_TOKEN").stdin(Stdio::null());
    command
}

fn run(words: &[&str]) -> Output {
    top_command().args(words).output().unwrap()
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// The error message: one line, with exit code 1.
fn failure(output: &Output) -> String {
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("error: ") && error.lines().count() == 1, "{error}");
    assert!(!error.trim_end().contains(char::is_control), "{error:?}");
    error
}

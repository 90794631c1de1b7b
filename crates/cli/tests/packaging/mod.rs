//! Tests of the package contents: completions, manual pages, health check, container image, systemd units, and
//! the full example file.
#![cfg(unix)]

mod completions;
mod container;
mod full_example;
mod health;
mod install;
mod manual;
use crate::pages::page;
use crate::program;
mod units;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Temporary directory, removed on drop.
struct TestDir(PathBuf);

impl TestDir {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sluicegate-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs the program to its end.
fn sluicegate(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluicegate")).args(words).output().unwrap()
}

/// Standard output of a successful run.
fn stdout_of(words: &[&str]) -> String {
    program::run_command(Command::new(env!("CARGO_BIN_EXE_sluicegate")).args(words))
}

/// Command names as listed by `--help`, without `help`.
fn commands() -> Vec<String> {
    let help = stdout_of(&["--help"]);
    let listed = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

//! Starts Sluicegate as built for release.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use super::program::{Program, free_port};
use super::temp_dir::TempDir;

/// Runs a rule file. `rule_file` returns its text for the given listen port and directory.
pub(crate) fn run(rule_file: impl FnOnce(u16, &Path) -> String) -> Program {
    let program = env::current_exe().expect("path of the bench executable").with_file_name("sluicegate");
    assert!(
        fs::exists(&program).unwrap_or(false),
        "{} does not exist; build it with `cargo build --release -p sluicegate-cli`",
        program.display()
    );
    let (port, dir) = (free_port(), TempDir::new());
    fs::write(dir.path().join("rules.yaml"), rule_file(port, dir.path())).expect("file is written");
    Program::start("sluicegate", port, dir, |dir| {
        let mut command = Command::new(program);
        command.arg("run").arg(dir.join("rules.yaml"));
        command
    })
}

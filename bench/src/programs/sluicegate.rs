//! Our side: the program as it is released.

use std::process::Command;
use std::{env, fs};

use super::folder::Folder;
use super::program::{Program, free_port};

/// Runs a rule file. `filled` makes it for the port at which the program is to listen.
pub(crate) fn run(filled: impl FnOnce(u16) -> String) -> Program {
    let program = env::current_exe().expect("the path of this program").with_file_name("sluicegate");
    assert!(
        fs::exists(&program).unwrap_or(false),
        "{} is not there; `cargo build --release -p sluicegate-cli` makes it",
        program.display()
    );
    let port = free_port();
    Program::start("ours", port, Folder::with("rules.yaml", filled(port)), |folder| {
        let mut command = Command::new(program);
        command.arg("run").arg(folder.join("rules.yaml"));
        command
    })
}

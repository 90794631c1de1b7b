//! The image: built by `packaging/Containerfile`, and run as `docs/install.md` says.
//!
//! What is not there is the image with Rust that the file begins with: this machine's own tools stand for it, and a `cargo`
//! that hands out the program under test instead of building it anew for minutes. All other lines are carried out by a real
//! builder, and what they make is started by a real runtime, in a network of the test's own.

use std::fs;
use std::process::Command;

use crate::install::PAGE;
use crate::page::blocks;
use crate::{Folder, read, root};

/// What the script answers where no container can run.
const FORBIDDEN: i32 = 77;

#[test]
fn the_image_is_built_and_run_as_the_page_says() {
    if Command::new("unshare").args(["--net", "true"]).output().map_or(true, |tried| !tried.status.success()) {
        eprintln!("a network of a test's own is forbidden here: the image is neither built nor run");
        return;
    }
    let file = read("packaging/Containerfile");
    let base = file.lines().find_map(|line| line.strip_prefix("FROM ")?.strip_suffix(" AS build")).unwrap();
    let page = read(PAGE);
    let shown = blocks(&page).into_iter().find(|block| block.text.starts_with("podman build")).unwrap();
    let [build, run] = shown.text.lines().collect::<Vec<_>>()[..] else { panic!("{}", shown.text) };
    let check = page.split('`').find(|words| words.starts_with("podman run") && words.contains(" check ")).unwrap();

    let folder = Folder::new("container");
    let script = root().join("crates/cli/tests/packaging/container.sh");
    let mut command = Command::new("unshare");
    command.args(["--net", "bash"]).arg(script).current_dir(root());
    command.env("FOLDER", &folder.0).env("PROGRAM", env!("CARGO_BIN_EXE_sluicegate"));
    command.env("BASE", base).env("BUILD", build).env("RUN", run).env("CHECK", check);
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let log = fs::read_to_string(folder.0.join("log")).unwrap_or_default();
    if output.status.code() == Some(FORBIDDEN) {
        eprintln!("no container can run here: {out}");
        return;
    }
    assert!(output.status.success(), "{out}{err}{log}");
    let expected = "user: 65532:65532\n\
                    1 rule, 0 list entries, 0 warnings; no memory for keys\n\
                    asked: 200 200 429\n\
                    runs as: 65532\n\
                    it stopped when told to\n\
                    asked: 200 200 429\n\
                    by other rules: 200\n\
                    by its own rules: 200\n";
    assert_eq!(out, expected, "{err}{log}");
}

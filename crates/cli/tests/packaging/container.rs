//! Container image: built by `packaging/Containerfile` and run as documented in `docs/install.md`.
//!
//! The Rust base image is replaced by this machine's tools and a `cargo` that returns the program under test
//! instead of building it for minutes. All other lines are executed by a real builder, and the image runs in a
//! real container runtime, in a separate network namespace.

use std::fs;
use std::process::Command;

use super::install::PAGE;
use super::page::blocks;
use super::{TestDir, read, root};

/// Exit code of the script if containers cannot run here.
const EXIT_NO_CONTAINERS: i32 = 77;

#[test]
fn image_builds_and_runs_as_documented() {
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

    let folder = TestDir::new("container");
    let script = root().join("crates/cli/tests/packaging/container.sh");
    let mut command = Command::new("unshare");
    command.args(["--net", "bash"]).arg(script).current_dir(root());
    command.env("FOLDER", &folder.0).env("PROGRAM", env!("CARGO_BIN_EXE_sluicegate"));
    command.env("BASE", base).env("BUILD", build).env("RUN", run).env("CHECK", check);
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let log = fs::read_to_string(folder.0.join("log")).unwrap_or_default();
    if output.status.code() == Some(EXIT_NO_CONTAINERS) {
        eprintln!("no container can run here: {out}");
        return;
    }
    assert!(output.status.success(), "{out}{err}{log}");
    let expected = "user: 65532:65532\n\
                    1 rule, 0 list entries, 0 warnings; no memory for keys\n\
                    statuses: 200 200 429\n\
                    runs as: 65532\n\
                    stopped on SIGTERM\n\
                    statuses: 200 200 429\n\
                    by other rules: 200\n\
                    by its own rules: 200\n";
    assert_eq!(out, expected, "{err}{log}");
}

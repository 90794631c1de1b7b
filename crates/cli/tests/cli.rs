//! What a user sees: every command with its output, its errors and its exit code, and the same for
//! every command that the READMEs and the documentation show.
//!
//! `TRYCMD=overwrite cargo test -p sluicegate-cli` writes them anew.

#![allow(clippy::unwrap_used, reason = "functions that tests share are tests too")]

use std::path::Path;

#[test]
fn commands_say_what_they_are_shown_to_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    // Commands are shown as they are typed in the project's folder. This is the only test of its process.
    std::env::set_current_dir(root).unwrap();
    let cases = trycmd::TestCases::new();
    cases.env("NO_COLOR", "1");
    cases.case(root.join("crates/cli/tests/cmd/*.trycmd"));
    cases.case(root.join("crates/cli/tests/cmd/*.toml"));
    cases.case(root.join("README*.md"));
    cases.case(root.join("docs/*.md"));
}

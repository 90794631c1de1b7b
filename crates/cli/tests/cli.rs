//! Output, errors and exit code of every command, and of every command shown in the READMEs and the
//! documentation.
//!
//! `TRYCMD=overwrite cargo test -p sluicegate-cli` updates them.

use std::path::Path;

#[test]
fn commands_print_the_documented_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    // Commands run in the repository root. This is the only test of its process.
    std::env::set_current_dir(root).unwrap();
    let cases = trycmd::TestCases::new();
    cases.env("NO_COLOR", "1");
    cases.case(root.join("crates/cli/tests/cmd/*.trycmd"));
    cases.case(root.join("crates/cli/tests/cmd/*.toml"));
    cases.case(root.join("README*.md"));
    cases.case(root.join("docs/*.md"));
}

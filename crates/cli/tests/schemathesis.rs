//! Schemathesis over the OpenAPI description that the built program serves: whatever the description allows is
//! accepted, whatever it does not allow is refused, every answer is one that it describes, and no call fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod program;

use std::process::Command;

use program::{Program, SECRET, installed, ran};

/// Rules that any call can be decided by: what is refused, is refused for its form.
const RULES: &str = "
rules:
  - { name: total, limits: [1000000/1s] }
  - { name: jobs, limits: [{ concurrency: 100000 }] }
";

/// Runs all checks, which is what it does unless it is told otherwise. The seed makes every run the same.
fn examine(program: &Program, examples: &str, words: &[&str]) {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/schemathesis.toml");
    let mut command = Command::new(installed("bin/schemathesis"));
    command.current_dir(&program.folder).args(["--config-file", config, "run"]);
    command.arg(format!("http://{}/openapi.json", program.place("HTTP")));
    command.args(["--seed", "1", "--max-examples", examples, "--continue-on-failure"]);
    command.args(["--suppress-health-check", "all", "--no-color"]).args(words);
    // It fails if it finds something; what it could not try it would only tell.
    let told = ran(&mut command);
    assert!(told.contains("Selected: 18/18\n  Tested: 18\n"), "{told}");
    assert!(
        ["Examples", "Coverage", "Fuzzing", "Stateful"].iter().all(|it| told.contains(&format!("\u{2705} {it}\n"))),
        "{told}"
    );
}

#[test]
fn the_description_is_true() {
    let program = Program::start(&format!("server: {{ http: 127.0.0.1:0 }}{RULES}"));
    examine(&program, "10", &[]);
}

/// The description offers a way to show the secret; without it nothing is answered.
#[test]
fn the_description_is_true_where_a_secret_is_wanted() {
    let rules = format!("server: {{ http: {{ address: 127.0.0.1:0, secret: secret }} }}{RULES}");
    let program = Program::start(&rules);
    examine(&program, "5", &["--header", &format!("Authorization: Bearer {SECRET}")]);
}

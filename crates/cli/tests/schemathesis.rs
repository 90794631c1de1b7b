//! Schemathesis against the OpenAPI description served by the built program: allowed input is accepted, other
//! input is refused, every response is described, and no call fails.

use crate::program;

use std::process::Command;

use program::{Program, SECRET, installed_client, run_command};

/// Rules that match any call, so that a refused call is refused for its form.
const RULES: &str = "
rules:
  - { name: total, limits: [1000000/1s] }
  - { name: jobs, limits: [{ concurrency: 100000 }] }
";

/// Runs all checks, which is the default. The seed makes runs reproducible.
fn run_schemathesis(program: &Program, examples: &str, words: &[&str]) {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/schemathesis.toml");
    let mut command = Command::new(installed_client("bin/schemathesis"));
    command.current_dir(&program.folder).args(["--config-file", config, "run"]);
    command.arg(format!("http://{}/openapi.json", program.address("HTTP")));
    command.args(["--seed", "1", "--max-examples", examples, "--continue-on-failure"]);
    command.args(["--suppress-health-check", "all", "--no-color"]).args(words);
    // It fails on findings; skipped operations appear only in its output.
    let output = run_command(&mut command);
    assert!(output.contains("Selected: 18/18\n  Tested: 18\n"), "{output}");
    assert!(
        ["Examples", "Coverage", "Fuzzing", "Stateful"].iter().all(|it| output.contains(&format!("\u{2705} {it}\n"))),
        "{output}"
    );
}

#[test]
fn openapi_description_is_accurate() {
    let program = Program::start(&format!("server: {{ http: 127.0.0.1:0 }}{RULES}"));
    run_schemathesis(&program, "10", &[]);
}

/// The description declares the authentication; without the secret every call is refused.
#[test]
fn openapi_description_is_accurate_with_a_secret() {
    let rules = format!("server: {{ http: {{ address: 127.0.0.1:0, secret_file: secret }} }}{RULES}");
    let program = Program::start(&rules);
    run_schemathesis(&program, "5", &["--header", &format!("Authorization: Bearer {SECRET}")]);
}

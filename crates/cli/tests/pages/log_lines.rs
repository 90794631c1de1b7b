//! Log lines shown in `docs/monitoring.md`: the program writes them on refusals, on a rule change by a named
//! user, and on an invalid file.

use super::page::{Block, PageStep, blocks, read};
use super::session::Session;

/// Shows the log lines.
const PAGE: &str = "docs/monitoring.md";

/// Shows the token file.
const TOKENS_PAGE: &str = "docs/operations.md";

const RULES: &str = "server: { http: 127.0.0.1:8082 }
admin: { listen: 127.0.0.1:9900, token_file: tokens.txt }
rules:
  - name: total
    limits: [1000/s]
  - name: per-ip
    limits: [5/1h]
    key: client.ip
";

/// The first block of the page that contains these words.
fn block(page: &str, words: &str) -> Block {
    let found = blocks(&read(page)).into_iter().find(|block| block.text.contains(words));
    found.unwrap_or_else(|| panic!("{page} does not show {words}"))
}

/// A line without its timestamp, with all numbers masked except positions in the file.
fn mask_variable_parts(line: &str) -> String {
    let words = line.split(' ').skip(1).collect::<Vec<_>>().join(" ");
    ["count: ", "version: "].iter().fold(words, |line, name| {
        let Some((before, after)) = line.split_once(name) else { return line };
        format!("{before}{name}0{}", after.trim_start_matches(|it: char| it.is_ascii_digit()))
    })
}

#[test]
fn documented_log_lines_are_written() {
    let tokens = block(TOKENS_PAGE, "alice ").text;
    let token = tokens.lines().find_map(|line| line.strip_prefix("alice ")).unwrap().to_owned();
    let mut session = Session::begin();
    session.run_step(&PageStep {
        stops: false,
        files: vec![("tokens.txt".to_owned(), tokens), ("rules.yaml".to_owned(), RULES.to_owned())],
        commands: vec!["sluicegate run rules.yaml".to_owned()],
        outputs: Vec::new(),
        line: 0,
    });
    session.run_all(
        "for _ in {1..8}; do curl -s http://127.0.0.1:8082/v1/check --json '{\"client_ip\": \"203.0.113.9\"}'; done",
    );
    session.wait_for_log("refused (rule: per-ip, count: ");
    session.run_all(&format!(
        "text=$(sed 's/1000/2000/' rules.yaml | python3 -c 'import json, sys; print(json.dumps({{\"text\": sys.stdin.read(), \"based_on\": 1}}))')\n\
         curl -s --fail -X PUT -H 'Authorization: Bearer {token}' --json \"$text\" http://127.0.0.1:9900/v1/source"
    ));
    session.wait_for_log("rules updated");
    session.run_all("sed -i 's/limits: .5/limit: [5/' rules.yaml");
    session.wait_for_log("rule reload failed");

    let log = session.log();
    let written: Vec<String> = log.lines().map(mask_variable_parts).collect();
    for line in block(PAGE, "refused (rule: ").text.lines().map(mask_variable_parts) {
        assert!(written.contains(&line), "{PAGE} shows\n{line}\nThe log is\n{log}");
    }
}

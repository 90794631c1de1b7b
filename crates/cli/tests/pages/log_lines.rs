//! The lines that `docs/operations.md` shows of the program's log: asked for too much, given other rules by somebody with
//! a name, and then a file with a fault, it writes such lines.

use crate::page::{Block, Step, blocks, read};
use crate::session::Session;

const PAGE: &str = "docs/operations.md";

const RULES: &str = "server: { http: 127.0.0.1:8082 }
admin: { listen: 127.0.0.1:9900, token: tokens.txt }
rules:
  - name: total
    limits: [1000/s]
  - name: per-ip
    limits: [5/1h]
    key: client.ip
";

/// The first block of the page that says this.
fn shown(words: &str) -> Block {
    let found = blocks(&read(PAGE)).into_iter().find(|block| block.text.contains(words));
    found.unwrap_or_else(|| panic!("{PAGE} does not show {words}"))
}

/// A line without its time, and with one digit for every number that is not a place in the file.
fn lasting(line: &str) -> String {
    let words = line.split(' ').skip(1).collect::<Vec<_>>().join(" ");
    ["count: ", "version: "].iter().fold(words, |line, name| {
        let Some((before, after)) = line.split_once(name) else { return line };
        format!("{before}{name}0{}", after.trim_start_matches(|it: char| it.is_ascii_digit()))
    })
}

#[test]
fn the_log_has_such_lines() {
    let tokens = shown("alice ").text;
    let token = tokens.lines().find_map(|line| line.strip_prefix("alice ")).unwrap().to_owned();
    let mut session = Session::begin();
    session.follow(&Step {
        stops: false,
        files: vec![("tokens.txt".to_owned(), tokens), ("rules.yaml".to_owned(), RULES.to_owned())],
        commands: vec!["sluicegate run rules.yaml".to_owned()],
        answers: Vec::new(),
        line: 0,
    });
    session.run_all(
        "for _ in {1..8}; do curl -s http://127.0.0.1:8082/v1/check --json '{\"client_ip\": \"203.0.113.9\"}'; done",
    );
    session.until_logged("refused (rule: per-ip, count: ");
    session.run_all(&format!(
        "text=$(sed 's/1000/2000/' rules.yaml | python3 -c 'import json, sys; print(json.dumps({{\"text\": sys.stdin.read(), \"based_on\": 1}}))')\n\
         curl -s --fail -X PUT -H 'Authorization: Bearer {token}' --json \"$text\" http://127.0.0.1:9900/v1/source"
    ));
    session.until_logged("other rules are in force");
    session.run_all("sed -i 's/limits: .5/limit: [5/' rules.yaml");
    session.until_logged("were not put in force");

    let log = session.log();
    let came: Vec<String> = log.lines().map(lasting).collect();
    for line in shown("refused (rule: ").text.lines().map(lasting) {
        assert!(came.contains(&line), "{PAGE} shows\n{line}\nand the log is\n{log}");
    }
}

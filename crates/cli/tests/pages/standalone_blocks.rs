//! Blocks of pages that need a program with other rules than the page's own.

use std::fs;

use super::envoy_parts::CERTIFICATES;
use super::page::{Block, BlockNote, PageStep, blocks, read, root};
use super::session::{Session, matches_documented};

/// The block of the page that contains these words and names this file as its test.
fn block_covered_here(page: &str, words: &str) -> Block {
    let blocks = blocks(&read(page)).into_iter().filter(|block| block.text.contains(words));
    let mut covered = blocks.filter(|block| {
        block.note == Some(BlockNote::TestedBy("crates/cli/tests/pages/standalone_blocks.rs".to_owned()))
    });
    covered.next().unwrap_or_else(|| panic!("{page} does not show {words}"))
}

/// Starts a program with these rules and the files that `prepare` writes.
fn start_program(rules: &str, prepare: impl FnOnce(&Session)) -> Session {
    let mut session = Session::begin();
    prepare(&session);
    start(&mut session, "sluicegate run rules.yaml", ("rules.yaml", rules));
    session
}

/// Starts a long-running command with its file in the session.
fn start(session: &mut Session, command: &str, (name, text): (&str, &str)) {
    let (files, commands) = (vec![(name.to_owned(), text.to_owned())], vec![command.to_owned()]);
    session.run_step(&PageStep { stops: false, files, commands, outputs: Vec::new(), line: 0 });
}

#[test]
fn a_secret_that_is_too_short() {
    let session = Session::begin();
    let rules = "server: { http: { address: \"127.0.0.1:0\", secret_file: secret.txt } }\n";
    fs::write(session.folder().join("rules.yaml"), rules).unwrap();
    fs::write(session.folder().join("secret.txt"), "12345").unwrap();
    let output = session.run("sluicegate run rules.yaml 2>&1 || echo \"exit code $?\"");
    assert_eq!(output, block_covered_here("docs/server.md", "error: the secret").text + "exit code 1\n");
}

#[test]
fn secrets_and_certificates() {
    let service = |port| {
        format!(
            "{{ address: 127.0.0.1:{port}, secret_file: secret.txt, tls: {{ certificate: server.pem, key: server.key }} }}"
        )
    };
    let rules = format!("server:\n  http: {}\n  resp: {}\n{RULES}", service(8082), service(6380));
    let session = start_program(&rules, |session| {
        session.run_all(CERTIFICATES);
        session.run_all("openssl rand -hex 32 > secret.txt");
    });
    let output = session.run(&block_covered_here("docs/server.md", "curl --cacert ca.pem").text);
    let (http, resp) = output.split_once("1) ").unwrap_or_else(|| panic!("{output}"));
    assert!(http.contains("\"allowed\":true"), "{output}");
    assert!(resp.starts_with("(integer) 0\n2) (integer) 16\n3) (integer) 15\n4) (integer) -1\n"), "{output}");
}

const RULES: &str = "rules: [{ name: per-client, key: client.ip, limits: [5/1h] }]\n";

#[test]
fn a_client_in_python() {
    let session = start_program(&format!("server: {{ resp: \"127.0.0.1:6380\" }}\n{RULES}"), |_| ());
    let script =
        block_covered_here("docs/resp.md", "import redis").text + "print(limited, limit, remaining, retry, reset)\n";
    let python = root().join("target/tests/clients/bin/python");
    let output = session.run(&format!("{} - <<'END'\n{script}END\n", python.display()));
    assert_eq!(output, "0 16 15 -1 2\n");
}

#[test]
fn an_upstream_that_is_dead() {
    // No process listens there.
    let rules = "gateway:\n  listen: 127.0.0.1:8080\n  upstreams: { dead: [\"http://127.0.0.1:9001\"] }\n  \
                 routes: [{ path: \"/{*rest}\", upstream: dead }]\n";
    let output = start_program(rules, |_| ()).run("curl -si http://127.0.0.1:8080/");
    let shown = block_covered_here("docs/gateway.md", "502 Bad Gateway").text;
    assert!(matches_documented(&output, &shown, false), "{output}\ninstead of\n{shown}");
}

#[test]
fn a_quota_that_is_used_up() {
    let quota = "domain: shop\ndescriptors:\n  - key: q\n    quota_mode: true\n    rate_limit: { unit: minute, requests_per_unit: 1 }\n";
    let session = start_program("server: { http: \"127.0.0.1:8082\", ratelimit_dir: config }\n", |session| {
        fs::create_dir(session.folder().join("config")).unwrap();
        fs::write(session.folder().join("config/quota.yaml"), quota).unwrap();
    });
    let command = "curl -s http://127.0.0.1:8082/json --json \
               '{\"domain\": \"shop\", \"descriptors\": [{\"entries\": [{\"key\": \"q\", \"value\": \"/a\"}]}]}'";
    let shown = block_covered_here("docs/envoy.md", "quotaModeViolations").text;
    // The first request of each minute is not a violation.
    let outputs = [command; 3].map(|command| session.run(command));
    assert!(outputs.iter().any(|output| matches_documented(output, &shown, false)), "{outputs:?}\ninstead of\n{shown}");
}

/// A real Prometheus, only with a shorter scrape interval.
#[test]
fn prometheus_scrapes_with_its_token() {
    const TOKEN: &str = "0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f";
    let rules = "admin: { listen: 127.0.0.1:9900, token_file: tokens }\nserver: { http: 127.0.0.1:8082 }\n";
    let mut session = start_program(rules, |session| {
        fs::write(session.folder().join("tokens"), format!("prometheus {TOKEN} read\n")).unwrap();
        fs::write(session.folder().join("sluicegate-token"), TOKEN).unwrap();
    });
    let shown = block_covered_here("docs/monitoring.md", "scrape_configs:").text;
    let often = format!("global: {{ scrape_interval: 200ms, scrape_timeout: 200ms }}\n{shown}");
    let command =
        "prometheus --config.file=prometheus.yml --storage.tsdb.path=series --web.listen-address=127.0.0.1:8001";
    start(&mut session, command, ("prometheus.yml", &often));
    let command = "curl -s http://127.0.0.1:8001/api/v1/query?query=up | grep -o '\"[01]\"]' || true";
    session.wait_for_output(command, "\"1\"]\n");
}

/// All commands of the runbook run as one script, in page order.
#[test]
fn runbook_commands_work() {
    const TOKEN: &str = "7d0e5f1d9a6c4b0f8f5b8f5f5c1e2a3b";
    let rules = "server: { http: 127.0.0.1:8082 }\nadmin: { listen: 127.0.0.1:9900, token_file: tokens }\nrules:\n  - name: \
                 per-ip\n    key: client.ip\n    limits: [1/1h]\n    ban: { after: 2 refusals in 1m, for: 10m }\n";
    let session = start_program(rules, |session| {
        fs::write(session.folder().join("tokens"), format!("alice {TOKEN}\n")).unwrap();
    });
    // Over the limit, then banned.
    let check = "curl -s http://127.0.0.1:8082/v1/check --json '{\"client_ip\": \"203.0.113.9\"}'";
    (0..4).for_each(|_| drop(session.run(check)));
    let commands: String = blocks(&read("docs/runbook.md"))
        .into_iter()
        .filter(|block| block.kind == "sh")
        .map(|block| block.text)
        .collect();
    let responses = session.run(&format!("set -e\nTOKEN={TOKEN}\n{commands}"));
    let responses: Vec<&str> = responses.lines().collect();
    let expected = [
        "\"refused\":{\"total\":3,", // /v1/top
        "\"verdict\":\"refused\"",   // /v1/explain
        "{\"reset\":true}",          // DELETE /v1/keys
        "{\"removed\":true}",        // DELETE /v1/bans (field was `lifted`)
        "\"source\":\"runtime\"",    // POST /v1/lists/allow
        "{\"removed\":true}",        // DELETE /v1/lists/allow
        "\"remaining_s\":600.0",     // POST /v1/bans
        "\"source\":\"runtime\"",    // POST /v1/lists/deny
        "null",                      // /v1/store, none configured
        "{\"rules\":[]",             // /v1/adaptive
        "\"version\":1,",            // /v1/versions
        "{\"version\":2,",           // restore
    ];
    assert_eq!(responses.len(), expected.len(), "{responses:#?}");
    for (response, expected) in responses.iter().zip(expected) {
        assert!(response.contains(expected), "{response} has no {expected}");
    }
}

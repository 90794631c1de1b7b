//! What pages show aside: it needs a program with other rules than the page's own, and has one here.

use std::fs;

use crate::envoy_parts::CERTIFICATES;
use crate::page::{Block, Note, Step, blocks, read, root};
use crate::session::{Session, is_as_shown};

/// The block of the page that says so, which names this test.
fn aside(page: &str, words: &str) -> Block {
    let blocks = blocks(&read(page)).into_iter().filter(|block| block.text.contains(words));
    let mut held =
        blocks.filter(|block| block.note == Some(Note::HeldBy("crates/cli/tests/pages/asides.rs".to_owned())));
    held.next().unwrap_or_else(|| panic!("{page} does not show {words}"))
}

/// A program with these rules, and with these files beside them.
fn running(rules: &str, prepare: impl FnOnce(&Session)) -> Session {
    let mut session = Session::begin();
    prepare(&session);
    start(&mut session, "sluicegate run rules.yaml", ("rules.yaml", rules));
    session
}

/// Starts what goes on, with its file, in the session.
fn start(session: &mut Session, command: &str, (name, text): (&str, &str)) {
    let (files, commands) = (vec![(name.to_owned(), text.to_owned())], vec![command.to_owned()]);
    session.follow(&Step { stops: false, files, commands, answers: Vec::new(), line: 0 });
}

#[test]
fn a_secret_that_is_too_short() {
    let session = Session::begin();
    let rules = "server: { http: { address: \"127.0.0.1:0\", secret: secret.txt } }\n";
    fs::write(session.folder().join("rules.yaml"), rules).unwrap();
    fs::write(session.folder().join("secret.txt"), "12345").unwrap();
    let answer = session.run("sluicegate run rules.yaml 2>&1 || echo \"exit code $?\"");
    assert_eq!(answer, aside("docs/server.md", "error: the secret").text + "exit code 1\n");
}

#[test]
fn secrets_and_certificates() {
    let service = |port| {
        format!(
            "{{ address: 127.0.0.1:{port}, secret: secret.txt, tls: {{ certificate: server.pem, key: server.key }} }}"
        )
    };
    let rules = format!("server:\n  http: {}\n  resp: {}\n{RULES}", service(8082), service(6380));
    let session = running(&rules, |session| {
        session.run_all(CERTIFICATES);
        session.run_all("openssl rand -hex 32 > secret.txt");
    });
    let answer = session.run(&aside("docs/server.md", "curl --cacert ca.pem").text);
    let (http, resp) = answer.split_once("1) ").unwrap_or_else(|| panic!("{answer}"));
    assert!(http.contains("\"allowed\":true"), "{answer}");
    assert!(resp.starts_with("(integer) 0\n2) (integer) 16\n3) (integer) 15\n4) (integer) -1\n"), "{answer}");
}

const RULES: &str = "rules: [{ name: per-client, key: client.ip, limits: [5/1h] }]\n";

#[test]
fn a_client_in_python() {
    let session = running(&format!("server: {{ resp: \"127.0.0.1:6380\" }}\n{RULES}"), |_| ());
    let script = aside("docs/resp.md", "import redis").text + "print(limited, limit, remaining, retry, reset)\n";
    let python = root().join("target/tests/clients/bin/python");
    let answer = session.run(&format!("{} - <<'END'\n{script}END\n", python.display()));
    assert_eq!(answer, "0 16 15 -1 2\n");
}

#[test]
fn an_upstream_that_is_dead() {
    // Nobody listens there.
    let rules = "gateway:\n  listen: 127.0.0.1:8080\n  upstreams: { dead: [\"http://127.0.0.1:9001\"] }\n  \
                 routes: [{ path: \"/{*rest}\", upstream: dead }]\n";
    let answer = running(rules, |_| ()).run("curl -si http://127.0.0.1:8080/");
    let shown = aside("docs/gateway.md", "502 Bad Gateway").text;
    assert!(is_as_shown(&answer, &shown, false), "{answer}\nand not\n{shown}");
}

#[test]
fn a_quota_that_is_used_up() {
    let quota = "domain: shop\ndescriptors:\n  - key: q\n    quota_mode: true\n    rate_limit: { unit: minute, requests_per_unit: 1 }\n";
    let session = running("server: { http: \"127.0.0.1:8082\", ratelimit: config }\n", |session| {
        fs::create_dir(session.folder().join("config")).unwrap();
        fs::write(session.folder().join("config/quota.yaml"), quota).unwrap();
    });
    let ask = "curl -s http://127.0.0.1:8082/json --json \
               '{\"domain\": \"shop\", \"descriptors\": [{\"entries\": [{\"key\": \"q\", \"value\": \"/a\"}]}]}'";
    let shown = aside("docs/envoy.md", "quotaModeViolations").text;
    // The first of every minute is no violation.
    let answers = [ask; 3].map(|ask| session.run(ask));
    assert!(answers.iter().any(|answer| is_as_shown(answer, &shown, false)), "{answers:?}\nand never\n{shown}");
}

/// A real Prometheus, which is told only to come more often than each minute.
#[test]
fn prometheus_comes_with_its_token() {
    const TOKEN: &str = "0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f";
    let rules = "admin: { listen: 127.0.0.1:9900, token: tokens }\nserver: { http: 127.0.0.1:8082 }\n";
    let mut session = running(rules, |session| {
        fs::write(session.folder().join("tokens"), format!("prometheus {TOKEN} read\n")).unwrap();
        fs::write(session.folder().join("sluicegate-token"), TOKEN).unwrap();
    });
    let shown = aside("docs/operations.md", "scrape_configs:").text;
    let often = format!("global: {{ scrape_interval: 200ms, scrape_timeout: 200ms }}\n{shown}");
    let command =
        "prometheus --config.file=prometheus.yml --storage.tsdb.path=series --web.listen-address=127.0.0.1:8001";
    start(&mut session, command, ("prometheus.yml", &often));
    let ask = "curl -s http://127.0.0.1:8001/api/v1/query?query=up | grep -o '\"[01]\"]' || true";
    session.until_answered(ask, "\"1\"]\n");
}

#[test]
fn what_helps_at_three_in_the_morning() {
    const TOKEN: &str = "7d0e5f1d9a6c4b0f8f5b8f5f5c1e2a3b";
    let rules = "server: { http: 127.0.0.1:8082 }\nadmin: { listen: 127.0.0.1:9900, token: tokens }\nrules:\n  - name: \
                 per-ip\n    key: client.ip\n    limits: [1/1h]\n    ban: { after: 2 refusals in 1m, for: 10m }\n";
    let session = running(rules, |session| {
        fs::write(session.folder().join("tokens"), format!("alice {TOKEN}\n")).unwrap();
    });
    // Over the limit, and then banned for it.
    let check = "curl -s http://127.0.0.1:8082/v1/check --json '{\"client_ip\": \"203.0.113.9\"}'";
    (0..4).for_each(|_| drop(session.run(check)));
    let shown = aside("docs/operations.md", "oauth2-bearer").text;
    let answers = session.run(&format!("set -e\nTOKEN={TOKEN}\n{shown}"));
    let answers: Vec<&str> = answers.lines().collect();
    let expected = [
        "\"refused\":{\"total\":3,",
        "\"verdict\":\"refused\"",
        "\"source\":\"added\"",
        "{\"removed\":true}",
        "{\"reset\":true}",
        "{\"lifted\":true}",
        "\"remaining_s\":600.0",
        "\"version\":1,",
        "{\"version\":2,",
    ];
    assert_eq!(answers.len(), expected.len(), "{answers:#?}");
    for (answer, expected) in answers.iter().zip(expected) {
        assert!(answer.contains(expected), "{answer} has no {expected}");
    }
}

//! Rule reload of the built program while it serves.

#![cfg(unix)]

use crate::program;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use program::{Program, TEST_TIMEOUT, wait_until};

const TOKEN: &str = "a-token-for-tests-0123456789";

/// A rule file with a gateway, its built-in upstream and these rules.
fn file(rules: &str) -> String {
    format!(
        "watch: false\nadmin: {{ listen: \"127.0.0.1:0\", token_file: tokens }}\nserver: {{ http: \"127.0.0.1:0\" }}\n\
         gateway:\n  listen: 127.0.0.1:0\n  upstreams: {{ demo: builtin }}\n  routes: [{{ path: \"/{{*rest}}\", \
         upstream: demo }}]\n{rules}"
    )
}

fn started(text: &str) -> Program {
    let program =
        Program::start_with(text, |folder| fs::write(folder.join("tokens"), format!("ann {TOKEN}\n")).unwrap());
    wait_until("the dashboard is up", || program.log().contains("dashboard at "));
    program
}

/// The address behind these words in the log.
fn address_after(program: &Program, before: &str) -> SocketAddr {
    let log = program.log();
    let rest = log.split(before).nth(1).unwrap_or_else(|| panic!("{log}"));
    rest.split(|letter: char| letter == '/' || letter.is_whitespace()).next().unwrap().parse().unwrap()
}

fn gateway(program: &Program) -> SocketAddr {
    address_after(program, "listening at ")
}

fn admin(program: &Program) -> SocketAddr {
    address_after(program, "dashboard at http://")
}

/// A reused connection. After writing a file, a test opens a new one: a busy disk can take longer over a file
/// than the server's idle timeout.
struct HttpClient(TcpStream);

impl HttpClient {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let head = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}", body.len());
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let call = format!("{method} {path} HTTP/1.1\r\n{kind}{head}\r\n\r\n{body}");
        self.0.write_all(call.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        loop {
            if let Some(response) = complete_response(&bytes) {
                return response;
            }
            let mut part = [0; 8192];
            let count = self.0.read(&mut part).unwrap();
            assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&part[..count]);
        }
    }
}

/// The response, if it is complete.
fn complete_response(bytes: &[u8]) -> Option<(u16, String)> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    });
    let length = length.unwrap_or_else(|| panic!("no length: {head}"));
    (body.len() >= length).then(|| (head[9..12].parse().unwrap(), body[..length].to_owned()))
}

/// After an invalid file the old rules stay active and the error is visible; then a valid file is applied.
#[test]
fn an_invalid_file_changes_nothing_and_a_valid_one_is_applied() {
    let program = started(&file("rules: [{ name: total, limits: [2/1h] }]\n"));
    let statuses = |count| {
        let mut client = HttpClient::connect(gateway(&program));
        (0..count).map(|_| client.send("GET", "/", "").0).collect::<Vec<_>>()
    };
    assert_eq!(statuses(3), [200, 200, 429]);
    fs::write(program.folder.join("rules.yaml"), file("rules: [{ name: total, limit: [9/1h] }]\n")).unwrap();
    send_sighup(&program);
    wait_until("the error is logged", || program.log().contains("rule reload failed"));
    let mut operator = HttpClient::connect(admin(&program));
    let (status, text) = operator.send("GET", "/v1/status", "");
    assert!(
        status == 200 && text.contains("did you mean `limits`?") && text.contains("\"failed_reloads\":1"),
        "{text}"
    );
    let (_, metrics) = operator.send("GET", "/metrics", "");
    assert!(metrics.contains("sluicegate_last_reload_successful 0"), "{metrics}");
    assert_eq!(statuses(1), [429]);
    fs::write(program.folder.join("rules.yaml"), file("rules: [{ name: total, limits: [3/1h] }]\n")).unwrap();
    send_sighup(&program);
    wait_until("the update is logged", || program.log().contains("rules updated"));
    assert_eq!(statuses(2), [200, 429], "what was taken stays taken");
    let (_, metrics) = HttpClient::connect(admin(&program)).send("GET", "/metrics", "");
    assert!(metrics.contains("sluicegate_last_reload_successful 1"), "{metrics}");
}

/// Also for the envoyproxy/ratelimit files that the rule file names.
#[test]
fn descriptors_change_with_the_rules() {
    let limits = |count| {
        format!(
            "domain: shop\ndescriptors:\n  - key: path\n    rate_limit: {{ unit: hour, requests_per_unit: {count} }}\n"
        )
    };
    let text = "watch: false\nserver: { rls: \"127.0.0.1:0\", http: \"127.0.0.1:0\", ratelimit_dir: limits }\nadmin: { listen: \
                \"127.0.0.1:0\", token_file: tokens }\nrules: []\n";
    let program = Program::start_with(text, |folder| {
        fs::write(folder.join("tokens"), format!("ann {TOKEN}\n")).unwrap();
        fs::create_dir(folder.join("limits")).unwrap();
        fs::write(folder.join("limits/shop.yaml"), limits(1)).unwrap();
    });
    wait_until("the dashboard is up", || program.log().contains("dashboard at "));
    let request = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/a"}]}]}"#;
    let check = || HttpClient::connect(program.address("HTTP")).send("POST", "/json", request).0;
    assert_eq!([(); 2].map(|()| check()), [200, 429]);
    fs::write(program.folder.join("limits/shop.yaml"), limits(3)).unwrap();
    let (status, text) = HttpClient::connect(admin(&program)).send("POST", "/v1/reload", "");
    assert_eq!(status, 200, "{text}");
    assert_eq!([(); 3].map(|()| check()), [200, 200, 429]);
}

/// A thousand reloads under load: no request fails, no limit is reset, and memory does not grow.
#[test]
fn a_thousand_reloads_lose_no_request() {
    let rules = |index: usize| {
        let further: String = (0..50)
            .map(|rule| format!("  - {{ name: r{rule}, match: GET /r{rule}, limits: [{}/1m] }}\n", 100 + index % 3))
            .collect();
        file(&format!(
            "rules:\n  - {{ name: limited, match: GET /limited, key: client.ip, limits: [300/1h] }}\n{further}"
        ))
    };
    let program = started(&rules(0));
    let (address, stop) = (gateway(&program), Arc::new(AtomicBool::new(false)));
    let (passed, sent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|index| {
            let (stop, passed, sent) = (Arc::clone(&stop), Arc::clone(&passed), Arc::clone(&sent));
            thread::spawn(move || {
                let mut client = HttpClient::connect(address);
                while !stop.load(Ordering::Relaxed) {
                    match index {
                        0 => match client.send("GET", "/limited", "").0 {
                            200 => drop(passed.fetch_add(1, Ordering::Relaxed)),
                            status => assert_eq!(status, 429),
                        },
                        _ => assert_eq!(client.send("GET", "/free", "").0, 200),
                    }
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let reload = |index| {
        fs::write(program.folder.join("rules.yaml"), rules(index)).unwrap();
        let (status, text) = HttpClient::connect(admin(&program)).send("POST", "/v1/reload", "");
        assert_eq!(status, 200, "{text}");
    };
    (1..=200).for_each(reload);
    let before = program.memory_kib();
    (201..=1_000).for_each(reload);
    let after = program.memory_kib();
    wait_until("enough requests are sent", || sent.load(Ordering::Relaxed) > 2_000);
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(passed.load(Ordering::Relaxed), 300, "the limit is kept through all of it");
    // The number of stored versions is bounded, and the bound has been reached by then.
    assert!(after < before + 16_384, "memory has grown from {before} to {after} KiB");
    let (_, status) = HttpClient::connect(admin(&program)).send("GET", "/v1/status", "");
    assert!(status.contains("\"reloads\":1000"), "{status}");
}

/// Sends SIGHUP, which reloads the rules.
fn send_sighup(program: &Program) {
    let id = program.id().to_string();
    assert!(Command::new("kill").args(["-s", "HUP", &id]).status().unwrap().success());
}

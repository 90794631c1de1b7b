//! The built program, whose rules change while it serves.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod program;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use program::{GUARD, Program, until};

const TOKEN: &str = "a-token-for-tests-0123456789";

/// A gateway before the built-in program, with these rules.
fn file(rules: &str) -> String {
    format!(
        "watch: false\nadmin: {{ listen: \"127.0.0.1:0\", token: tokens }}\nserver: {{ http: \"127.0.0.1:0\" }}\n\
         gateway:\n  listen: 127.0.0.1:0\n  upstreams: {{ demo: builtin }}\n  routes: [{{ path: \"/{{*rest}}\", \
         upstream: demo }}]\n{rules}"
    )
}

fn started(text: &str) -> Program {
    let program =
        Program::start_with(text, |folder| fs::write(folder.join("tokens"), format!("ann {TOKEN}\n")).unwrap());
    until("the dashboard is there", || program.log().contains("dashboard at "));
    program
}

/// What stands behind a word in what the program has told.
fn told(program: &Program, before: &str) -> SocketAddr {
    let log = program.log();
    let rest = log.split(before).nth(1).unwrap_or_else(|| panic!("{log}"));
    rest.split(|letter: char| letter == '/' || letter.is_whitespace()).next().unwrap().parse().unwrap()
}

fn gateway(program: &Program) -> SocketAddr {
    told(program, "listening at ")
}

fn admin(program: &Program) -> SocketAddr {
    told(program, "dashboard at http://")
}

/// A connection that is kept. Whoever writes files makes a new one afterwards: a disk that is busy enough takes longer
/// over a file than any server waits for the next call.
struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(GUARD)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let head = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}", body.len());
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let call = format!("{method} {path} HTTP/1.1\r\n{kind}{head}\r\n\r\n{body}");
        self.0.write_all(call.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        loop {
            if let Some(answer) = whole(&bytes) {
                return answer;
            }
            let mut part = [0; 8192];
            let count = self.0.read(&mut part).unwrap();
            assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&part[..count]);
        }
    }
}

/// The answer, if all of it has come.
fn whole(bytes: &[u8]) -> Option<(u16, String)> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    });
    let length = length.unwrap_or_else(|| panic!("no length: {head}"));
    (body.len() >= length).then(|| (head[9..12].parse().unwrap(), body[..length].to_owned()))
}

/// The rules of before go on, and everybody who looks is told; then good ones come.
#[test]
fn a_bad_file_changes_nothing_and_a_good_one_takes_effect() {
    let program = started(&file("rules: [{ name: total, limits: [2/1h] }]\n"));
    let statuses = |count| {
        let mut client = Client::connect(gateway(&program));
        (0..count).map(|_| client.ask("GET", "/", "").0).collect::<Vec<_>>()
    };
    assert_eq!(statuses(3), [200, 200, 429]);
    fs::write(program.folder.join("rules.yaml"), file("rules: [{ name: total, limit: [9/1h] }]\n")).unwrap();
    hang_up(&program);
    until("it is told", || program.log().contains("other rules were not put in force"));
    let mut operator = Client::connect(admin(&program));
    let (status, text) = operator.ask("GET", "/v1/status", "");
    assert!(
        status == 200 && text.contains("did you mean `limits`?") && text.contains("\"failed_reloads\":1"),
        "{text}"
    );
    let (_, metrics) = operator.ask("GET", "/metrics", "");
    assert!(metrics.contains("sluicegate_last_reload_successful 0"), "{metrics}");
    assert_eq!(statuses(1), [429]);
    fs::write(program.folder.join("rules.yaml"), file("rules: [{ name: total, limits: [3/1h] }]\n")).unwrap();
    hang_up(&program);
    until("it is told", || program.log().contains("other rules are in force"));
    assert_eq!(statuses(2), [200, 429], "what was taken stays taken");
    let (_, metrics) = Client::connect(admin(&program)).ask("GET", "/metrics", "");
    assert!(metrics.contains("sluicegate_last_reload_successful 1"), "{metrics}");
}

/// Also the files of envoyproxy/ratelimit that the rule file names.
#[test]
fn descriptors_change_with_the_rules() {
    let limits = |count| {
        format!(
            "domain: shop\ndescriptors:\n  - key: path\n    rate_limit: {{ unit: hour, requests_per_unit: {count} }}\n"
        )
    };
    let text = "watch: false\nserver: { rls: \"127.0.0.1:0\", http: \"127.0.0.1:0\", ratelimit: limits }\nadmin: { listen: \
                \"127.0.0.1:0\", token: tokens }\nrules: []\n";
    let program = Program::start_with(text, |folder| {
        fs::write(folder.join("tokens"), format!("ann {TOKEN}\n")).unwrap();
        fs::create_dir(folder.join("limits")).unwrap();
        fs::write(folder.join("limits/shop.yaml"), limits(1)).unwrap();
    });
    until("the dashboard is there", || program.log().contains("dashboard at "));
    let asked = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/a"}]}]}"#;
    let ask = || Client::connect(program.place("HTTP")).ask("POST", "/json", asked).0;
    assert_eq!([(); 2].map(|()| ask()), [200, 429]);
    fs::write(program.folder.join("limits/shop.yaml"), limits(3)).unwrap();
    let (status, text) = Client::connect(admin(&program)).ask("POST", "/v1/reload", "");
    assert_eq!(status, 200, "{text}");
    assert_eq!([(); 3].map(|()| ask()), [200, 200, 429]);
}

/// A thousand reloads under load: no request fails, no limit is forgotten, and memory does not grow.
#[test]
fn a_thousand_reloads_disturb_nobody() {
    let rules = |nth: usize| {
        let further: String = (0..50)
            .map(|rule| format!("  - {{ name: r{rule}, match: GET /r{rule}, limits: [{}/1m] }}\n", 100 + nth % 3))
            .collect();
        file(&format!(
            "rules:\n  - {{ name: limited, match: GET /limited, key: client.ip, limits: [300/1h] }}\n{further}"
        ))
    };
    let program = started(&rules(0));
    let (address, stop) = (gateway(&program), Arc::new(AtomicBool::new(false)));
    let (passed, asked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|nth| {
            let (stop, passed, asked) = (Arc::clone(&stop), Arc::clone(&passed), Arc::clone(&asked));
            thread::spawn(move || {
                let mut client = Client::connect(address);
                while !stop.load(Ordering::Relaxed) {
                    match nth {
                        0 => match client.ask("GET", "/limited", "").0 {
                            200 => drop(passed.fetch_add(1, Ordering::Relaxed)),
                            status => assert_eq!(status, 429),
                        },
                        _ => assert_eq!(client.ask("GET", "/free", "").0, 200),
                    }
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let reload = |nth| {
        fs::write(program.folder.join("rules.yaml"), rules(nth)).unwrap();
        let (status, text) = Client::connect(admin(&program)).ask("POST", "/v1/reload", "");
        assert_eq!(status, 200, "{text}");
    };
    (1..=200).for_each(reload);
    let before = program.memory();
    (201..=1_000).for_each(reload);
    let after = program.memory();
    until("enough was asked", || asked.load(Ordering::Relaxed) > 2_000);
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(passed.load(Ordering::Relaxed), 300, "the limit is kept through all of it");
    // Versions are remembered up to a bound that has been reached by then.
    assert!(after < before + 16_384, "memory has grown from {before} to {after} KiB");
    let (_, status) = Client::connect(admin(&program)).ask("GET", "/v1/status", "");
    assert!(status.contains("\"reloads\":1000"), "{status}");
}

/// Has the program read its rules again.
fn hang_up(program: &Program) {
    let id = program.id().to_string();
    assert!(Command::new("kill").args(["-s", "HUP", &id]).status().unwrap().success());
}

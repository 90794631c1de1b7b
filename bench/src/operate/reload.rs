//! Exchanging ten thousand rules under load: `reload-10k` and `reload-pause`.
//!
//! Requests come by the clock, each timed from when it was due, while every quarter of a second a file of ten thousand
//! rules in which the limits have changed is put in force. How long that takes is one figure; by how much the slowest
//! hundredth of requests is later than without reloads is the other.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::programs::client::Client;
use crate::programs::folder::Folder;
use crate::programs::open_loop::OpenLoop;
use crate::programs::program::{Program, free_port};
use crate::programs::sluicegate;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const RULES: usize = 10_000;
const EVERY: Duration = Duration::from_millis(250);
const TOKEN: &str = "a-token-for-the-bench-only";

pub(crate) fn ten_thousand_rules(scale: Scale) -> Vec<Row> {
    let admin = free_port();
    let folder = Folder::with("tokens", format!("bench {TOKEN}\n"));
    let tokens = folder.path().join("tokens");
    let gateway = sluicegate::run(|port| text(port, admin, &tokens.display().to_string(), 0));
    let path = gateway.file("rules.yaml");
    let lasting = Duration::from_secs(if scale.quick { 2 } else { 10 });
    let rounds = if scale.quick { 1 } else { 3 };
    let (mut pauses, mut takes) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let quiet = p99(&gateway, lasting);
        let stop = Arc::new(AtomicBool::new(false));
        let reloading = {
            let (stop, path, port) = (Arc::clone(&stop), path.clone(), gateway.port());
            let tokens = tokens.display().to_string();
            thread::spawn(move || {
                let mut times = Vec::new();
                for edition in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        return times;
                    }
                    fs::write(&path, text(port, admin, &tokens, edition)).expect("the file is written");
                    times.push(reload(admin));
                    thread::sleep(EVERY);
                }
                times
            })
        };
        let busy = p99(&gateway, lasting);
        stop.store(true, Ordering::Relaxed);
        takes.extend(reloading.join().expect("reloads work"));
        pauses.push(busy.saturating_sub(quiet));
    }
    takes.sort_unstable();
    pauses.sort_unstable();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    vec![
        Row {
            case: "reload-10k",
            peer: "a second",
            unit: Unit::Micros,
            ours: micros(takes[takes.len() - 1]),
            theirs: 1e6,
            goal: Goal::ratio(1.0),
        },
        Row {
            case: "reload-pause",
            peer: "a millisecond",
            unit: Unit::Micros,
            ours: micros(pauses[pauses.len() / 2]),
            theirs: 1e3,
            goal: Goal::ratio(1.0),
        },
    ]
}

/// A rule file with ten thousand rules of all kinds, whose limits change with the edition.
fn text(port: u16, admin: u16, tokens: &str, edition: usize) -> String {
    let head = format!(
        "watch: false\nadmin: {{ listen: 127.0.0.1:{admin}, token: {tokens} }}\ngateway:\n  threads: 2\n  listen: \
         127.0.0.1:{port}\n  upstreams: {{ demo: builtin }}\n  routes: [{{ path: \"/{{*rest}}\", upstream: demo \
         }}]\nrules:\n"
    );
    let rule = |nth: usize| {
        let most = 1_000 + (nth + edition) % 7;
        let key = if nth.is_multiple_of(2) { "" } else { "    key: client.ip\n    max_keys: 64\n" };
        let when = if nth.is_multiple_of(5) { "    when: \"header['x-tier'] != 'vip'\"\n" } else { "" };
        format!("  - name: rule-{nth}\n    match: GET /part-{nth}/**\n{key}{when}    limits: [{most}/1m]\n")
    };
    (0..RULES).fold(head, |mut text, nth| {
        text.push_str(&rule(nth));
        text
    })
}

/// Puts the file in force, and answers how long that took.
fn reload(admin: u16) -> Duration {
    let begun = Instant::now();
    let head = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0");
    let answer = Client::connect(admin).ask(format!("POST /v1/reload HTTP/1.1\r\n{head}\r\n\r\n").as_bytes());
    assert_eq!(answer.status, 200, "{}{}", answer.head, String::from_utf8_lossy(&answer.body));
    begun.elapsed()
}

/// How late the slowest hundredth of requests are, which come by the clock.
fn p99(gateway: &Program, lasting: Duration) -> Duration {
    let times = OpenLoop { connections: 8, per_second: 2_000.0, path: "/elsewhere", lasting }.times(gateway.port());
    times[times.len() * 99 / 100]
}

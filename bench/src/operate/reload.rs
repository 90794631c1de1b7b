//! Reload of ten thousand rules under load: `reload-10k` and `reload-pause`.
//!
//! An open loop sends requests while a file of ten thousand rules with changed limits is reloaded every quarter of a
//! second. The first figure is the duration of a reload, the second the increase of the p99 response time compared with
//! a run without reloads.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::programs::client::Client;
use crate::programs::open_loop::OpenLoop;
use crate::programs::program::{Program, free_port};
use crate::programs::sluicegate;
use crate::programs::temp_dir::TempDir;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const RULES: usize = 10_000;
const RELOAD_INTERVAL: Duration = Duration::from_millis(250);
const TOKEN: &str = "a-token-for-the-bench-only";

pub(crate) fn ten_thousand_rules(scale: Scale) -> Vec<Row> {
    let admin = free_port();
    let dir = TempDir::with_file("tokens", format!("bench {TOKEN}\n"));
    let tokens = dir.path().join("tokens");
    let gateway = sluicegate::run(|port, _| rule_file(port, admin, &tokens.display().to_string(), 0));
    let path = gateway.file("rules.yaml");
    let duration = Duration::from_secs(if scale.quick { 2 } else { 10 });
    let rounds = if scale.quick { 1 } else { 3 };
    let (mut pauses, mut reload_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let quiet = p99(&gateway, duration);
        let stop = Arc::new(AtomicBool::new(false));
        let reloading = {
            let (stop, path, port) = (Arc::clone(&stop), path.clone(), gateway.port());
            let tokens = tokens.display().to_string();
            thread::spawn(move || {
                let mut times = Vec::new();
                for generation in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        return times;
                    }
                    fs::write(&path, rule_file(port, admin, &tokens, generation)).expect("file is written");
                    times.push(reload(admin));
                    thread::sleep(RELOAD_INTERVAL);
                }
                times
            })
        };
        let busy = p99(&gateway, duration);
        stop.store(true, Ordering::Relaxed);
        reload_times.extend(reloading.join().expect("reloads succeed"));
        pauses.push(busy.saturating_sub(quiet));
    }
    reload_times.sort_unstable();
    pauses.sort_unstable();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    vec![
        Row {
            case: "reload-10k",
            peer: "one second",
            unit: Unit::Micros,
            ours: micros(reload_times[reload_times.len() - 1]),
            theirs: 1e6,
            goal: Goal::ratio(1.0),
        },
        Row {
            case: "reload-pause",
            peer: "one millisecond",
            unit: Unit::Micros,
            ours: micros(pauses[pauses.len() / 2]),
            theirs: 1e3,
            goal: Goal::ratio(1.0),
        },
    ]
}

/// Rule file with ten thousand rules of several kinds; the limits depend on the generation.
fn rule_file(port: u16, admin: u16, tokens: &str, generation: usize) -> String {
    let head = format!(
        "watch: false\nadmin: {{ listen: 127.0.0.1:{admin}, token_file: {tokens} }}\ngateway:\n  threads: 2\n  listen: \
         127.0.0.1:{port}\n  upstreams: {{ demo: builtin }}\n  routes: [{{ path: \"/{{*rest}}\", upstream: demo \
         }}]\nrules:\n"
    );
    let rule = |index: usize| {
        let limit = 1_000 + (index + generation) % 7;
        let key = if index.is_multiple_of(2) { "" } else { "    key: client.ip\n    max_keys: 64\n" };
        let when = if index.is_multiple_of(5) { "    when: \"header['x-tier'] != 'vip'\"\n" } else { "" };
        format!("  - name: rule-{index}\n    match: GET /part-{index}/**\n{key}{when}    limits: [{limit}/1m]\n")
    };
    (0..RULES).fold(head, |mut text, index| {
        text.push_str(&rule(index));
        text
    })
}

/// Reloads the rule file and returns the time it took.
fn reload(admin: u16) -> Duration {
    let started = Instant::now();
    let head = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0");
    let response = Client::connect(admin).request(format!("POST /v1/reload HTTP/1.1\r\n{head}\r\n\r\n").as_bytes());
    assert_eq!(response.status, 200, "{}{}", response.head, String::from_utf8_lossy(&response.body));
    started.elapsed()
}

/// p99 response time of an open loop.
fn p99(gateway: &Program, duration: Duration) -> Duration {
    let times = OpenLoop { connections: 8, per_second: 2_000.0, path: "/unlimited", duration }.times(gateway.port());
    times[times.len() * 99 / 100]
}

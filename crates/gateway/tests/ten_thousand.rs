//! Ten thousand idle connections and a thousand requests per second at the same time, without an error. The
//! idle clients are in a process of their own: both ends would need too many file descriptors for one. If even
//! one end exceeds the system's limit, the test fails and names the limit to raise, so that a skipped test
//! never looks like a passed one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::raw::Client;
use support::upstream::Upstream;
use support::{TestGateway, proxy_yaml, wait_until};

const IDLE: usize = 10_000;

/// File descriptors for one end of all connections, and some more.
const FILES: usize = IDLE + 1_000;

const SECONDS: u32 = 5;
const WORKERS: u32 = 20;

#[test]
fn a_thousand_requests_per_second_with_ten_thousand_idle_connections() {
    if let Ok(at) = std::env::var("IDLE_AT") {
        return idle(at.parse().unwrap());
    }
    let (allowed, max) = files_allowed();
    assert!(
        max >= FILES,
        "a crowd of {IDLE} connections needs {FILES} open files, and this process may have {max}: raise the hard limit \
         (as root `ulimit -n {FILES}`, or LimitNOFILE= of the service, or --ulimit nofile={FILES} of the container)"
    );
    if allowed < FILES {
        // The shell can raise the limit on open files up to the system's limit.
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -S -n {FILES} && exec \"$0\" \"$@\"")]);
        assert!(command.arg(std::env::current_exe().unwrap()).status().unwrap().success());
        return;
    }
    let upstream = Upstream::returning("hello");
    let yaml = proxy_yaml(&[upstream.at], "rules: [{ name: many, limits: [100000/s] }]");
    let yaml = yaml.replace("threads: 2", &format!("threads: 2\n  connections: {{ max: {} }}", IDLE + 100));
    let gateway = TestGateway::from_yaml(&yaml);

    let mut idle = Command::new(std::env::current_exe().unwrap())
        .arg("--nocapture")
        .env("IDLE_AT", gateway.at.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut says = BufReader::new(idle.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(says.any(|line| line.ends_with("all are idle")));
    wait_until("all are counted", || gateway.running().stats().listener().counts().open == IDLE);

    let is_slow = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let (at, is_slow) = (gateway.at, Arc::clone(&is_slow));
            std::thread::spawn(move || good_requests(at, number, &is_slow))
        })
        .collect();
    let sent: u32 = workers.into_iter().map(|it| it.join().unwrap()).sum();
    assert_eq!(sent, 1_000 * SECONDS);
    if is_slow.load(Ordering::SeqCst) {
        eprintln!("they took longer than {SECONDS} s: this machine is busy");
    }
    assert_eq!(gateway.running().stats().listener().counts().rejected.total(), 0);
    assert!(gateway.running().stats().listener().counts().open >= IDLE);

    // The idle connections still work.
    idle.stdin.take().unwrap().write_all(b"go on").unwrap();
    assert!(says.any(|line| line.ends_with("all got a response")));
    assert!(idle.wait().unwrap().success());
    wait_until("all are closed", || gateway.running().stats().listener().counts().open == 0);
    assert_eq!(upstream.requests(), 2 * IDLE + sent as usize);
}

/// Sends one worker's share of the requests, spread over time.
fn good_requests(at: SocketAddr, index: u32, is_slow: &AtomicBool) -> u32 {
    let mut client = Client::connect(at);
    let (every, start) = (Duration::from_millis(u64::from(WORKERS)), Instant::now());
    let count = 1_000 * SECONDS / WORKERS;
    for round in 0..count {
        let due = every * round + Duration::from_millis(u64::from(index));
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let response = client.get("/good");
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
    }
    if start.elapsed() > Duration::from_secs(u64::from(SECONDS) + 1) {
        is_slow.store(true, Ordering::SeqCst);
    }
    count
}

/// Opens all connections, sends one request on each, waits, and sends another one.
fn idle(at: SocketAddr) {
    let mut clients: Vec<Client> = (0..IDLE).map(|_| Client::connect(at)).collect();
    let mut send_all = || {
        for client in &mut clients {
            assert_eq!(client.get("/idle").status, 200);
        }
    };
    send_all();
    report("all are idle");
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
    send_all();
    report("all got a response");
}

fn report(label: &str) {
    std::io::stdout().write_all(format!("{label}\n").as_bytes()).unwrap();
}

/// The limit on open files, and its maximum.
fn files_allowed() -> (usize, usize) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut limits = line.split_whitespace().map(|limit| limit.parse().unwrap_or(usize::MAX));
    (limits.next().unwrap(), limits.next().unwrap())
}

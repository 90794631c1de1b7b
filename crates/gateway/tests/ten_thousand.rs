//! Ten thousand connections that are idle, and a thousand good requests a second beside them, without one error.
//! The idle ones are in a process of their own: both ends would be too many files for one. Where even one end is more
//! than the system allows, the test fails and says what to raise: what was not tested must not look as if it was.
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
use support::{Served, before, until};

const IDLE: usize = 10_000;

/// What a process with one end of all connections needs of files, beside its own.
const FILES: usize = IDLE + 1_000;

const SECONDS: u32 = 5;
const WORKERS: u32 = 20;

#[test]
fn a_thousand_good_requests_a_second_beside_ten_thousand_idle_connections() {
    if let Ok(at) = std::env::var("IDLE_AT") {
        return idle(at.parse().unwrap());
    }
    let (allowed, most) = files_allowed();
    assert!(
        most >= FILES,
        "a crowd of {IDLE} connections needs {FILES} open files, and this process may have {most}: raise the hard limit \
         (as root `ulimit -n {FILES}`, or LimitNOFILE= of the service, or --ulimit nofile={FILES} of the container)"
    );
    if allowed < FILES {
        // The shell can raise what this process may open, up to what the system allows.
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -S -n {FILES} && exec \"$0\" \"$@\"")]);
        assert!(command.arg(std::env::current_exe().unwrap()).status().unwrap().success());
        return;
    }
    let upstream = Upstream::saying("hello");
    let yaml = before(&[upstream.at], "rules: [{ name: many, limits: [100000/s] }]");
    let yaml = yaml.replace("threads: 2", &format!("threads: 2\n  connections: {{ max: {} }}", IDLE + 100));
    let served = Served::of(&yaml);

    let mut idle = Command::new(std::env::current_exe().unwrap())
        .arg("--nocapture")
        .env("IDLE_AT", served.at.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut says = BufReader::new(idle.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(says.any(|line| line.ends_with("all are idle")));
    until("all are counted", || served.running().vitals().door().counts().open == IDLE);

    let late = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let (at, late) = (served.at, Arc::clone(&late));
            std::thread::spawn(move || good_requests(at, number, &late))
        })
        .collect();
    let sent: u32 = workers.into_iter().map(|it| it.join().unwrap()).sum();
    assert_eq!(sent, 1_000 * SECONDS);
    if late.load(Ordering::SeqCst) {
        eprintln!("they took longer than {SECONDS} s: this machine is busy");
    }
    assert_eq!(served.running().vitals().door().counts().refused.total(), 0);
    assert!(served.running().vitals().door().counts().open >= IDLE);

    // Those who were idle are still welcome.
    idle.stdin.take().unwrap().write_all(b"go on").unwrap();
    assert!(says.any(|line| line.ends_with("all were answered")));
    assert!(idle.wait().unwrap().success());
    until("all have left", || served.running().vitals().door().counts().open == 0);
    assert_eq!(upstream.requests(), 2 * IDLE + sent as usize);
}

/// Sends one worker's share of requests, spread over the time.
fn good_requests(at: SocketAddr, number: u32, late: &AtomicBool) -> u32 {
    let mut client = Client::connect(at);
    let (every, begun) = (Duration::from_millis(u64::from(WORKERS)), Instant::now());
    let count = 1_000 * SECONDS / WORKERS;
    for turn in 0..count {
        let due = every * turn + Duration::from_millis(u64::from(number));
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let answer = client.get("/good");
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    }
    if begun.elapsed() > Duration::from_secs(u64::from(SECONDS) + 1) {
        late.store(true, Ordering::SeqCst);
    }
    count
}

/// Connects so many times, asks once on each, waits, and asks once more.
fn idle(at: SocketAddr) {
    let mut clients: Vec<Client> = (0..IDLE).map(|_| Client::connect(at)).collect();
    let mut ask_all = || {
        for client in &mut clients {
            assert_eq!(client.get("/idle").status, 200);
        }
    };
    ask_all();
    say("all are idle");
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
    ask_all();
    say("all were answered");
}

fn say(what: &str) {
    std::io::stdout().write_all(format!("{what}\n").as_bytes()).unwrap();
}

/// The files this process may open, and how far that can be raised.
fn files_allowed() -> (usize, usize) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut limits = line.split_whitespace().map(|limit| limit.parse().unwrap_or(usize::MAX));
    (limits.next().unwrap(), limits.next().unwrap())
}

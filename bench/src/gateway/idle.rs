//! What an idle connection costs: `idle-10k`.

use std::process::{self, Command};
use std::thread;
use std::time::Duration;

use super::NGINX;
use super::sides::{self, Limit, Setting};
use crate::programs::client::{Client, get};
use crate::programs::program::Program;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const CONNECTIONS: u32 = 10_000;
/// Room beyond those.
const SPARE: u32 = 500;
/// Files beyond connections: what our front door keeps for its queue, and what goes to the upstream.
const FURTHER_FILES: u32 = 2_000;
/// How long they are idle before it counts.
const IDLE: Duration = Duration::from_secs(5);

pub(crate) fn ten_thousand(scale: Scale) -> Vec<Row> {
    let connections = scale.size(CONNECTIONS);
    let room = connections + SPARE;
    raise_file_limit(room + FURTHER_FILES);
    let setting = Setting { connections: room, ..Setting::few(Limit::Plenty) };
    let upstream = sides::upstream();
    let ours = bytes_each(&sides::ours(setting, &upstream), connections);
    let theirs = bytes_each(&sides::nginx(setting, &upstream), connections);
    vec![Row { case: "idle-10k", peer: NGINX, unit: Unit::Bytes, ours, theirs, goal: Goal::ratio(1.5) }]
}

fn bytes_each(side: &Program, connections: u32) -> f64 {
    sides::prove_it_proxies(side);
    let before = side.resident_bytes();
    let request = get("/small");
    let mut clients: Vec<_> = (0..connections)
        .map(|_| {
            let mut client = Client::connect(side.port());
            client.send(&request);
            assert_eq!(client.status(), 200, "{}", side.name());
            client
        })
        .collect();
    thread::sleep(IDLE);
    let after = side.resident_bytes();
    // All are still there.
    for client in &mut clients {
        client.send(&request);
        assert_eq!(client.status(), 200, "{}", side.name());
    }
    (after - before) / f64::from(connections)
}

/// Lets this process, and those it starts, open so many files.
fn raise_file_limit(files: u32) {
    let output = Command::new("prlimit")
        .args(["--pid", &process::id().to_string(), &format!("--nofile={files}:")])
        .output()
        .expect("prlimit runs");
    assert!(output.status.success(), "{files} open files: {}", String::from_utf8_lossy(&output.stderr));
}

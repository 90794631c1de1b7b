//! Memory per idle connection: `idle-10k`.

use std::process::{self, Command};
use std::thread;
use std::time::Duration;

use super::NGINX;
use super::contenders::{self, BenchLimit, ContenderConfig};
use crate::programs::client::{Client, get};
use crate::programs::program::Program;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const CONNECTIONS: u32 = 10_000;
/// Additional connections in the configured maximum.
const SPARE: u32 = 500;
/// File descriptors in addition to the connections: the listener's queue and upstream connections.
const EXTRA_FILES: u32 = 2_000;
/// Idle time before the measurement.
const IDLE_TIME: Duration = Duration::from_secs(5);

pub(crate) fn ten_thousand(scale: Scale) -> Vec<Row> {
    let connections = scale.size(CONNECTIONS);
    let max_connections = connections + SPARE;
    raise_file_limit(max_connections + EXTRA_FILES);
    let config =
        ContenderConfig { connections: max_connections, ..ContenderConfig::with_few_clients(BenchLimit::Plenty) };
    let upstream = contenders::upstream();
    let ours = bytes_each(&contenders::ours(config, &upstream), connections);
    let theirs = bytes_each(&contenders::nginx(config, &upstream), connections);
    vec![Row { case: "idle-10k", peer: NGINX, unit: Unit::Bytes, ours, theirs, goal: Goal::ratio(1.5) }]
}

fn bytes_each(contender: &Program, connections: u32) -> f64 {
    contenders::assert_proxies(contender);
    let before = contender.resident_bytes();
    let request = get("/small");
    let mut clients: Vec<_> = (0..connections)
        .map(|_| {
            let mut client = Client::connect(contender.port());
            client.send(&request);
            assert_eq!(client.status(), 200, "{}", contender.name());
            client
        })
        .collect();
    thread::sleep(IDLE_TIME);
    let after = contender.resident_bytes();
    // No connection was closed.
    for client in &mut clients {
        client.send(&request);
        assert_eq!(client.status(), 200, "{}", contender.name());
    }
    (after - before) / f64::from(connections)
}

/// Raises the file descriptor limit of this process and its children.
fn raise_file_limit(files: u32) {
    let output = Command::new("prlimit")
        .args(["--pid", &process::id().to_string(), &format!("--nofile={files}:")])
        .output()
        .expect("prlimit runs");
    assert!(output.status.success(), "{files} open files: {}", String::from_utf8_lossy(&output.stderr));
}

//! Migration of connections to the worker on the client's CPU, without any effect on clients.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::fs;

use bytes::Bytes;
use http::Response;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use support::raw::Client;
use support::upstream::Upstream;
use support::{TestGateway, proxy_yaml, wait_until};

/// A connection probes the client's CPU four times in this many requests: two probes to migrate, and two to
/// spare.
const REQUESTS: usize = 512;

/// Two CPUs that this process may use.
fn two_cores() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(None).unwrap();
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    Some([cores.next()?, cores.next()?])
}

fn pin_to_core(thread: Option<Pid>, core: usize) {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(thread, &only).unwrap();
}

/// The thread of this process with this name.
fn thread_named(name: &str) -> Option<Pid> {
    let mut threads = fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap());
    let thread =
        threads.find(|it| fs::read_to_string(it.path().join("comm")).is_ok_and(|named| named.trim() == name))?;
    Pid::from_raw(thread.file_name().to_str().unwrap().parse().unwrap())
}

#[test]
fn a_connection_migrates_with_its_client_between_cores() {
    let Some(cores) = two_cores() else { return eprintln!("NOT TESTED: this process may use one core only") };
    let upstream = Upstream::new(|_| async { Response::new(Bytes::from_static(b"hello")) });
    let limit = "rules: [{ name: all, key: client.ip, limits: [{ token_bucket: 1/h, burst: 10000 }] }]";
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], limit));
    for (number, core) in cores.into_iter().enumerate() {
        let name = format!("gateway-{number}");
        // A thread sets its name when it starts.
        wait_until("it runs", || thread_named(&name).is_some());
        pin_to_core(thread_named(&name), core);
    }
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(gateway.at)).collect();
    let mut left = 10_000;
    for (round, core) in [cores[0], cores[1], cores[0], cores[1]].into_iter().enumerate() {
        pin_to_core(None, core);
        for _ in 0..REQUESTS {
            for client in &mut clients {
                let response = client.get("/");
                left -= 1;
                // The limit is shared by all workers.
                let header = response.header("ratelimit").unwrap();
                assert!(header.starts_with(&format!("\"all\";r={left};")), "{header}");
                assert_eq!(response.text(), "hello");
            }
        }
        let stats = gateway.running().stats();
        assert_eq!(stats.listener().counts().open, clients.len());
        // One or both of them may have been there from the start.
        let min = round * clients.len();
        assert!(stats.migrated_connections() >= min as u64, "{} moved by round {round}", stats.migrated_connections());
    }
    assert_eq!(upstream.requests(), 4 * REQUESTS * clients.len());
    drop(clients);
    let report = gateway.stop();
    assert_eq!(report.aborted, 0);
}

//! Connections that move to the thread that is nearest to their clients: nobody notices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::fs;

use bytes::Bytes;
use http::Response;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use support::raw::Client;
use support::upstream::Upstream;
use support::{Served, before, until};

/// In so many requests a connection looks four times where its client is: twice to find it, and twice to spare.
const REQUESTS: usize = 512;

/// Two cores that this process may use.
fn two_cores() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(None).unwrap();
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    Some([cores.next()?, cores.next()?])
}

fn stay_on(thread: Option<Pid>, core: usize) {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(thread, &only).unwrap();
}

/// The thread of this process that has a name.
fn thread_named(name: &str) -> Option<Pid> {
    let mut threads = fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap());
    let thread =
        threads.find(|it| fs::read_to_string(it.path().join("comm")).is_ok_and(|named| named.trim() == name))?;
    Pid::from_raw(thread.file_name().to_str().unwrap().parse().unwrap())
}

#[test]
fn a_connection_follows_its_client_from_core_to_core() {
    let Some(cores) = two_cores() else { return eprintln!("NOT TESTED: this process may use one core only") };
    let upstream = Upstream::new(|_| async { Response::new(Bytes::from_static(b"hello")) });
    let limit = "rules: [{ name: all, key: client.ip, limits: [{ token_bucket: 1/h, burst: 10000 }] }]";
    let served = Served::of(&before(&[upstream.at], limit));
    for (number, core) in cores.into_iter().enumerate() {
        let name = format!("gateway-{number}");
        // A thread names itself when it begins.
        until("it runs", || thread_named(&name).is_some());
        stay_on(thread_named(&name), core);
    }
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(served.at)).collect();
    let mut left = 10_000;
    for (round, core) in [cores[0], cores[1], cores[0], cores[1]].into_iter().enumerate() {
        stay_on(None, core);
        for _ in 0..REQUESTS {
            for client in &mut clients {
                let answer = client.get("/");
                left -= 1;
                // The same limit, wherever it is served.
                let told = answer.header("ratelimit").unwrap();
                assert!(told.starts_with(&format!("\"all\";r={left};")), "{told}");
                assert_eq!(answer.text(), "hello");
            }
        }
        let vitals = served.running().vitals();
        assert_eq!(vitals.door().counts().open, clients.len());
        // One or both of them may have been there from the start.
        let least = round * clients.len();
        assert!(vitals.moved() >= least as u64, "{} moved by round {round}", vitals.moved());
    }
    assert_eq!(upstream.requests(), 4 * REQUESTS * clients.len());
    drop(clients);
    let report = served.stop();
    assert_eq!(report.aborted, 0);
}

//! Numbers that come with each call, counted by two processes on one real server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::adhoc::{AdHoc, AdHocError, Deed, Throttled, Throttling};
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::fleet::FleetStore;
use sluicegate_testkit::servers::RedisServer;
use support::*;

const DAY: Duration = Duration::from_secs(86_400);

fn adhoc(process: &Process) -> Arc<AdHoc> {
    let clock: ClockHandle = process.sluice.clock().clone();
    Arc::new(AdHoc::new(1_000, clock).unwrap().shared_by(process.store.clone()))
}

fn heard(asked: Result<Throttling, AdHocError>) -> Throttled {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(asked.unwrap()).unwrap()
}

/// Five at once and then one a day.
fn bucket(of: &Arc<AdHoc>, key: &str, deed: Deed) -> Throttled {
    heard(of.ask_bucket(key.as_bytes(), 4, 1, DAY, deed))
}

#[test]
fn processes_share_one_bucket_by_its_numbers() {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| Process::start(&server, []));
    let (a, b) = (adhoc(&one), adhoc(&other));
    let first = bucket(&a, "alice", Deed::Take(3));
    assert_eq!((first.limited, first.limit, first.remaining), (false, 5, 2));
    assert!(bucket(&b, "alice", Deed::Take(3)).limited, "two are left");
    let refused = bucket(&b, "alice", Deed::Take(3));
    assert!(refused.retry_after.is_some_and(|wait| wait > Duration::from_secs(3_600) && wait <= DAY), "{refused:?}");
    assert_eq!(bucket(&b, "alice", Deed::Take(6)).retry_after, None, "never fits");
    assert!(!bucket(&b, "bob", Deed::Take(5)).limited, "another key");
    assert!(!bucket(&b, "alice", Deed::Take(2)).limited);
    assert!(bucket(&a, "alice", Deed::Take(1)).limited);
    assert_eq!(bucket(&a, "alice", Deed::GiveBack(2)).remaining, 2);
    eventually("two came back", || bucket(&b, "alice", Deed::Take(0)).remaining == 2);
    // Other numbers are another count.
    assert!(!heard(a.ask_bucket(b"alice", 9, 1, DAY, Deed::Take(10))).limited);
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn processes_share_one_window_by_its_numbers() {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| Process::start(&server, []));
    let (a, b) = (adhoc(&one), adhoc(&other));
    let window = |of: &Arc<AdHoc>, requests, deed| heard(of.ask_window(b"alice", requests, 365 * DAY, deed));
    let first = window(&a, 3, Deed::Take(2));
    assert_eq!((first.limited, first.limit, first.remaining), (false, 3, 1));
    assert!(first.reset_after > Duration::ZERO && first.reset_after <= 365 * DAY);
    assert!(window(&b, 3, Deed::Take(2)).limited);
    assert!(window(&b, 0, Deed::Take(1)).limited, "admits nothing, and asks nobody");
    window(&b, 3, Deed::GiveBack(1));
    eventually("one came back", || window(&a, 3, Deed::Take(0)).remaining == 2);
}

#[test]
fn each_process_admits_its_share_while_the_store_is_lost() {
    let mut server = RedisServer::start().unwrap();
    let change = |options: &mut sluicegate_cluster::StoreOptions| options.deadline = Duration::from_millis(200);
    let [process, _other] = [0, 1].map(|_| Process::start_with(&server, [], change));
    eventually("both know of each other", || process.store.nodes() == 2);
    let adhoc = adhoc(&process);
    assert!(!bucket(&adhoc, "alice", Deed::Take(1)).limited);
    server.kill();
    let admitted = (0..20).filter(|_| !heard(adhoc.ask_bucket(b"bob", 9, 1, DAY, Deed::Take(1))).limited).count();
    assert!((1..=5).contains(&admitted), "half of ten at most: {admitted}");
    assert_eq!(heard(adhoc.ask_bucket(b"bob", 9, 1, DAY, Deed::Take(1))).limit, 10);
}

#[test]
fn numbers_that_cannot_be_kept_are_refused_at_once() {
    let server = RedisServer::start().unwrap();
    let process = Process::start(&server, []);
    let adhoc = adhoc(&process);
    assert!(matches!(adhoc.ask_bucket(b"x", 1, 0, DAY, Deed::Take(1)), Err(AdHocError::ZeroRate)));
    assert!(adhoc.ask_bucket(b"x", u64::MAX, 1, Duration::MAX, Deed::Take(1)).is_err());
    // As many sets of numbers as anybody can think of.
    for burst in 0..3_000 {
        drop(adhoc.ask_bucket(b"x", burst, 1, Duration::from_secs(1), Deed::Take(0)).unwrap());
    }
    assert!(!bucket(&adhoc, "x", Deed::Take(5)).limited);
}

//! Ad-hoc limits with parameters per call, shared by two processes on one real server.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::adhoc::{AdHoc, AdHocError, Operation, ThrottleFuture, ThrottleResult};
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::store::Store;
use sluicegate_testkit::servers::RedisServer;
use support::*;

const DAY: Duration = Duration::from_secs(86_400);

fn adhoc(process: &Process) -> Arc<AdHoc> {
    let clock: ClockHandle = process.sluice.clock().clone();
    Arc::new(AdHoc::new(1_000, clock).unwrap().with_store(process.store.clone()))
}

fn result_of(future: Result<ThrottleFuture, AdHocError>) -> ThrottleResult {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future.unwrap()).unwrap()
}

/// A burst of five, then one per day.
fn bucket(of: &Arc<AdHoc>, key: &str, operation: Operation) -> ThrottleResult {
    result_of(of.bucket_async(key.as_bytes(), 4, 1, DAY, operation))
}

#[test]
fn processes_share_one_bucket_by_its_parameters() {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| Process::start(&server, []));
    let (a, b) = (adhoc(&one), adhoc(&other));
    let first = bucket(&a, "alice", Operation::Take(3));
    assert_eq!((first.limited, first.limit, first.remaining), (false, 5, 2));
    assert!(bucket(&b, "alice", Operation::Take(3)).limited, "two tokens remain");
    let refused = bucket(&b, "alice", Operation::Take(3));
    assert!(refused.retry_after.is_some_and(|wait| wait > Duration::from_secs(3_600) && wait <= DAY), "{refused:?}");
    assert_eq!(bucket(&b, "alice", Operation::Take(6)).retry_after, None, "never fits");
    assert!(!bucket(&b, "bob", Operation::Take(5)).limited, "another key");
    assert!(!bucket(&b, "alice", Operation::Take(2)).limited);
    assert!(bucket(&a, "alice", Operation::Take(1)).limited);
    assert_eq!(bucket(&a, "alice", Operation::GiveBack(2)).remaining, 2);
    eventually("two tokens were returned", || bucket(&b, "alice", Operation::Take(0)).remaining == 2);
    // Other parameters are a separate count.
    assert!(!result_of(a.bucket_async(b"alice", 9, 1, DAY, Operation::Take(10))).limited);
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn processes_share_one_window_by_its_parameters() {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| Process::start(&server, []));
    let (a, b) = (adhoc(&one), adhoc(&other));
    let window =
        |of: &Arc<AdHoc>, requests, operation| result_of(of.window_async(b"alice", requests, 365 * DAY, operation));
    let first = window(&a, 3, Operation::Take(2));
    assert_eq!((first.limited, first.limit, first.remaining), (false, 3, 1));
    assert!(first.reset_after > Duration::ZERO && first.reset_after <= 365 * DAY);
    assert!(window(&b, 3, Operation::Take(2)).limited);
    assert!(window(&b, 0, Operation::Take(1)).limited, "admits nothing without a store call");
    window(&b, 3, Operation::GiveBack(1));
    eventually("one token was returned", || window(&a, 3, Operation::Take(0)).remaining == 2);
}

#[test]
fn each_process_admits_its_share_while_the_store_is_unavailable() {
    let mut server = RedisServer::start().unwrap();
    let change = |options: &mut sluicegate_cluster::StoreOptions| options.deadline = Duration::from_millis(200);
    let [process, _other] = [0, 1].map(|_| Process::start_with(&server, [], change));
    eventually("both processes are counted", || process.store.nodes() == 2);
    let adhoc = adhoc(&process);
    assert!(!bucket(&adhoc, "alice", Operation::Take(1)).limited);
    server.kill();
    let admitted =
        (0..20).filter(|_| !result_of(adhoc.bucket_async(b"bob", 9, 1, DAY, Operation::Take(1))).limited).count();
    assert!((1..=5).contains(&admitted), "at most half of ten: {admitted}");
    assert_eq!(result_of(adhoc.bucket_async(b"bob", 9, 1, DAY, Operation::Take(1))).limit, 10);
}

#[test]
fn invalid_parameters_are_refused_at_once() {
    let server = RedisServer::start().unwrap();
    let process = Process::start(&server, []);
    let adhoc = adhoc(&process);
    assert!(matches!(adhoc.bucket_async(b"x", 1, 0, DAY, Operation::Take(1)), Err(AdHocError::ZeroRate)));
    assert!(adhoc.bucket_async(b"x", u64::MAX, 1, Duration::MAX, Operation::Take(1)).is_err());
    // Many distinct parameter sets.
    for burst in 0..3_000 {
        drop(adhoc.bucket_async(b"x", burst, 1, Duration::from_secs(1), Operation::Take(0)).unwrap());
    }
    assert!(!bucket(&adhoc, "x", Operation::Take(5)).limited);
}

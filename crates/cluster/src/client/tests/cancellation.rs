//! Undelivered replies are undone, exactly once.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use super::*;

/// Closes the client once all undo calls are done.
fn close(client: &StoreClient<CounterBatch>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(client.close());
}

#[test]
fn a_call_dropped_in_flight_is_undone() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    server.pause().unwrap();
    let kept = client.submit(add("kept", 1));
    let dropped: Vec<_> = (0..50).map(|_| client.submit(add("dropped", 1))).collect();
    drop(dropped);
    server.resume().unwrap();
    assert_eq!(kept.wait(), Ok(1));
    close(&client);
    assert_eq!((stored(&server, "kept"), stored(&server, "dropped")), (1, 0));
}

#[test]
fn a_call_dropped_with_its_reply_unread_is_undone() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let mut received = 0;
    for round in 1..=20 {
        let mut pending = Box::pin(client.submit(add("unread", 1)));
        let mut context = Context::from_waker(Waker::noop());
        received += i64::from(pending.as_mut().poll(&mut context).is_ready());
        // Replies arrive in order: once this one is there, the other is sent or there too.
        assert_eq!(client.submit(add("kept", 1)).wait(), Ok(round));
        drop(pending);
    }
    close(&client);
    assert_eq!((stored(&server, "kept"), stored(&server, "unread")), (20, received));
}

#[test]
fn calls_dropped_at_any_time_leave_nothing_behind() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let tasks: Vec<_> = (0..400_u64)
        .map(|index| {
            let client = client.clone();
            runtime.spawn(async move {
                let pending = client.submit(add("k", 1));
                let timeout = Duration::from_micros(index * 7 % 900);
                tokio::time::timeout(timeout, pending).await.is_ok_and(|reply| reply.is_ok())
            })
        })
        .collect();
    let received = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).filter(|received| *received).count();
    close(&client);
    assert_eq!(stored(&server, "k"), received as i64);
}

#[test]
fn polling_a_completed_call_returns_closed() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let mut pending = pin!(client.submit(add("k", 1)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(pending.as_mut()), Ok(1));
    assert_eq!(runtime.block_on(pending.as_mut()), Err(CallError::Closed));
    assert_eq!(stored(&server, "k"), 1);
}

//! What nobody hears is given back, exactly once.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use super::*;

/// Ends the driver when all that it gives back is given back.
fn close(driver: &Driver<Counting>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(driver.close());
}

#[test]
fn an_ask_that_is_dropped_under_way_is_undone() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    server.pause().unwrap();
    let kept = driver.ask(add("kept", 1));
    let dropped: Vec<_> = (0..50).map(|_| driver.ask(add("dropped", 1))).collect();
    drop(dropped);
    server.resume().unwrap();
    assert_eq!(kept.wait(), Ok(1));
    close(&driver);
    assert_eq!((stored(&server, "kept"), stored(&server, "dropped")), (1, 0));
}

#[test]
fn an_ask_that_is_dropped_with_its_answer_unread_is_undone() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let mut heard = 0;
    for round in 1..=20 {
        let mut asking = Box::pin(driver.ask(add("unread", 1)));
        let mut context = Context::from_waker(Waker::noop());
        heard += i64::from(asking.as_mut().poll(&mut context).is_ready());
        // Answers come in order: when this one is there, the other is on its way or there too.
        assert_eq!(driver.ask(add("kept", 1)).wait(), Ok(round));
        drop(asking);
    }
    close(&driver);
    assert_eq!((stored(&server, "kept"), stored(&server, "unread")), (20, heard));
}

#[test]
fn asks_dropped_at_any_moment_leave_nothing_behind() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let tasks: Vec<_> = (0..400_u64)
        .map(|nth| {
            let driver = driver.clone();
            runtime.spawn(async move {
                let asking = driver.ask(add("k", 1));
                let patience = Duration::from_micros(nth * 7 % 900);
                tokio::time::timeout(patience, asking).await.is_ok_and(|answer| answer.is_ok())
            })
        })
        .collect();
    let heard = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).filter(|heard| *heard).count();
    close(&driver);
    assert_eq!(stored(&server, "k"), heard as i64);
}

#[test]
fn polling_what_is_done_says_so() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let mut asking = pin!(driver.ask(add("k", 1)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(asking.as_mut()), Ok(1));
    assert_eq!(runtime.block_on(asking.as_mut()), Err(Failure::Closed));
    assert_eq!(stored(&server, "k"), 1);
}

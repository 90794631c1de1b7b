//! The driver ends when it is told to or forgotten.

use super::*;

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.filter_map(Result::ok).map(name).filter(|name| name.starts_with("sluicegate-stor")).count()
}

#[test]
fn what_is_under_way_is_finished_and_nothing_begins() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let asking: Vec<_> = (0..300).map(|_| driver.ask(add("k", 1))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(driver.close());
    assert_eq!(driver.ask(add("k", 1)).wait(), Err(Failure::Closed));
    assert!(asking.into_iter().all(|asking| asking.wait().is_ok()));
    assert_eq!(driver.health().state, State::Closed);
    assert_eq!(server.command(&["EXISTS", "sluicegate:{nodes}"]).unwrap(), "0");
    // Closing twice is closing once; calls and work after it are refused.
    runtime.block_on(driver.close());
    let invocation = Invocation { script: &COUNT, keys: vec![], arguments: vec![] };
    assert_eq!(runtime.block_on(driver.call(invocation, AMPLE)), Err(Failure::Closed));
    driver.spawn(async {});
}

#[test]
fn a_store_that_is_silent_does_not_hold_it_back() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    server.pause().unwrap();
    let asking: Vec<_> = (0..300).map(|_| driver.ask(add("k", 1))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let begun = Instant::now();
    runtime.block_on(driver.close());
    assert!(begun.elapsed() < AMPLE, "{:?}", begun.elapsed());
    assert!(asking.into_iter().all(|asking| asking.wait() == Err(Failure::Closed)));
}

#[test]
fn the_thread_ends_with_the_last_handle() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let background = driver.background();
    let (sender, mut receiver) = tokio::sync::oneshot::channel::<()>();
    let held = background.background();
    background.spawn(async move {
        std::future::pending::<()>().await;
        drop((held, sender));
    });
    assert_eq!(background.ask(add("k", 1)).wait(), Ok(1));
    assert!(threads() > 0);
    drop(driver.clone());
    assert_eq!(background.ask(add("k", 1)).wait(), Ok(2));
    drop(driver);
    // Its work is dropped with it.
    until("ended", || receiver.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Closed));
    assert_eq!(background.ask(add("k", 1)).wait(), Err(Failure::Closed));
}

//! The client ends on close and with its last handle.

use super::*;

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.filter_map(Result::ok).map(name).filter(|name| name.starts_with("sluicegate-stor")).count()
}

#[test]
fn close_finishes_calls_in_flight_and_refuses_new_ones() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let pending: Vec<_> = (0..300).map(|_| client.submit(add("k", 1))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(client.close());
    assert_eq!(client.submit(add("k", 1)).wait(), Err(CallError::Closed));
    assert!(pending.into_iter().all(|pending| pending.wait().is_ok()));
    assert_eq!(client.health().state, StoreState::Closed);
    assert_eq!(server.command(&["EXISTS", "sluicegate:{nodes}"]).unwrap(), "0");
    // Closing is idempotent; later calls and work are refused.
    runtime.block_on(client.close());
    let invocation = Invocation { script: &COUNT, keys: vec![], arguments: vec![] };
    assert_eq!(runtime.block_on(client.call(invocation, LONG_DEADLINE)), Err(CallError::Closed));
    client.spawn(async {});
}

#[test]
fn a_silent_store_does_not_delay_close() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    server.pause().unwrap();
    let pending: Vec<_> = (0..300).map(|_| client.submit(add("k", 1))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let start = Instant::now();
    runtime.block_on(client.close());
    assert!(start.elapsed() < LONG_DEADLINE, "{:?}", start.elapsed());
    assert!(pending.into_iter().all(|pending| pending.wait() == Err(CallError::Closed)));
}

#[test]
fn the_thread_ends_with_the_last_handle() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let background = client.background();
    let (sender, mut receiver) = tokio::sync::oneshot::channel::<()>();
    let held = background.background();
    background.spawn(async move {
        std::future::pending::<()>().await;
        drop((held, sender));
    });
    assert_eq!(background.submit(add("k", 1)).wait(), Ok(1));
    assert!(threads() > 0);
    drop(client.clone());
    assert_eq!(background.submit(add("k", 1)).wait(), Ok(2));
    drop(client);
    // Its tasks are dropped with it.
    until("ended", || receiver.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Closed));
    assert_eq!(background.submit(add("k", 1)).wait(), Err(CallError::Closed));
}

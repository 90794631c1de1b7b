//! Items are batched, and each gets its own reply.

use super::*;

#[test]
fn many_items_make_few_calls_and_each_gets_its_reply() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let before = client.health().calls;
    let pending: Vec<_> = (0..1000).map(|index| client.submit(add(&format!("k{}", index % 10), 1))).collect();
    let replies: Vec<_> = pending.into_iter().map(|pending| pending.wait().unwrap()).collect();
    // Submitted in this order, counted in this order.
    for (index, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply, index as i64 / 10 + 1);
    }
    let health = client.health();
    assert_eq!(health.decisions, 1000);
    assert!(health.calls - before < 500, "{} calls", health.calls - before);
    assert_eq!((health.timeouts, health.late_replies, health.last_error), (0, 0, None));
}

#[test]
fn replies_arrive_in_any_runtime_and_without_one() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    assert_eq!(client.submit(add("k", 1)).wait(), Ok(1));
    let current = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(current.block_on(client.submit(add("k", 1))), Ok(2));
    // Blocking inside a runtime is discouraged, but must not panic.
    assert_eq!(current.block_on(async { client.submit(add("k", 1)).wait() }), Ok(3));
    let count = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (0..64).map(|_| count.spawn(client.submit(add("k", 1)))).collect();
    let mut replies: Vec<_> = tasks.into_iter().map(|task| count.block_on(task).unwrap().unwrap()).collect();
    replies.sort_unstable();
    assert_eq!(replies, (4..68).collect::<Vec<_>>());
}

#[test]
fn calls_beyond_the_queue_limit_fail_at_once() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    server.pause().unwrap();
    let pending: Vec<_> = (0..5000).map(|_| client.submit(add("k", 1))).collect();
    assert!(client.health().overloads >= 5000 - 4096 - 4 * 128, "{:?}", client.health());
    server.resume().unwrap();
    let replies: Vec<_> = pending.into_iter().map(|pending| pending.wait()).collect();
    let overloaded = replies.iter().filter(|reply| **reply == Err(CallError::QueueFull)).count();
    assert_eq!(overloaded as u64, client.health().overloads);
    assert_eq!(replies.iter().filter(|reply| reply.is_ok()).count(), 5000 - overloaded);
}

#[test]
fn a_single_script_can_be_called() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let call = |amount: &str| {
        let arguments = vec![Bytes::from(amount.to_owned())];
        client.call(Invocation { script: &COUNT, keys: vec![Bytes::from("k")], arguments }, LONG_DEADLINE)
    };
    let reply = runtime.block_on(call("7")).unwrap();
    assert_eq!(from_redis_value::<Vec<i64>>(reply).unwrap(), [7]);
    let failure = runtime.block_on(call("seven")).unwrap_err();
    assert!(failure.to_string().contains("not an integer"), "{failure}");
    assert!(!client.is_degraded());
}

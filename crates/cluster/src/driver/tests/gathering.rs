//! Asks are gathered, and each gets its own answer.

use super::*;

#[test]
fn many_asks_make_few_calls_and_each_gets_its_answer() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let before = driver.health().calls;
    let asking: Vec<_> = (0..1000).map(|nth| driver.ask(add(&format!("k{}", nth % 10), 1))).collect();
    let answers: Vec<_> = asking.into_iter().map(|asking| asking.wait().unwrap()).collect();
    // Asked in this order, counted in this order.
    for (nth, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, nth as i64 / 10 + 1);
    }
    let health = driver.health();
    assert_eq!(health.asks, 1000);
    assert!(health.calls - before < 500, "{} calls", health.calls - before);
    assert_eq!((health.timeouts, health.late_answers, health.last_error), (0, 0, None));
}

#[test]
fn asks_are_answered_in_any_runtime_and_in_none() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    assert_eq!(driver.ask(add("k", 1)).wait(), Ok(1));
    let current = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(current.block_on(driver.ask(add("k", 1))), Ok(2));
    // Blocking inside a runtime is no good manners, but no panic either.
    assert_eq!(current.block_on(async { driver.ask(add("k", 1)).wait() }), Ok(3));
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (0..64).map(|_| many.spawn(driver.ask(add("k", 1)))).collect();
    let mut answers: Vec<_> = tasks.into_iter().map(|task| many.block_on(task).unwrap().unwrap()).collect();
    answers.sort_unstable();
    assert_eq!(answers, (4..68).collect::<Vec<_>>());
}

#[test]
fn beyond_the_bound_asks_fail_at_once() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    server.pause().unwrap();
    let asking: Vec<_> = (0..5000).map(|_| driver.ask(add("k", 1))).collect();
    assert!(driver.health().overloads >= 5000 - 4096 - 4 * 128, "{:?}", driver.health());
    server.resume().unwrap();
    let answers: Vec<_> = asking.into_iter().map(|asking| asking.wait()).collect();
    let overloaded = answers.iter().filter(|answer| **answer == Err(Failure::Overloaded)).count();
    assert_eq!(overloaded as u64, driver.health().overloads);
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 5000 - overloaded);
}

#[test]
fn a_script_is_called_by_itself() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let call = |amount: &str| {
        let arguments = vec![Bytes::from(amount.to_owned())];
        driver.call(Invocation { script: &COUNT, keys: vec![Bytes::from("k")], arguments }, AMPLE)
    };
    let reply = runtime.block_on(call("7")).unwrap();
    assert_eq!(from_redis_value::<Vec<i64>>(reply).unwrap(), [7]);
    let failure = runtime.block_on(call("seven")).unwrap_err();
    assert!(failure.to_string().contains("not an integer"), "{failure}");
    assert!(!driver.now_degraded());
}

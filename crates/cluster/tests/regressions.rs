//! Regression tests.

use crate::support;

use std::time::{Duration, Instant};

use sluicegate_engine::rule::{Ban, Cost, Lists, OnStoreFailure, Queue, Rule};
use sluicegate_engine::{Limit, Rate, Sluice};
use sluicegate_testkit::servers::RedisServer;
use support::*;

/// Slow enough for a test, and fast enough to be leased: a leased bucket fills within three days.
const SLOW: Duration = Duration::from_secs(60);

fn bucket(name: &str, burst: u64) -> Rule {
    let limit = Limit::token_bucket(Rate::new(1, SLOW).unwrap(), burst).unwrap();
    leased(OnStoreFailure::Closed, Rule::new(name, [limit]))
}

/// Queued requests of a leased rule do not exceed its limit.
#[test]
fn queueing_does_not_bypass_a_leased_limit() {
    let server = RedisServer::start().unwrap();
    let limit = Limit::token_bucket(Rate::per_second(10).unwrap(), 5).unwrap();
    let mut rule = leased(OnStoreFailure::Closed, Rule::new("total", [limit]));
    rule.on_limit.queue = Some(Queue { max_wait: Duration::from_secs(1), max_waiting: 1_000 });
    let process = Process::start(&server, [rule]);
    let started = Instant::now();
    let admitted: usize = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..40)
            .map(|_| scope.spawn(|| usize::from(process.sluice.admit(&get()).blocking().is_admitted())))
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    let max = 5 + (started.elapsed().as_secs_f64() * 10.0) as usize + 1;
    assert!(admitted <= max, "{admitted} of {max}");
}

/// Changed limits under the same name are leased at once: the store does not appear lost.
#[test]
fn a_leased_rule_can_be_changed() {
    let server = RedisServer::start().unwrap();
    let process = Process::start(&server, [bucket("total", 1_000)]);
    for burst in [2_000, 3_000, 1_000] {
        for _ in 0..100 {
            let outcome = process.sluice.decide(&get());
            assert!(outcome.is_admitted() && !outcome.is_degraded(), "{burst}: {outcome:?}");
        }
        process.sluice.replace(vec![bucket("total", burst)], Lists::default()).unwrap();
    }
}

/// Rules that fail to apply take nothing from the active ones, and removed rules hold nothing.
#[test]
fn removed_rules_return_their_slices() {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| Process::start(&server, [bucket("total", 1_000)]));
    for _ in 0..300 {
        assert!(one.sluice.decide(&get()).is_admitted());
    }
    let huge = with_policy(OnStoreFailure::Open, Rule::new("huge", [Limit::concurrency(u64::MAX).unwrap()]));
    assert!(one.sluice.replace(vec![bucket("total", 2_000), huge], Lists::default()).is_err());
    for _ in 0..100 {
        let outcome = one.sluice.decide(&get());
        assert!(outcome.is_admitted() && !outcome.is_degraded(), "{outcome:?}");
    }
    one.sluice.replace(Vec::new(), Lists::default()).unwrap();
    let mut admitted = 400;
    eventually("the limit is used up", || {
        admitted += u32::from(other.sluice.decide(&get()).is_admitted());
        admitted == 1_000
    });
    assert!(!other.sluice.decide(&get()).is_admitted());
}

/// Two sluices of one process hash keys differently. Neither takes the other's slices away.
#[test]
fn sluices_of_one_process_share_a_store() {
    let server = RedisServer::start().unwrap();
    let process = Process::start(&server, [by_ip(bucket("per-ip", 1_000))]);
    let store = process.store.clone();
    let second = Sluice::builder().rule(by_ip(bucket("per-ip", 1_000))).store(store).build().unwrap();
    for _ in 0..200 {
        for sluice in [&process.sluice, &second] {
            let outcome = sluice.decide(&from("10.0.0.1"));
            assert!(outcome.is_admitted() && !outcome.is_degraded(), "{outcome:?}");
        }
    }
}

/// A sluice that starts sharing later receives the active bans.
#[test]
fn a_second_sluice_receives_active_bans() {
    let server = RedisServer::start().unwrap();
    let ban = Ban { after: 1, within: Duration::from_secs(60), duration: Duration::from_secs(600) };
    let rule = Rule { ban: Some(ban), ..by_ip(cluster("per-ip", "1/1h")) };
    let process = Process::start(&server, [rule.clone()]);
    let other = Process::start(&server, [rule.clone()]);
    for _ in 0..2 {
        let _ = process.sluice.decide(&from("10.0.0.1"));
    }
    eventually("heard", || !other.sluice.bans().is_empty());
    let second = Sluice::builder().rule(rule).store(other.store.clone()).build().unwrap();
    other.store.share_with(&second);
    eventually("applied by the second process too", || !second.bans().is_empty());
}

/// Any actual cost can be settled, however large.
#[test]
fn any_actual_cost_can_be_settled() {
    let server = RedisServer::start().unwrap();
    let second = Duration::from_secs(1);
    let rate = Rate::per_second(100).unwrap();
    let limits = [
        Limit::token_bucket(rate, 100),
        Limit::leaky_bucket(rate, 100),
        Limit::fixed_window(100, second, sluicegate_engine::algorithm::Alignment::Epoch),
        Limit::sliding_window(100, second, 10),
        Limit::interpolated_window(100, second),
        Limit::sliding_log(100, second),
        Limit::warm_up(rate, second, 3),
    ];
    for (index, limit) in limits.map(Result::unwrap).into_iter().enumerate() {
        for mode in [with_policy, leased] {
            let rule = mode(OnStoreFailure::Closed, Rule::new(format!("rule-{index}"), [limit]));
            let process = Process::start(&server, [Rule { cost: Cost::estimate(1), ..rule }]);
            let first = process.sluice.decide(&get());
            assert!(first.is_admitted() && !first.is_degraded() && first.holds_resources(), "{index}: {first:?}");
            first.settle(u64::MAX);
            eventually("charged", || !process.sluice.decide(&get()).is_admitted());
            assert!(!process.sluice.decide(&get()).is_degraded(), "{index}");
            let health = process.store.health();
            assert!(health.failures.is_empty(), "{index}: {health:?}");
            flush(&server);
        }
    }
}

/// A decision has one deadline, regardless of its steps and of callers ahead of it.
#[test]
fn steps_share_one_deadline() {
    let server = RedisServer::start().unwrap();
    // Long relative to the slack of a busy machine: a second deadline would show, a late thread does not.
    let deadline = Duration::from_secs(3);
    let rules = [bucket("total", 1_000), by_ip(cluster("per-ip", "9/1h"))];
    let process = Process::start_with(&server, rules, |options| options.deadline = deadline);
    server.pause().unwrap();
    let elapsed: Vec<Duration> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|index| {
                let sluice = process.sluice.clone();
                scope.spawn(move || {
                    // The others find the first one's request in flight.
                    std::thread::sleep(Duration::from_millis(20) * index);
                    let sent = Instant::now();
                    assert!(sluice.decide(&from("10.0.0.1")).is_degraded());
                    sent.elapsed()
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    server.resume().unwrap();
    assert!(elapsed.iter().all(|elapsed| *elapsed < deadline + deadline / 2), "{elapsed:?}");
}

/// Close completes while other threads keep deciding.
#[test]
fn close_does_not_wait_for_active_callers() {
    let server = RedisServer::start().unwrap();
    let rule = by_ip(leased(OnStoreFailure::Closed, local("per-ip", "1000/1m")));
    let process = Process::start(&server, [rule]);
    let closed = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for caller in 0..2u8 {
            let (process, closed) = (&process, &closed);
            scope.spawn(move || {
                let mut index = 0u16;
                while !closed.load(std::sync::atomic::Ordering::Relaxed) {
                    index = index.wrapping_add(1);
                    let [high, low] = index.to_be_bytes();
                    drop(process.sluice.decide(&get().with_client_ip([10, caller, high, low])));
                }
            });
        }
        std::thread::sleep(Duration::from_millis(100));
        let started = Instant::now();
        process.close();
        closed.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    });
}

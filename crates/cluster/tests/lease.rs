//! Lease mode end to end, from rules to a real server.

use crate::support;

use std::time::{Duration, Instant};

use sluicegate_cluster::Leases;
use sluicegate_engine::rule::{Cost, OnStoreFailure, Rule};
use sluicegate_engine::{Limit, Rate, Verdict};
use sluicegate_testkit::servers::RedisServer;
use support::*;

fn bucket(per_second: u64, burst: u64) -> Rule {
    let bucket = Limit::token_bucket(Rate::per_second(per_second).unwrap(), burst).unwrap();
    leased(OnStoreFailure::Closed, Rule::new("total", [bucket]))
}

/// One bucket in the store for all processes: together no more than its burst plus the refill.
#[test]
fn processes_share_one_bucket() {
    let server = RedisServer::start().unwrap();
    let processes = [0, 1, 2].map(|_| Process::start(&server, [bucket(1_000, 2_000)]));
    let started = Instant::now();
    let mut admitted = 0u64;
    while started.elapsed() < Duration::from_millis(500) {
        for (process, times) in processes.iter().zip([70, 20, 10]) {
            for _ in 0..times {
                let outcome = process.sluice.decide(&get());
                assert!(!outcome.is_degraded());
                admitted += u64::from(outcome.is_admitted());
            }
        }
    }
    let max = 2_000 + (started.elapsed().as_secs_f64() * 1_000.0) as u64;
    assert!(admitted <= max, "{admitted} of {max}");
    assert!(admitted >= 2_000, "{admitted}");
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn most_decisions_stay_in_the_process() {
    let server = RedisServer::start().unwrap();
    // More than one thread can use up: it makes some three million decisions a second.
    let process = Process::start(&server, [bucket(20_000_000, 20_000_000)]);
    let before = commands(&server);
    let started = Instant::now();
    let mut decisions = 0u64;
    while started.elapsed() < Duration::from_millis(500) {
        let outcome = process.sluice.decide(&get());
        assert!(outcome.is_admitted(), "decision {decisions}: {outcome:?}");
        decisions += 1;
    }
    let commands = commands(&server) - before;
    eprintln!("{commands} commands for {decisions} decisions");
    assert!(commands * 20 < decisions, "{commands} commands for {decisions} decisions");
}

#[test]
fn a_limit_in_short_form_is_leased() {
    let server = RedisServer::start().unwrap();
    let rule = by_ip(leased(OnStoreFailure::Closed, local("per-ip", "500/1h")));
    let [one, other] = [0, 1].map(|_| Process::start(&server, [rule.clone()]));
    let mut admitted = 0;
    for index in 0..2_000 {
        let process = if index % 5 == 0 { &one } else { &other };
        admitted += u32::from(process.sluice.decide(&from("10.0.0.1")).is_admitted());
    }
    assert!(admitted <= 500, "{admitted}");
    // Unneeded tokens of one process are returned.
    eventually("the limit is used up", || {
        admitted += u32::from(other.sluice.decide(&from("10.0.0.1")).is_admitted());
        admitted >= 500
    });
    assert!(
        !one.sluice.decide(&from("10.0.0.1")).is_admitted() && !other.sluice.decide(&from("10.0.0.1")).is_admitted()
    );
}

#[test]
fn more_than_the_limit_never_fits() {
    let server = RedisServer::start().unwrap();
    let process = Process::start(&server, [bucket(10, 20)]);
    let outcome = process.sluice.decide(&get().with_cost(21));
    assert_eq!(outcome.verdict(), Verdict::Never);
    assert!(process.sluice.decide(&get().with_cost(20)).is_admitted());
}

#[test]
fn an_estimate_is_settled_from_a_lease() {
    let server = RedisServer::start().unwrap();
    let limit = Limit::token_bucket(Rate::new(1, Duration::from_secs(60)).unwrap(), 1_000).unwrap();
    let rule = leased(OnStoreFailure::Closed, Rule::new("tokens", [limit]));
    let process = Process::start(&server, [Rule { cost: Cost::estimate(400), ..rule }]);
    for _ in 0..2 {
        let outcome = process.sluice.decide(&get());
        assert!(outcome.is_admitted());
        outcome.settle(400);
    }
    assert!(!process.sluice.decide(&get()).is_admitted(), "200 tokens remain");
}

/// A rule that cannot be leased is decided in the store, as in exact mode.
#[test]
fn a_rule_that_cannot_be_leased_is_exact() {
    let server = RedisServer::start().unwrap();
    let rule = leased(OnStoreFailure::Closed, Rule::new("inside", [Limit::concurrency(2).unwrap()]));
    let [one, other] = [0, 1].map(|_| Process::start(&server, [rule.clone()]));
    let held = [one.sluice.decide(&get()), other.sluice.decide(&get())];
    assert!(held.iter().all(|outcome| outcome.is_admitted()));
    assert!(!one.sluice.decide(&get()).is_admitted());
}

#[test]
fn closing_returns_slices() {
    let server = RedisServer::start().unwrap();
    let limit = Limit::token_bucket(Rate::new(1, Duration::from_secs(60)).unwrap(), 1_000).unwrap();
    let rule = leased(OnStoreFailure::Closed, Rule::new("total", [limit]));
    let [one, other] = [0, 1].map(|_| Process::start(&server, [rule.clone()]));
    let mut admitted = 0;
    for _ in 0..300 {
        admitted += u32::from(one.sluice.decide(&get()).is_admitted());
    }
    assert_eq!(admitted, 300);
    one.close();
    while other.sluice.decide(&get()).is_admitted() {
        admitted += 1;
    }
    assert_eq!(admitted, 1_000, "the closed process returned its slice");
}

/// Health reports the current holdings, and none after they were returned.
#[test]
fn lease_holdings_are_reported() {
    let server = RedisServer::start().unwrap();
    let rule = by_ip(leased(OnStoreFailure::Closed, local("per-ip", "100000/1h")));
    let process = Process::start(&server, [rule, cluster("exact", "100000/1h")]);
    assert_eq!(process.store.health().leases, Leases::default());
    let request = || {
        for ip in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
            assert!(process.sluice.decide(&from(ip)).is_admitted());
        }
    };
    eventually("three keys have slices", || {
        (0..100).for_each(|_| request());
        process.store.health().leases.keys == 3
    });
    let leases = process.store.health().leases;
    assert!(leases.tokens >= leases.keys && leases.tokens < 300_000, "{leases:?}");
    assert!(leases.acquired >= 3, "{leases:?}");

    eventually("the slices are returned", || process.store.health().leases.keys == 0);
    let after = process.store.health().leases;
    assert_eq!(after.tokens, 0);
    assert!(after.returned + after.expired >= 3 && after.acquired >= leases.acquired, "{after:?}");

    eventually("held again", || {
        (0..100).for_each(|_| request());
        process.store.health().leases.keys == 3
    });
    process.close();
    let closed = process.store.health().leases;
    assert_eq!((closed.keys, closed.tokens), (0, 0));
}

/// The cost beyond an estimate is charged, even if the key has long left the lease table.
#[test]
fn an_overrun_is_charged_however_late() {
    let server = RedisServer::start().unwrap();
    let limit = Limit::token_bucket(Rate::new(1, Duration::from_secs(60)).unwrap(), 1_000).unwrap();
    let rule = leased(OnStoreFailure::Closed, Rule::new("tokens", [limit]));
    let process = Process::start(&server, [Rule { cost: Cost::estimate(100), ..rule }]);
    let outcome = process.sluice.decide(&get());
    assert!(outcome.is_admitted() && outcome.holds_resources());
    // Long enough for the slice to be returned and the key dropped.
    std::thread::sleep(Duration::from_millis(2_600));
    outcome.settle(950);
    eventually("charged", || {
        let outcome = process.sluice.decide(&get());
        let refused = !outcome.is_admitted();
        outcome.give_back();
        refused
    });
}

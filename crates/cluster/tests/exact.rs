//! Exact mode, from rules to a real server and back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::rule::{Ban, Cost, OnStoreFailure, Rule};
use sluicegate_engine::sluice::Cause;
use sluicegate_engine::{Limit, Outcome, Rate, Verdict};
use sluicegate_testkit::servers::RedisServer;
use support::*;

#[test]
fn processes_share_one_threshold() {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| Process::start(&server, [by_ip(cluster("per-ip", "5/1m"))]));
    let mut admitted = 0;
    for nth in 0..20 {
        let process = if nth % 3 == 0 { &one } else { &other };
        let outcome = process.sluice.decide(&from("10.0.0.1"));
        assert!(!outcome.is_degraded());
        admitted += u32::from(outcome.is_admitted());
    }
    assert_eq!(admitted, 5);
    assert!(one.sluice.decide(&from("10.0.0.2")).is_admitted());
    let refused = other.sluice.decide(&from("10.0.0.1"));
    assert!(
        matches!(refused.verdict(), Verdict::Denied { retry_after: Some(wait) } if wait <= Duration::from_secs(66))
    );
    assert_eq!(keys_without_expiry(&server), 0);
}

/// Async callers of any runtime, many at once: what is admitted is what the limit allows, to the last one.
#[test]
fn many_callers_at_once_get_exactly_the_limit() {
    let server = RedisServer::start().unwrap();
    let process = Process::start(&server, [cluster("total", "1000/1h"), by_ip(cluster("per-ip", "30/1h"))]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let sluice = process.sluice.clone();
    let admitted: usize = runtime.block_on(async {
        let callers: Vec<_> = (0..64u8)
            .map(|caller| {
                let sluice = sluice.clone();
                tokio::spawn(async move {
                    let mut admitted = 0;
                    for nth in 0..40u8 {
                        let admission = sluice.admit(&get().with_client_ip([10, 0, nth % 40, 1]));
                        let outcome = admission.await;
                        assert!(!outcome.is_degraded(), "caller {caller}");
                        admitted += usize::from(outcome.is_admitted());
                    }
                    admitted
                })
            })
            .collect();
        let mut sum = 0;
        for caller in callers {
            sum += caller.await.unwrap();
        }
        sum
    });
    assert_eq!(admitted, 1_000);
    let health = process.store.health();
    assert!(health.calls < health.asks, "{} calls for {} asks", health.calls, health.asks);
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn permits_are_the_fleets() {
    let server = RedisServer::start().unwrap();
    let permits = with_policy(OnStoreFailure::Closed, Rule::new("inside", [Limit::concurrency(3).unwrap()]));
    let [one, other] = [0, 1].map(|_| Process::start(&server, [permits.clone()]));
    let held: Vec<Outcome> = (0..3).map(|nth| if nth == 0 { &one } else { &other }.sluice.decide(&get())).collect();
    assert!(held.iter().all(|outcome| outcome.is_admitted() && outcome.is_held()));
    assert!(!one.sluice.decide(&get()).is_admitted());
    drop(held);
    eventually("permits come back", || one.sluice.decide(&get()).is_admitted());
}

/// A process that is gone frees what it held; one that is there keeps it however long it holds it.
#[test]
fn permits_end_with_their_holder() {
    let server = RedisServer::start().unwrap();
    let permits = with_policy(OnStoreFailure::Closed, Rule::new("inside", [Limit::concurrency(1).unwrap()]));
    let brief = |options: &mut sluicegate_cluster::StoreOptions| {
        options.permit_time_to_live = Duration::from_millis(900);
    };
    let holder = Process::start_with(&server, [permits.clone()], brief);
    let other = Process::start_with(&server, [permits], brief);
    let held = holder.sluice.decide(&get());
    assert!(held.is_admitted());
    let until = std::time::Instant::now() + Duration::from_millis(2_000);
    while std::time::Instant::now() < until {
        assert!(!other.sluice.decide(&get()).is_admitted(), "renewed as long as it is held");
        std::thread::sleep(Duration::from_millis(50));
    }
    // As if the process were gone: nobody renews and nobody gives back.
    holder.vanish();
    std::mem::forget(held);
    eventually("what it held is free", || other.sluice.decide(&get()).is_admitted());
}

#[test]
fn an_estimate_is_settled_in_the_store() {
    let server = RedisServer::start().unwrap();
    let bucket = Limit::token_bucket(Rate::new(60, Duration::from_secs(3_600)).unwrap(), 100).unwrap();
    let rule = Rule { cost: Cost::estimate(40), ..with_policy(OnStoreFailure::Closed, Rule::new("tokens", [bucket])) };
    let process = Process::start(&server, [rule]);
    process.sluice.decide(&get()).settle(5);
    eventually("35 tokens come back", || {
        let outcome = process.sluice.decide(&get());
        let remaining = outcome.decisions().next().unwrap().1.decision.status.remaining;
        outcome.give_back();
        remaining == 55
    });
}

/// One is spent of each only if both agree.
#[test]
fn all_or_nothing_across_rules() {
    let server = RedisServer::start().unwrap();
    let process = Process::start(&server, [cluster("total", "10/1h"), by_ip(cluster("per-ip", "2/1h"))]);
    let admitted = |ip: &str| (0..5).filter(|_| process.sluice.decide(&from(ip)).is_admitted()).count();
    assert_eq!([admitted("10.0.0.1"), admitted("10.0.0.2"), admitted("10.0.0.3")], [2, 2, 2]);
    assert_eq!([admitted("10.0.0.4"), admitted("10.0.0.5"), admitted("10.0.0.6")], [2, 2, 0]);
}

#[test]
fn bans_reach_every_process_and_outlive_the_store() {
    let server = RedisServer::start().unwrap();
    let ban = Ban { after: 1, within: Duration::from_secs(60), lasting: Duration::from_secs(600) };
    let rules = || [Rule { ban: Some(ban), ..by_ip(cluster("per-ip", "1/1h")) }];
    let [one, other] = [0, 1].map(|_| Process::start(&server, rules()));
    let cause = |process: &Process| process.sluice.decide(&from("10.0.0.1")).cause();
    cause(&one);
    assert_eq!(cause(&one), Cause::Limit(0));
    let told = std::time::Instant::now();
    eventually("the other knows", || cause(&other) == Cause::Ban(0));
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    // A process that starts later knows, too.
    let late = Process::start(&server, rules());
    eventually("the late one knows", || !late.sluice.bans().is_empty());
    // The store forgets; the processes do not.
    flush(&server);
    let later = Process::start(&server, rules());
    eventually("told again", || !later.sluice.bans().is_empty());
    // Lifted anywhere, lifted everywhere.
    assert!(later.sluice.lift_ban("per-ip", "10.0.0.1"));
    eventually("lifted", || one.sluice.bans().is_empty() && other.sluice.bans().is_empty());
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn lists_reach_every_process() {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| Process::start(&server, [cluster("total", "1000/1h")]));
    let deny = sluicegate_cluster::ListKind::Deny;
    assert!(one.store.enlist(deny, "client.ip ==", None).is_err(), "no condition");
    one.store.enlist(deny, "client.ip == 10.0.0.1", None).unwrap();
    let denied = |process: &Process| !process.sluice.decide(&from("10.0.0.1")).is_admitted();
    eventually("everybody knows", || denied(&one) && denied(&other));
    assert!(other.sluice.decide(&from("10.0.0.2")).is_admitted());
    // The store forgets; the processes do not.
    flush(&server);
    let late = Process::start(&server, [cluster("total", "1000/1h")]);
    eventually("told again", || denied(&late));
    assert!(denied(&one) && denied(&other));
    other.store.unlist(deny, "client.ip == 10.0.0.1");
    eventually("taken off", || !denied(&one) && !denied(&other));
}

#[test]
fn what_the_store_cannot_keep_is_refused_with_a_reason() {
    let server = RedisServer::start().unwrap();
    let process = Process::start(&server, [cluster("total", "1/1h")]);
    let huge = Limit::concurrency(u64::MAX).unwrap();
    let rule = with_policy(OnStoreFailure::Open, Rule::new("huge", [huge]));
    let error = process.sluice.replace(vec![rule], sluicegate_engine::rule::Lists::default()).unwrap_err().to_string();
    assert!(error.contains("huge") && error.contains("too large"), "{error}");
    assert!(process.sluice.decide(&get()).is_admitted(), "the last good rules go on");
}

/// A process that knows only afterwards that a request cost nothing gives back what another has taken.
#[test]
fn what_another_process_took_can_be_given_back() {
    let server = RedisServer::start().unwrap();
    let window = Limit::fixed_window(5, Duration::from_secs(86_400), Alignment::Epoch).unwrap();
    let rule = with_policy(OnStoreFailure::Closed, Rule::new("daily", [window]));
    let [one, other] = [0, 1].map(|_| Process::start(&server, [rule.clone()]));
    assert!(one.sluice.decide(&get().with_cost(5)).is_admitted());
    assert!(!other.sluice.decide(&get()).is_admitted());
    other.sluice.decide(&get().with_cost(0)).refund(2);
    eventually("two are given back", || one.sluice.decide(&get().with_cost(2)).is_admitted());
    assert!(!one.sluice.decide(&get()).is_admitted());
}

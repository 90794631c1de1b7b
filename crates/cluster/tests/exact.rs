//! Exact mode end to end, from rules to a real server.

use crate::support;

use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::rule::{Ban, Cost, OnStoreFailure, Rule};
use sluicegate_engine::sluice::Cause;
use sluicegate_engine::{Limit, Outcome, Rate, Verdict};
use sluicegate_testkit::servers::RedisServer;
use support::*;

#[test]
fn processes_share_one_limit() {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| Process::start(&server, [by_ip(cluster("per-ip", "5/1m"))]));
    let mut admitted = 0;
    for index in 0..20 {
        let process = if index % 3 == 0 { &one } else { &other };
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

/// Many concurrent async callers: the admitted amount equals the limit exactly.
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
                    for index in 0..40u8 {
                        let admission = sluice.admit(&get().with_client_ip([10, 0, index % 40, 1]));
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
    assert!(health.calls < health.decisions, "{} calls for {} decisions", health.calls, health.decisions);
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn permits_are_shared_by_the_cluster() {
    let server = RedisServer::start().unwrap();
    let permits = with_policy(OnStoreFailure::Closed, Rule::new("inside", [Limit::concurrency(3).unwrap()]));
    let [one, other] = [0, 1].map(|_| Process::start(&server, [permits.clone()]));
    let held: Vec<Outcome> = (0..3).map(|index| if index == 0 { &one } else { &other }.sluice.decide(&get())).collect();
    assert!(held.iter().all(|outcome| outcome.is_admitted() && outcome.holds_resources()));
    assert!(!one.sluice.decide(&get()).is_admitted());
    drop(held);
    eventually("permits are released", || one.sluice.decide(&get()).is_admitted());
}

/// A crashed process frees its permits; a live one keeps them for as long as it holds them.
#[test]
fn permits_expire_with_their_process() {
    let server = RedisServer::start().unwrap();
    let permits = with_policy(OnStoreFailure::Closed, Rule::new("inside", [Limit::concurrency(1).unwrap()]));
    let short_ttl = |options: &mut sluicegate_cluster::StoreOptions| {
        options.permit_time_to_live = Duration::from_millis(900);
    };
    let holder = Process::start_with(&server, [permits.clone()], short_ttl);
    let other = Process::start_with(&server, [permits], short_ttl);
    let held = holder.sluice.decide(&get());
    assert!(held.is_admitted());
    let until = std::time::Instant::now() + Duration::from_millis(2_000);
    while std::time::Instant::now() < until {
        assert!(!other.sluice.decide(&get()).is_admitted(), "renewed while it is held");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Like a crash: nothing is renewed or released.
    holder.close();
    std::mem::forget(held);
    eventually("its permits are released", || other.sluice.decide(&get()).is_admitted());
}

#[test]
fn an_estimate_is_settled_in_the_store() {
    let server = RedisServer::start().unwrap();
    let bucket = Limit::token_bucket(Rate::new(60, Duration::from_secs(3_600)).unwrap(), 100).unwrap();
    let rule = Rule { cost: Cost::estimate(40), ..with_policy(OnStoreFailure::Closed, Rule::new("tokens", [bucket])) };
    let process = Process::start(&server, [rule]);
    process.sluice.decide(&get()).settle(5);
    eventually("35 tokens are refunded", || {
        let outcome = process.sluice.decide(&get());
        let remaining = outcome.decisions().next().unwrap().1.decision.status.remaining;
        outcome.give_back();
        remaining == 55
    });
}

/// Both rules are charged only if both admit.
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
    let ban = Ban { after: 1, within: Duration::from_secs(60), duration: Duration::from_secs(600) };
    let rules = || [Rule { ban: Some(ban), ..by_ip(cluster("per-ip", "1/1h")) }];
    let [one, other] = [0, 1].map(|_| Process::start(&server, rules()));
    let cause = |process: &Process| process.sluice.decide(&from("10.0.0.1")).cause();
    cause(&one);
    assert_eq!(cause(&one), Cause::Limit(0));
    let sent = std::time::Instant::now();
    eventually("the other process has the ban", || cause(&other) == Cause::Ban(0));
    assert!(sent.elapsed() < Duration::from_secs(1), "{:?}", sent.elapsed());
    // A process that starts later gets the ban, too.
    let late = Process::start(&server, rules());
    eventually("the later process has the ban", || !late.sluice.bans().is_empty());
    // The store loses its data; the processes restore it.
    flush(&server);
    let later = Process::start(&server, rules());
    eventually("sent again", || !later.sluice.bans().is_empty());
    // A ban lifted by one process is lifted in all.
    assert!(later.sluice.lift_ban("per-ip", "10.0.0.1"));
    eventually("lifted", || one.sluice.bans().is_empty() && other.sluice.bans().is_empty());
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn lists_reach_every_process() {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| Process::start(&server, [cluster("total", "1000/1h")]));
    let deny = sluicegate_cluster::ListKind::Deny;
    assert!(one.store.add_to_list(deny, "client.ip ==", None).is_err(), "no condition");
    one.store.add_to_list(deny, "client.ip == 10.0.0.1", None).unwrap();
    let denied = |process: &Process| !process.sluice.decide(&from("10.0.0.1")).is_admitted();
    eventually("every process has the entry", || denied(&one) && denied(&other));
    assert!(other.sluice.decide(&from("10.0.0.2")).is_admitted());
    // The store loses its data; the processes restore it.
    flush(&server);
    let late = Process::start(&server, [cluster("total", "1000/1h")]);
    eventually("sent again", || denied(&late));
    assert!(denied(&one) && denied(&other));
    other.store.remove_from_list(deny, "client.ip == 10.0.0.1");
    eventually("removed", || !denied(&one) && !denied(&other));
}

#[test]
fn limits_the_store_cannot_represent_are_refused_with_a_reason() {
    let server = RedisServer::start().unwrap();
    let process = Process::start(&server, [cluster("total", "1/1h")]);
    let huge = Limit::concurrency(u64::MAX).unwrap();
    let rule = with_policy(OnStoreFailure::Open, Rule::new("huge", [huge]));
    let error = process.sluice.replace(vec![rule], sluicegate_engine::rule::Lists::default()).unwrap_err().to_string();
    assert!(error.contains("huge") && error.contains("too large"), "{error}");
    assert!(process.sluice.decide(&get()).is_admitted(), "the last valid rules stay active");
}

/// A process that learns afterwards that a request cost nothing refunds quota taken by another.
#[test]
fn quota_taken_by_another_process_can_be_refunded() {
    let server = RedisServer::start().unwrap();
    let window = Limit::fixed_window(5, Duration::from_secs(86_400), Alignment::Epoch).unwrap();
    let rule = with_policy(OnStoreFailure::Closed, Rule::new("daily", [window]));
    let [one, other] = [0, 1].map(|_| Process::start(&server, [rule.clone()]));
    assert!(one.sluice.decide(&get().with_cost(5)).is_admitted());
    assert!(!other.sluice.decide(&get()).is_admitted());
    other.sluice.decide(&get().with_cost(0)).refund(2);
    eventually("two tokens are refunded", || one.sluice.decide(&get().with_cost(2)).is_admitted());
    assert!(!one.sluice.decide(&get()).is_admitted());
}

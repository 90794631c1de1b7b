//! Fast path: decides like the full decision, or declines without an effect.

use crate::support;

use std::net::Ipv4Addr;
use std::time::Duration;

use proptest::prelude::*;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, Ban, Cost, Expr, Lists, Mode, Queue, Request, Rule, Target};
use sluicegate_engine::sluice::{Cause, RuleDecision};
use sluicegate_engine::{Limit, Sluice, Verdict};
use support::*;

fn per_ip(name: &str, limit: Limit) -> Rule {
    let mut rule = Rule::new(name, [limit]);
    rule.key = vec![Attribute::ClientIp.into()];
    rule
}

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap()
}

fn from(host: u8) -> Request<'static> {
    Request::new("GET", "/").with_client_ip(Ipv4Addr::new(203, 0, 113, host))
}

/// Decision of the single rule, if the fast path decided the request.
fn try_fast(sluice: &Sluice, request: &Request<'_>) -> Option<Option<RuleDecision>> {
    sluice.fast_path().try_decide(request).map(|fast| fast.decision())
}

/// True if the fast path admitted the request.
fn is_admitted(sluice: &Sluice, request: &Request<'_>) -> bool {
    sluice.fast_path().try_decide(request).is_some_and(|fast| fast.is_admitted())
}

/// True if the fast path declined the request and nothing changed.
fn needs_full_decision(sluice: &Sluice, request: &Request<'_>) -> bool {
    let state = || format!("{:?} {:?}", sluice.explain(request), sluice.counts());
    let before = state();
    try_fast(sluice, request).is_none() && before == state()
}

#[test]
fn a_single_bucket_is_decided_without_an_outcome() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [per_ip("per-ip", bucket("1/s", 2))]);
    for left in [1, 0] {
        let decision = try_fast(&sluice, &from(1)).unwrap().unwrap();
        assert_eq!((decision.rule, decision.decision.status.remaining), (0, left));
        assert!(decision.decision.is_allowed() && !decision.shadow && !decision.degraded);
    }
    clock.advance(Duration::from_millis(300));
    for _ in 0..2 {
        let hold = sluice.fast_path();
        let off = hold.try_decide(&from(1)).unwrap();
        let denied = Verdict::Denied { retry_after: Some(Duration::from_millis(700)) };
        assert_eq!((off.verdict(), off.cause()), (denied, Cause::Limit(0)), "the bucket is empty");
    }
    assert!(is_admitted(&sluice, &from(2)), "the bucket of another key is not empty");
    clock.advance(Duration::from_millis(700));
    assert!(is_admitted(&sluice, &from(1)), "it has been refilled");
    let counts = &sluice.counts()[0];
    assert_eq!((counts.admitted, counts.refused), (4, 2));
}

#[test]
fn windows_and_several_limits_are_decided_without_an_outcome() {
    let clock = ManualClock::new();
    let limits = [
        vec![sliding(2, secs(60), 6)],
        vec![fixed(2, secs(60))],
        vec![log(2, secs(60))],
        vec![Limit::interpolated_window(2, secs(60)).unwrap()],
        vec![sliding(9, secs(60), 6), sliding(2, secs(30), 3)],
        vec![bucket("5/s", 9), bucket("2/m", 2)],
        vec![bucket("5/s", 9), log(2, secs(60))],
    ];
    for limits in limits {
        let rule = Rule { limits: limits.clone(), ..per_ip("per-ip", bucket("1/s", 1)) };
        let sluice = sluice(&clock, [rule]);
        let decide = || sluice.fast_path().try_decide(&from(1)).map(|fast| (fast.is_admitted(), fast.cause()));
        let (admitted, refused) = (Some((true, Cause::Rules)), Some((false, Cause::Limit(0))));
        assert_eq!([decide(), decide(), decide()], [admitted, admitted, refused], "{limits:?}");
        assert_eq!((sluice.counts()[0].admitted, sluice.counts()[0].refused), (2, 1), "{limits:?}");
    }
}

#[test]
fn the_key_hash_is_that_of_the_outcome() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [per_ip("per-ip", sliding(9, secs(60), 6))]);
    let fast = sluice.fast_path().try_decide(&from(1)).unwrap().key_hash(0);
    assert!(fast.is_some());
    assert_eq!(fast, sluice.decide(&from(1)).key_hash(0));
    assert_eq!(sluice.fast_path().try_decide(&from(1)).unwrap().key_hash(1), None);
}

#[test]
fn a_request_without_rules_is_admitted() {
    let clock = ManualClock::new();
    let mut elsewhere = per_ip("elsewhere", permits(1));
    elsewhere.target = Target::parse("POST /elsewhere/**").unwrap();
    let sluice = sluice(&clock, [elsewhere]);
    assert_eq!(try_fast(&sluice, &from(1)), Some(None));
    assert!(needs_full_decision(&sluice, &Request { method: "POST", path: "/elsewhere/x", ..from(1) }));
    assert_eq!(try_fast(&sluice, &Request::new("POST", "/elsewhere/x")), Some(None), "the key is missing");
}

#[test]
fn complex_rules_need_the_full_decision() {
    let clock = ManualClock::new();
    let plain = || per_ip("rule", bucket("1/s", 10));
    let ban = Some(Ban { after: 3, within: secs(60), duration: secs(60) });
    let cases = [
        ("several rules", vec![plain(), Rule { name: "second".to_owned(), ..plain() }]),
        ("bans", vec![Rule { ban, ..plain() }]),
        ("shadow", vec![Rule { mode: Mode::Shadow, ..plain() }]),
        ("an estimate", vec![Rule { cost: Cost::estimate(3), ..plain() }]),
        ("no cost", vec![Rule { cost: Cost::Fixed(0), ..plain() }]),
        ("a cost above the burst", vec![Rule { cost: Cost::Fixed(11), ..plain() }]),
        ("no key", vec![Rule { key: Vec::new(), ..plain() }]),
        ("no limits", vec![Rule { limits: Vec::new(), ..plain() }]),
        ("permits", vec![per_ip("rule", permits(3))]),
        ("a leaky bucket", vec![per_ip("rule", leaky("1/s", 3))]),
        (
            "a leaky bucket beside a window",
            vec![Rule { limits: vec![sliding(3, secs(1), 3), leaky("1/s", 3)], ..plain() }],
        ),
        (
            "an estimate of a window",
            vec![Rule { limits: vec![sliding(9, secs(1), 3)], cost: Cost::estimate(3), ..plain() }],
        ),
        ("a cost above a window", vec![Rule { limits: vec![sliding(3, secs(1), 3)], cost: Cost::Fixed(4), ..plain() }]),
        ("bandwidth", vec![per_ip("rule", Limit::bandwidth(rate("10/s"), 10).unwrap())]),
    ];
    for (case, rules) in cases {
        assert!(needs_full_decision(&sluice(&clock, rules), &from(1)), "{case}");
    }
}

#[test]
fn lists_are_checked_first() {
    let clock = ManualClock::new();
    let list = |text: &str| vec![Expr::parse(text).unwrap()];
    let lists = Lists { allow: list("client.ip in 203.0.113.1/32"), deny: list("client.ip in 203.0.113.2/32") };
    let sluice = sluice(&clock, []);
    sluice.replace(vec![per_ip("per-ip", bucket("1/s", 10))], lists).unwrap();
    assert!(needs_full_decision(&sluice, &from(1)));
    assert!(needs_full_decision(&sluice, &from(2)));
    assert!(is_admitted(&sluice, &from(3)));
}

#[test]
fn the_fast_path_respects_the_queue() {
    let clock = ManualClock::new();
    let mut queued = per_ip("per-ip", bucket("1/s", 1));
    queued.on_limit.queue = Some(Queue { max_wait: secs(60), max_waiting: 9 });
    let sluice = sluice(&clock, [queued]);
    assert!(is_admitted(&sluice, &from(1)));
    assert!(needs_full_decision(&sluice, &from(1)), "a refused request may queue");
    let first = waiting(sluice.admit(&from(1)));
    clock.advance(secs(1));
    assert!(needs_full_decision(&sluice, &from(1)), "the token belongs to the queued request");
    drop(first);
    assert!(is_admitted(&sluice, &from(1)));
}

#[test]
fn a_replaced_rule_keeps_its_remaining_quota() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [per_ip("per-ip", bucket("1/h", 3))]);
    let left = |sluice: &Sluice| {
        let decision = try_fast(sluice, &from(1))??.decision;
        decision.is_admitted().then_some(decision.status.remaining)
    };
    assert_eq!(left(&sluice), Some(2));
    sluice.replace(vec![per_ip("per-ip", bucket("1/h", 2))], Lists::default()).unwrap();
    assert_eq!([left(&sluice), left(&sluice), left(&sluice)], [Some(1), Some(0), None]);
}

/// Rules of all kinds, so that requests match none, one or both of them.
fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let limit = prop_oneof![
        3 => (1..4u64).prop_map(|burst| bucket("2/s", burst)),
        2 => (1..4u64).prop_map(|max| sliding(max, secs(1), 4)),
        1 => (1..4u64).prop_map(|max| fixed(max, secs(1))),
        1 => (1..4u64).prop_map(|max| log(max, secs(1))),
        1 => (1..4u64).prop_map(|max| Limit::interpolated_window(max, secs(1)).unwrap()),
        1 => (1..3u64).prop_map(|max| leaky("2/s", max)),
    ];
    let limits = prop::collection::vec(limit, 1..4);
    let target = prop_oneof![3 => Just("*"), 1 => Just("/a/**"), 1 => Just("POST /a/b")];
    let rule = (limits, target, 1..3u64, prop::bool::weighted(0.2), prop::bool::weighted(0.2), any::<bool>());
    prop::collection::vec(rule, 0..3).prop_map(|rules| {
        let named = rules.into_iter().enumerate().map(|(index, (limits, target, cost, shadow, bans, queues))| {
            let mut rule = Rule { limits, ..per_ip(&format!("rule-{index}"), bucket("1/s", 1)) };
            rule.target = Target::parse(target).unwrap();
            rule.cost = Cost::Fixed(cost);
            rule.mode = if shadow { Mode::Shadow } else { Mode::Enforce };
            rule.ban = bans.then_some(Ban { after: 2, within: secs(5), duration: secs(2) });
            rule.on_limit.queue = queues.then_some(Queue { max_wait: secs(1), max_waiting: 3 });
            rule
        });
        named.collect()
    })
}

proptest! {
    /// Deciding by the fast path if possible gives the same results as deciding everything in full.
    #[test]
    fn the_fast_path_agrees_with_the_full_decision(
        rules in rules(),
        requests in prop::collection::vec((0..3u8, 0..3usize, any::<bool>(), 0..700u64), 1..60),
    ) {
        let (clock, other_clock) = (ManualClock::new(), ManualClock::new());
        let (fast_sluice, full_sluice) = (sluice(&clock, rules.clone()), sluice(&other_clock, rules));
        for (client, path, posts, millis) in requests {
            let request = Request {
                method: if posts { "POST" } else { "GET" },
                path: ["/", "/a/b", "/c"][path],
                ..from(client)
            };
            let hold = fast_sluice.fast_path();
            if posts {
                // The prefetched client makes no difference.
                hold.prefetch_client(Ipv4Addr::new(203, 0, 113, client % 2).into());
            }
            let (result, decision) = match hold.try_decide(&request) {
                Some(fast) => {
                    prop_assert_eq!(fast.is_admitted(), fast.verdict().is_admitted());
                    ((fast.verdict(), fast.cause()), fast.decision().into_iter().collect::<Vec<_>>())
                }
                None => {
                    let outcome = fast_sluice.decide(&request);
                    let decision = outcome.decisions().map(|(_, decision)| decision).collect();
                    ((outcome.verdict(), outcome.cause()), decision)
                }
            };
            drop(hold);
            let expected = full_sluice.decide(&request);
            prop_assert_eq!(result, (expected.verdict(), expected.cause()));
            prop_assert_eq!(decision, expected.decisions().map(|(_, decision)| decision).collect::<Vec<_>>());
            clock.advance(Duration::from_millis(millis));
            other_clock.advance(Duration::from_millis(millis));
        }
        prop_assert_eq!(fast_sluice.counts(), full_sluice.counts());
    }
}

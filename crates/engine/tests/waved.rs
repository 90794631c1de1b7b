//! Requests that are waved through or off: decided as ever, or left alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

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

fn from(nth: u8) -> Request<'static> {
    Request::new("GET", "/").with_client_ip(Ipv4Addr::new(203, 0, 113, nth))
}

/// What the one rule said, if the request was waved through or off.
fn waved(sluice: &Sluice, request: &Request<'_>) -> Option<Option<RuleDecision>> {
    sluice.waving().wave(request).map(|waved| waved.decision())
}

/// Whether the request was waved through.
fn is_through(sluice: &Sluice, request: &Request<'_>) -> bool {
    sluice.waving().wave(request).is_some_and(|waved| waved.is_admitted())
}

/// Whether everything is as it was after a request was not waved.
fn is_left_alone(sluice: &Sluice, request: &Request<'_>) -> bool {
    let state = || format!("{:?} {:?}", sluice.explain(request), sluice.counts());
    let before = state();
    waved(sluice, request).is_none() && before == state()
}

#[test]
fn one_bucket_is_asked_without_an_outcome() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [per_ip("per-ip", bucket("1/s", 2))]);
    for left in [1, 0] {
        let said = waved(&sluice, &from(1)).unwrap().unwrap();
        assert_eq!((said.rule, said.decision.status.remaining), (0, left));
        assert!(said.decision.is_allowed() && !said.shadow && !said.degraded);
    }
    clock.advance(Duration::from_millis(300));
    for _ in 0..2 {
        let hold = sluice.waving();
        let off = hold.wave(&from(1)).unwrap();
        let denied = Verdict::Denied { retry_after: Some(Duration::from_millis(700)) };
        assert_eq!((off.verdict(), off.cause()), (denied, Cause::Limit(0)), "the bucket is empty");
    }
    assert!(is_through(&sluice, &from(2)), "another's is not");
    clock.advance(Duration::from_millis(700));
    assert!(is_through(&sluice, &from(1)), "it has been refilled");
    let counts = &sluice.counts()[0];
    assert_eq!((counts.admitted, counts.refused), (4, 2));
}

#[test]
fn who_meets_no_rule_passes() {
    let clock = ManualClock::new();
    let mut elsewhere = per_ip("elsewhere", log(1, secs(1)));
    elsewhere.target = Target::parse("POST /elsewhere/**").unwrap();
    let sluice = sluice(&clock, [elsewhere]);
    assert_eq!(waved(&sluice, &from(1)), Some(None));
    assert!(is_left_alone(&sluice, &Request { method: "POST", path: "/elsewhere/x", ..from(1) }));
    assert_eq!(waved(&sluice, &Request::new("POST", "/elsewhere/x")), Some(None), "it lacks the key");
}

#[test]
fn what_takes_more_than_a_look_is_left_to_the_full_decision() {
    let clock = ManualClock::new();
    let plain = || per_ip("rule", bucket("1/s", 10));
    let ban = Some(Ban { after: 3, within: secs(60), lasting: secs(60) });
    let cases = [
        ("several rules", vec![plain(), Rule { name: "second".to_owned(), ..plain() }]),
        ("several limits", vec![Rule { limits: vec![bucket("1/s", 10), bucket("5/m", 5)], ..plain() }]),
        ("bans", vec![Rule { ban, ..plain() }]),
        ("shadow", vec![Rule { mode: Mode::Shadow, ..plain() }]),
        ("an estimate", vec![Rule { cost: Cost::estimate(3), ..plain() }]),
        ("no cost", vec![Rule { cost: Cost::Fixed(0), ..plain() }]),
        ("more than ever fits", vec![Rule { cost: Cost::Fixed(11), ..plain() }]),
        ("no key", vec![Rule { key: Vec::new(), ..plain() }]),
        ("no limits", vec![Rule { limits: Vec::new(), ..plain() }]),
        ("permits", vec![per_ip("rule", permits(3))]),
        ("a paced line", vec![per_ip("rule", leaky("1/s", 3))]),
        ("a window", vec![per_ip("rule", sliding(3, secs(1), 3))]),
        ("bandwidth", vec![per_ip("rule", Limit::bandwidth(rate("10/s"), 10).unwrap())]),
    ];
    for (case, rules) in cases {
        assert!(is_left_alone(&sluice(&clock, rules), &from(1)), "{case}");
    }
}

#[test]
fn lists_come_first() {
    let clock = ManualClock::new();
    let list = |text: &str| vec![Expr::parse(text).unwrap()];
    let lists = Lists { allow: list("client.ip in 203.0.113.1/32"), deny: list("client.ip in 203.0.113.2/32") };
    let sluice = sluice(&clock, []);
    sluice.replace(vec![per_ip("per-ip", bucket("1/s", 10))], lists).unwrap();
    assert!(is_left_alone(&sluice, &from(1)));
    assert!(is_left_alone(&sluice, &from(2)));
    assert!(is_through(&sluice, &from(3)));
}

#[test]
fn nobody_is_waved_past_those_who_wait() {
    let clock = ManualClock::new();
    let mut queued = per_ip("per-ip", bucket("1/s", 1));
    queued.on_limit.queue = Some(Queue { max_wait: secs(60), max_waiting: 9 });
    let sluice = sluice(&clock, [queued]);
    assert!(is_through(&sluice, &from(1)));
    assert!(is_left_alone(&sluice, &from(1)), "who is refused may wait");
    let first = waiting(sluice.admit(&from(1)));
    clock.advance(secs(1));
    assert!(is_left_alone(&sluice, &from(1)), "the token is the waiting one's");
    drop(first);
    assert!(is_through(&sluice, &from(1)));
}

#[test]
fn a_replaced_rule_goes_on_with_what_was_left() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [per_ip("per-ip", bucket("1/h", 3))]);
    let left = |sluice: &Sluice| {
        let said = waved(sluice, &from(1))??.decision;
        said.is_admitted().then_some(said.status.remaining)
    };
    assert_eq!(left(&sluice), Some(2));
    sluice.replace(vec![per_ip("per-ip", bucket("1/h", 2))], Lists::default()).unwrap();
    assert_eq!([left(&sluice), left(&sluice), left(&sluice)], [Some(1), Some(0), None]);
}

/// Rules of all kinds, so that requests meet none, one or both of them.
fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let limit = prop_oneof![
        3 => (1..4u64).prop_map(|burst| bucket("2/s", burst)),
        1 => (1..4u64).prop_map(|most| sliding(most, secs(1), 4)),
        1 => (1..3u64).prop_map(|most| leaky("2/s", most)),
    ];
    let target = prop_oneof![3 => Just("*"), 1 => Just("/a/**"), 1 => Just("POST /a/b")];
    let rule = (limit, target, 1..3u64, prop::bool::weighted(0.2), prop::bool::weighted(0.2), any::<bool>());
    prop::collection::vec(rule, 0..3).prop_map(|rules| {
        let made = rules.into_iter().enumerate().map(|(nth, (limit, target, cost, shadow, bans, queues))| {
            let mut rule = per_ip(&format!("rule-{nth}"), limit);
            rule.target = Target::parse(target).unwrap();
            rule.cost = Cost::Fixed(cost);
            rule.mode = if shadow { Mode::Shadow } else { Mode::Enforce };
            rule.ban = bans.then_some(Ban { after: 2, within: secs(5), lasting: secs(2) });
            rule.on_limit.queue = queues.then_some(Queue { max_wait: secs(1), max_waiting: 3 });
            rule
        });
        made.collect()
    })
}

proptest! {
    /// Whether requests are waved through or off where they can be or all decided in full: everybody fares the same.
    #[test]
    fn waving_changes_nothing(
        rules in rules(),
        requests in prop::collection::vec((0..3u8, 0..3usize, any::<bool>(), 0..700u64), 1..60),
    ) {
        let (clock, other_clock) = (ManualClock::new(), ManualClock::new());
        let (waving, deciding) = (sluice(&clock, rules.clone()), sluice(&other_clock, rules));
        for (client, path, posts, millis) in requests {
            let request = Request {
                method: if posts { "POST" } else { "GET" },
                path: ["/", "/a/b", "/c"][path],
                ..from(client)
            };
            let hold = waving.waving();
            if posts {
                // It makes no difference who was expected.
                hold.expect_client(Ipv4Addr::new(203, 0, 113, client % 2).into());
            }
            let (fate, said) = match hold.wave(&request) {
                Some(waved) => {
                    prop_assert_eq!(waved.is_admitted(), waved.verdict().is_admitted());
                    ((waved.verdict(), waved.cause()), waved.decision().into_iter().collect::<Vec<_>>())
                }
                None => {
                    let outcome = waving.decide(&request);
                    let said = outcome.decisions().map(|(_, said)| said).collect();
                    ((outcome.verdict(), outcome.cause()), said)
                }
            };
            drop(hold);
            let expected = deciding.decide(&request);
            prop_assert_eq!(fate, (expected.verdict(), expected.cause()));
            prop_assert_eq!(said, expected.decisions().map(|(_, said)| said).collect::<Vec<_>>());
            clock.advance(Duration::from_millis(millis));
            other_clock.advance(Duration::from_millis(millis));
        }
        prop_assert_eq!(waving.counts(), deciding.counts());
    }
}

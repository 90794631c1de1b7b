//! Deciding by one rule selected by its name instead of its target.

use crate::support;

use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{
    Attribute, AttributeMap, Ban, Direction, Expr, Lists, Mode, Queue, Request, Rule, Target,
};
use sluicegate_engine::sluice::Cause;
use sluicegate_engine::{Limit, Sluice, Verdict};
use support::*;

/// Empty request: the caller names the rule.
fn call() -> Request<'static> {
    Request::new("", "")
}

fn once(name: &str) -> Rule {
    Rule::new(name, ["1/1m".parse::<Limit>().unwrap()])
}

fn by(attribute: &str, rule: Rule) -> Rule {
    Rule { key: vec![attribute.parse::<Attribute>().unwrap().into()], ..rule }
}

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap()
}

fn admits(sluice: &Sluice, rule: &str, request: &Request<'_>) -> bool {
    sluice.rule(rule).unwrap().decide(request).is_admitted()
}

#[test]
fn target_and_direction_are_ignored_and_other_rules_do_not_apply() {
    let mut orders = once("orders");
    orders.target = Target::parse("POST /orders").unwrap();
    orders.direction = Direction::Outbound;
    let sluice = sluice(&ManualClock::new(), [once("everything"), orders]);
    assert!(admits(&sluice, "orders", &call()));
    assert!(!admits(&sluice, "orders", &call()));
    let counts = sluice.counts();
    assert_eq!((counts[0].admitted, counts[0].refused), (0, 0), "the other rule was not checked");
    assert_eq!((counts[1].admitted, counts[1].refused), (1, 1));
    let refused = sluice.rule("orders").unwrap().decide(&call());
    assert_eq!(refused.cause(), Cause::Limit(1));
    assert_eq!(refused.rule().unwrap().name, "orders");
    assert_eq!(refused.limit(), Some(&"1/1m".parse().unwrap()));
}

#[test]
fn an_unknown_name_gives_no_decision() {
    let sluice = sluice(&ManualClock::new(), [once("orders")]);
    for name in ["", "order", "orders ", "ORDERS"] {
        assert!(sluice.rule(name).is_none(), "{name}");
    }
}

#[test]
fn the_last_of_ten_thousand_is_found() {
    let rules = (0..10_000).map(|number| once(&format!("rule-{number}")));
    let sluice = sluice(&ManualClock::new(), rules);
    assert!(admits(&sluice, "rule-9999", &call()));
    assert!(!admits(&sluice, "rule-9999", &call()));
    assert!(admits(&sluice, "rule-0", &call()));
}

#[test]
fn a_false_condition_admits_without_counting() {
    let mut rule = once("paid");
    rule.when = Some(Expr::parse("tier != 'vip'").unwrap());
    let sluice = sluice(&ManualClock::new(), [rule]);
    let vip = AttributeMap::new().with(Attribute::custom("tier"), "vip");
    for _ in 0..3 {
        assert!(admits(&sluice, "paid", &call().with_attributes(&vip)));
    }
    assert_eq!(sluice.counts()[0].admitted, 0);
    assert!(admits(&sluice, "paid", &call()));
    assert!(!admits(&sluice, "paid", &call()));
}

#[test]
fn keys_are_counted_separately_and_keyless_calls_not_at_all() {
    let sluice = sluice(&ManualClock::new(), [by("account", once("per-account"))]);
    let of = |name: &str| AttributeMap::new().with(Attribute::custom("account"), name);
    let (alice, bob) = (of("alice"), of("bob"));
    assert!(admits(&sluice, "per-account", &call().with_attributes(&alice)));
    assert!(!admits(&sluice, "per-account", &call().with_attributes(&alice)));
    assert!(admits(&sluice, "per-account", &call().with_attributes(&bob)));
    assert!(admits(&sluice, "per-account", &call()) && admits(&sluice, "per-account", &call()));
}

#[test]
fn lists_come_first() {
    let lists = Lists {
        allow: vec![Expr::parse("account == 'root'").unwrap()],
        deny: vec![Expr::parse("account == 'mallory'").unwrap()],
    };
    let sluice = Sluice::builder().rule(once("orders")).lists(lists).build().unwrap();
    let of = |name: &str| AttributeMap::new().with(Attribute::custom("account"), name);
    let (root, mallory) = (of("root"), of("mallory"));
    let denied = sluice.rule("orders").unwrap().decide(&call().with_attributes(&mallory));
    assert_eq!(denied.cause(), Cause::DenyList(0));
    for _ in 0..3 {
        assert!(admits(&sluice, "orders", &call().with_attributes(&root)));
    }
}

#[test]
fn bans_are_created_listed_and_kept() {
    let clock = ManualClock::new();
    let mut rule = by("account", once("orders"));
    rule.ban = Some(Ban { after: 2, within: secs(60), duration: secs(600) });
    // The target must not make its keys unreadable.
    rule.target = Target::parse("POST /orders").unwrap();
    let sluice = sluice(&clock, [rule]);
    let alice = AttributeMap::new().with(Attribute::custom("account"), "alice");
    let request = call().with_attributes(&alice);
    assert!(admits(&sluice, "orders", &request));
    assert!(!admits(&sluice, "orders", &request) && !admits(&sluice, "orders", &request));
    clock.advance(secs(120));
    let banned = sluice.rule("orders").unwrap().decide(&request);
    assert_eq!(banned.cause(), Cause::Ban(0));
    assert_eq!(sluice.bans()[0].key, "account=alice");
    assert!(sluice.lift_ban("orders", "account=alice"));
    assert!(admits(&sluice, "orders", &request));
}

#[test]
fn a_shadow_rule_reports_but_refuses_nothing() {
    let rule = Rule { mode: Mode::Shadow, ..once("trial") };
    let sluice = sluice(&ManualClock::new(), [rule]);
    assert!(admits(&sluice, "trial", &call()));
    let outcome = sluice.rule("trial").unwrap().decide(&call());
    assert!(outcome.is_admitted());
    assert_eq!(outcome.would_refuse().count(), 1);
}

#[test]
fn permits_are_held_until_the_outcome_is_dropped() {
    let sluice = sluice(&ManualClock::new(), [Rule::new("pool", [permits(1)])]);
    let held = sluice.rule("pool").unwrap().decide(&call());
    assert!(held.is_admitted());
    assert!(!admits(&sluice, "pool", &call()));
    drop(held);
    assert!(admits(&sluice, "pool", &call()));
}

#[test]
fn a_queued_call_leaves_the_queue_when_dropped() {
    let clock = ManualClock::new();
    let mut rule = Rule::new("paced", [bucket("1/s", 1)]);
    rule.on_limit.queue = Some(Queue { max_wait: secs(5), max_waiting: 10 });
    let sluice = sluice(&clock, [rule]);
    let admit = || sluice.rule("paced").unwrap().admit(&call());
    assert!(Task::new(admit()).now().is_admitted());
    let mut tasks = [waiting(admit()), waiting(admit())];
    drop(waiting(admit()));
    assert_eq!(sluice.counts()[0].waiting, 2);
    let left = advance(&clock, secs(1), &mut tasks);
    assert_eq!(left.len(), 1);
    let left = advance(&clock, secs(1), &mut tasks);
    assert_eq!(left.len(), 1);
    assert_eq!(sluice.counts()[0].waiting, 0);
}

#[test]
fn blocking_gives_the_same_outcome() {
    let clock = ManualClock::new();
    let mut rule = Rule::new("paced", [bucket("1/s", 1)]);
    rule.on_limit.queue = Some(Queue { max_wait: secs(5), max_waiting: 10 });
    let sluice = sluice(&clock, [rule]);
    assert!(sluice.rule("paced").unwrap().admit(&call()).blocking().is_admitted());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| sluice.rule("paced").unwrap().admit(&call()).blocking().verdict());
        while clock.next_timer().is_none() {
            std::thread::yield_now();
        }
        clock.advance(secs(1));
        assert_eq!(waiter.join().unwrap(), Verdict::Allowed);
    });
}

#[test]
fn replaced_rules_are_found_by_name() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [once("a"), once("b")]);
    assert!(admits(&sluice, "b", &call()));
    let looser = Rule::new("b", ["3/1m".parse::<Limit>().unwrap()]);
    sluice.replace(vec![looser, once("c")], Lists::default()).unwrap();
    assert!(sluice.rule("a").is_none());
    assert!(admits(&sluice, "c", &call()));
    // Consumed quota stays consumed until the window has passed.
    assert_eq!((0..4).filter(|_| admits(&sluice, "b", &call())).count(), 2);
    clock.advance(Duration::from_secs(70));
    assert_eq!((0..4).filter(|_| admits(&sluice, "b", &call())).count(), 3);
}

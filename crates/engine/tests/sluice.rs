//! `Sluice`: all or nothing across rules, lists, bans, shadow rules, queues and rule replacement.

use crate::support;

use std::net::IpAddr;
use std::time::Duration;

use sluicegate_engine::algorithm::Status;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{
    Attribute, AttributeMap, Ban, Cost, CostSource, Direction, Expr, KeyPart, ListHit, Lists, Mode, Priority, Queue,
    Reply, Request, Rule, Target,
};
use sluicegate_engine::sluice::{Cause, RuleSetError};
use sluicegate_engine::{Limit, Outcome, Sluice, Verdict};
use support::*;

fn rule(name: &str, limits: impl Into<Vec<Limit>>) -> Rule {
    Rule::new(name, limits)
}

fn on(target: &str, rule: Rule) -> Rule {
    Rule { target: Target::parse(target).unwrap(), ..rule }
}

fn by(attribute: &str, rule: Rule) -> Rule {
    Rule { key: vec![attribute.parse::<Attribute>().unwrap().into()], ..rule }
}

fn queued(mut rule: Rule, max_wait: Duration, max_waiting: u32) -> Rule {
    rule.on_limit.queue = Some(Queue { max_wait, max_waiting });
    rule
}

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap()
}

fn get(path: &str) -> Request<'_> {
    Request::new("GET", path)
}

fn from(ip: &str) -> Request<'static> {
    Request::new("GET", "/").with_client_ip(ip.parse::<IpAddr>().unwrap())
}

fn exprs(texts: &[&str]) -> Vec<Expr> {
    texts.iter().map(|text| Expr::parse(text).unwrap()).collect()
}

/// Remaining quota of every matching rule, by its tightest limit.
fn remaining(sluice: &Sluice, request: &Request<'_>) -> Vec<Option<Status>> {
    sluice.explain(request).rules.into_iter().map(|rule| rule.decision.map(|decision| decision.status)).collect()
}

fn refused_by(outcome: &Outcome) -> Option<&str> {
    outcome.rule().map(|rule| rule.name.as_str())
}

fn admitted(sluice: &Sluice, request: &Request<'_>, times: usize) -> usize {
    (0..times).filter(|_| sluice.decide(request).is_admitted()).count()
}

#[test]
fn a_refusal_by_one_rule_consumes_nothing_of_the_others() {
    let clock = ManualClock::new();
    let rules = [
        on("service shop", rule("service", [bucket("100/s", 100), sliding(100, secs(1), 10)])),
        on("service shop POST /orders", rule("interface", [log(3, secs(60))])),
        by("client.ip", rule("per-ip", [fixed(50, secs(60)), permits(40)])),
        by("header['x-none']", rule("absent", [bucket("1/h", 1)])),
    ];
    let sluice = sluice(&clock, rules);
    let order = Request::new("POST", "/orders").with_service("shop").with_client_ip([10, 0, 0, 1]);
    assert_eq!(admitted(&sluice, &order, 3), 3);
    let before = remaining(&sluice, &order);
    for _ in 0..50 {
        let refused = sluice.decide(&order);
        assert_eq!((refused_by(&refused), refused.cause()), (Some("interface"), Cause::Limit(1)));
        assert_eq!(refused.verdict(), Verdict::Denied { retry_after: Some(secs(60)) });
        assert_eq!(refused.limit(), Some(&log(3, secs(60))));
        assert_eq!(refused.decisions().count(), 3);
    }
    assert_eq!(remaining(&sluice, &order), before);
    assert_eq!(before[3], None, "a rule whose key is missing does not apply");
    let counts: Vec<_> = sluice.counts().iter().map(|rule| (rule.admitted, rule.refused)).collect();
    assert_eq!(counts, [(3, 0), (3, 50), (3, 0), (0, 0)]);
    let other = Request::new("GET", "/items").with_service("shop").with_client_ip([10, 0, 0, 1]);
    assert!(sluice.decide(&other).is_admitted());
}

#[test]
fn threads_decide_all_or_nothing_too() {
    let clock = ManualClock::new();
    // Named and ordered so that the two paths meet the common rules in different order.
    let rules = [
        on("/a", rule("only-a", [bucket("1/h", 300)])),
        rule("common", [bucket("1/h", 500), log(1_000, secs(3_600))]),
        by("method", rule("keyed", [fixed(450, secs(3_600))])),
        on("/b", rule("only-b", [sliding(300, secs(3_600), 10)])),
    ];
    let sluice = sluice(&clock, rules);
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let threads = ["/a", "/b"].map(|path| {
            let sluice = &sluice;
            scope.spawn(move || admitted(sluice, &get(path), 2_000))
        });
        threads.map(|thread| thread.join().unwrap()).into()
    });
    let (a, b) = (counts[0] as u64, counts[1] as u64);
    assert_eq!(a + b, 450, "the tightest common limit decides");
    let remaining = |path: &str| remaining(&sluice, &get(path)).into_iter().map(|status| status.unwrap().remaining);
    assert_eq!(remaining("/a").collect::<Vec<_>>(), [300 - a, 50, 0]);
    assert_eq!(remaining("/b").collect::<Vec<_>>(), [50, 0, 300 - b]);
}

#[test]
fn lists_are_checked_first_and_allow_wins() {
    let clock = ManualClock::new();
    let lists = Lists {
        allow: exprs(&["client.ip in 10.1.0.0/16"]),
        deny: exprs(&["client.ip in 10.0.0.0/8", "account == 'mallory'"]),
    };
    let builder = Sluice::builder().rule(rule("all", [bucket("1/h", 1)])).lists(lists).clock(clock);
    let sluice = builder.build().unwrap();
    for _ in 0..5 {
        let allowed = sluice.decide(&from("10.1.2.3"));
        assert_eq!((allowed.verdict(), allowed.cause()), (Verdict::Allowed, Cause::AllowList(0)));
        let denied = sluice.decide(&from("::ffff:10.2.0.1"));
        assert_eq!(denied.verdict(), Verdict::Denied { retry_after: None });
        assert_eq!((denied.cause(), denied.rule().is_none()), (Cause::DenyList(0), true));
    }
    let mallory = AttributeMap::new().with(Attribute::custom("account"), "mallory");
    let denied = sluice.decide(&from("192.0.2.1").with_attributes(&mallory));
    assert_eq!(denied.cause(), Cause::DenyList(1));
    assert_eq!(sluice.explain(&from("10.2.0.1")).list, Some(ListHit::Deny(0)));
    assert!(sluice.decide(&from("192.0.2.1")).is_admitted(), "none of these requests was counted");
    sluice.replace(sluice.rules(), Lists::default()).unwrap();
    assert!(!sluice.decide(&from("10.1.2.3")).is_admitted(), "removed from the list, subject to the rule");
}

fn banning(after: u32) -> Rule {
    let ban = Ban { after, within: secs(60), duration: secs(600) };
    Rule { ban: Some(ban), ..by("client.ip", rule("per-ip", [bucket("1/s", 1)])) }
}

#[test]
fn repeated_refusals_ban_a_key_for_the_configured_time() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [banning(3)]);
    let (bad, good) = (from("10.0.0.1"), from("10.0.0.2"));
    assert_eq!(admitted(&sluice, &bad, 3), 1, "two refusals");
    clock.advance(secs(61));
    assert_eq!(admitted(&sluice, &bad, 3), 1, "two more, but the first two have expired");
    assert!(sluice.bans().is_empty());
    assert_eq!(sluice.decide(&bad).cause(), Cause::Limit(0), "the third refusal is still caused by the limit");
    let bans = sluice.bans();
    assert_eq!((bans.len(), bans[0].rule.as_str(), bans[0].key.as_str()), (1, "per-ip", "10.0.0.1"));
    assert_eq!(bans[0].remaining, secs(600));
    for passed in [1, 299, 299] {
        clock.advance(secs(passed));
        for _ in 0..10 {
            let banned = sluice.decide(&bad);
            assert_eq!((banned.cause(), refused_by(&banned)), (Cause::Ban(0), Some("per-ip")));
        }
    }
    let banned = sluice.decide(&bad);
    assert_eq!(banned.verdict(), Verdict::Denied { retry_after: Some(secs(1)) }, "not extended");
    assert_eq!(sluice.explain(&bad).rules[0].banned, Some(secs(1)));
    assert!(sluice.decide(&good).is_admitted());
    assert_eq!(sluice.counts()[0].banned, 31);
    clock.advance(secs(1) - NANO);
    assert_eq!(sluice.decide(&bad).cause(), Cause::Ban(0));
    clock.advance(NANO);
    assert!(sluice.decide(&bad).is_admitted());
    assert!(sluice.bans().is_empty());
}

#[test]
fn a_ban_can_be_lifted_and_is_removed_with_its_rule() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [banning(1)]);
    let bad = from("10.0.0.1");
    let ban = |sluice: &Sluice| {
        admitted(sluice, &bad, 2);
        assert_eq!(sluice.bans().len(), 1);
    };
    ban(&sluice);
    assert!(!sluice.lift_ban("per-ip", "10.0.0.9"));
    assert!(!sluice.lift_ban("other", "10.0.0.1"));
    assert!(sluice.lift_ban("per-ip", "10.0.0.1"));
    assert!(!sluice.lift_ban("per-ip", "10.0.0.1"), "already lifted");
    clock.advance(secs(1));
    assert!(sluice.decide(&bad).is_admitted());
    ban(&sluice);
    let mut unchanged = banning(1);
    unchanged.limits = vec![bucket("2/s", 9)];
    sluice.replace(vec![unchanged], Lists::default()).unwrap();
    assert_eq!(sluice.decide(&bad).cause(), Cause::Ban(0), "changed limits, same ban");
    sluice.replace(vec![], Lists::default()).unwrap();
    assert!(sluice.decide(&bad).is_admitted());
    assert!(sluice.bans().is_empty());
}

#[test]
fn many_banned_keys_do_not_ban_others() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [Rule { max_keys: Some(20), ..banning(2) }]);
    for banned in 0..5_000u32 {
        let request = Request::new("GET", "/").with_client_ip(banned.to_be_bytes());
        admitted(&sluice, &request, 4);
    }
    for other in 5_000..10_000u32 {
        let request = Request::new("GET", "/").with_client_ip(other.to_be_bytes());
        assert_eq!(sluice.explain(&request).rules[0].banned, None);
    }
    assert!(sluice.bans().len() <= 1_024);
}

#[test]
fn a_shadow_rule_counts_and_reports_and_never_refuses() {
    let clock = ManualClock::new();
    let watching = Rule { mode: Mode::Shadow, ..rule("watching", [bucket("1/h", 2)]) };
    let enforced = on("/limited", rule("enforced", [bucket("1/h", 1)]));
    let sluice = sluice(&clock, [watching, enforced]);
    assert!(sluice.decide(&get("/limited")).is_admitted());
    for _ in 0..20 {
        assert_eq!(refused_by(&sluice.decide(&get("/limited"))), Some("enforced"));
    }
    assert_eq!(
        remaining(&sluice, &get("/"))[0].unwrap().remaining,
        1,
        "requests refused by other rules are not \
        counted"
    );
    let second = sluice.decide(&get("/"));
    assert!(second.is_admitted() && second.would_refuse().count() == 0);
    for _ in 0..3 {
        let third = sluice.decide(&get("/"));
        assert_eq!((third.verdict(), third.cause(), third.reply().is_none()), (Verdict::Allowed, Cause::Rules, true));
        assert_eq!(third.would_refuse().map(|(rule, _)| rule.name.as_str()).collect::<Vec<_>>(), ["watching"]);
    }
    let counts: Vec<_> = sluice.counts().iter().map(|rule| (rule.admitted, rule.refused)).collect();
    assert_eq!(counts, [(2, 3), (1, 20)]);
}

#[test]
fn shadow_permits_are_given_back_with_the_outcome() {
    let clock = ManualClock::new();
    let watching = Rule { mode: Mode::Shadow, ..rule("watching", [permits(1)]) };
    let sluice = sluice(&clock, [watching]);
    let first = sluice.decide(&get("/"));
    assert_eq!(sluice.decide(&get("/")).would_refuse().count(), 1);
    drop(first);
    assert_eq!(sluice.decide(&get("/")).would_refuse().count(), 0);
}

#[test]
fn a_request_without_the_key_is_not_counted() {
    let clock = ManualClock::new();
    let both = Rule {
        key: vec![Attribute::ClientIp.into(), Attribute::custom("account").into()],
        ..rule("both", [bucket("1/h", 1)])
    };
    let sluice = sluice(&clock, [both]);
    let empty = AttributeMap::new().with(Attribute::custom("account"), "");
    for request in [get("/"), from("10.0.0.1"), from("10.0.0.1").with_attributes(&empty)] {
        assert_eq!(admitted(&sluice, &request, 5), 5);
        assert_eq!(sluice.explain(&request).rules[0].key, None);
    }
    let alice = AttributeMap::new().with(Attribute::custom("account"), "alice");
    assert_eq!(admitted(&sluice, &from("10.0.0.1").with_attributes(&alice), 5), 1);
}

#[test]
fn addresses_of_one_ipv6_network_share_a_limit() {
    let clock = ManualClock::new();
    let per_ip = by("client.ip", rule("per-ip", [bucket("1/h", 2)]));
    let whole = KeyPart { ipv6_prefix: 128, ipv4_prefix: 24, ..Attribute::ClientIp.into() };
    let other = on("/other", Rule { key: vec![whole], ..rule("other", [bucket("1/h", 1)]) });
    let sluice = sluice(&clock, [on("/", per_ip), other]);
    assert!(sluice.decide(&from("2001:db8::1")).is_admitted());
    assert!(sluice.decide(&from("2001:db8::ffff:1")).is_admitted());
    assert!(!sluice.decide(&from("2001:db8::2")).is_admitted());
    assert!(sluice.decide(&from("2001:db8:0:1::1")).is_admitted());
    assert!(sluice.decide(&from("10.0.0.1")).is_admitted());
    assert!(sluice.decide(&from("::ffff:10.0.0.1")).is_admitted());
    assert!(!sluice.decide(&from("10.0.0.1")).is_admitted(), "mapped or not, the same address");
    let at = |ip: &str| sluice.decide(&Request { path: "/other", ..from(ip) }).is_admitted();
    assert!(at("2001:db8::1") && at("2001:db8::2") && at("10.0.0.1") && !at("10.0.0.2"));
}

#[test]
fn costs_come_from_the_rule_the_request_or_an_attribute() {
    let clock = ManualClock::new();
    let by_attribute =
        Rule { cost: Cost::Attribute("header['x-cost']".parse().unwrap()), ..rule("w", [bucket("1/h", 100)]) };
    let fixed = Rule { cost: Cost::Fixed(3), ..rule("f", [bucket("1/h", 1_000)]) };
    let sluice = sluice(&clock, [by_attribute, fixed]);
    let costs_and_verdict = |value: &str, cost| {
        let attributes = AttributeMap::new().with(Attribute::header("x-cost"), value);
        let request = get("/").with_attributes(&attributes).with_cost(cost);
        let costs: Vec<u64> = sluice.explain(&request).rules.iter().map(|rule| rule.cost).collect();
        (costs, sluice.decide(&request).verdict())
    };
    assert_eq!(costs_and_verdict("40", 1), (vec![40, 3], Verdict::Allowed));
    assert_eq!(costs_and_verdict(" 7 ", 2), (vec![7, 6], Verdict::Allowed));
    // A number too large to parse exceeds any limit; it does not cost one.
    assert_eq!(costs_and_verdict("18446744073709551616", 1).1, Verdict::Never);
    for invalid in ["", "-5", "1.5", "1e3", "NaN"] {
        assert_eq!(costs_and_verdict(invalid, 1), (vec![1, 3], Verdict::Allowed), "{invalid}");
    }
    assert_eq!(costs_and_verdict("0", 0), (vec![0, 0], Verdict::Allowed));
    assert_eq!(costs_and_verdict("101", 1).1, Verdict::Never);
    assert_eq!(costs_and_verdict("1", u64::MAX), (vec![1, u64::MAX], Verdict::Never));
    let remaining: Vec<u64> =
        remaining(&sluice, &get("/")).into_iter().map(|status| status.unwrap().remaining).collect();
    assert_eq!(remaining, [100 - 40 - 7 - 5, 1_000 - 3 - 6 - 15]);
}

#[test]
fn an_estimate_is_settled_and_anything_can_be_given_back() {
    let clock = ManualClock::new();
    let estimate = Rule { cost: Cost::estimate(100), ..rule("tokens", [bucket("1/s", 250)]) };
    let sluice = sluice(&clock, [estimate, rule("requests", [bucket("1/s", 10), permits(2)])]);
    let remaining =
        || remaining(&sluice, &get("/")).into_iter().map(|status| status.unwrap().remaining).collect::<Vec<_>>();
    let request = sluice.decide(&get("/"));
    assert_eq!(remaining(), [150, 1]);
    clock.advance(secs(200));
    request.settle(30);
    assert_eq!(remaining(), [220, 2]);
    sluice.decide(&get("/")).settle(130);
    assert_eq!(remaining(), [90, 2]);
    sluice.decide(&get("/")).give_back();
    assert_eq!(remaining(), [90, 2]);
    clock.advance(secs(10));
    drop(sluice.decide(&get("/")));
    assert_eq!(remaining(), [0, 2], "dropped: the estimate stands");
    assert!(!sluice.decide(&get("/")).is_admitted());
}

#[test]
fn an_estimated_request_cost_is_settled_per_rule() {
    let clock = ManualClock::new();
    let estimated = Rule { cost: Cost::estimate(100), ..rule("reported", [bucket("1/s", 1_000)]) };
    let read = Cost::Estimate { reserve: 70, actual: CostSource::ResponseBytes };
    let sizes = Cost::Attribute(Attribute::custom("size"));
    let rules = [
        rule("single", [bucket("1/s", 1_000), permits(50)]),
        Rule { cost: Cost::Fixed(3), ..rule("triple", [fixed(1_000, secs(60))]) },
        estimated,
        Rule { cost: read, ..rule("read", [bucket("1/s", 1_000)]) },
        Rule { cost: sizes, ..rule("sized", [bucket("1/s", 1_000)]) },
    ];
    let sluice = sluice(&clock, rules);
    let attributes = AttributeMap::new().with(Attribute::custom("size"), "9");
    let peek = get("/").with_cost(0).with_attributes(&attributes);
    let remaining =
        || remaining(&sluice, &peek).into_iter().map(|status| status.unwrap().remaining).collect::<Vec<_>>();
    let calls = get("/").with_cost(40).with_attributes(&attributes);

    let held = sluice.decide(&calls);
    assert_eq!(remaining(), [49, 880, 900, 930, 991]);
    held.settle_request(25);
    assert_eq!(remaining(), [50, 925, 975, 930, 991], "below the estimate, and the permit is released");
    sluice.decide(&calls).settle_request(45);
    assert_eq!(remaining(), [50, 790, 930, 860, 982], "above the estimate");
    sluice.decide(&calls).settle_request(u64::MAX);
    assert_eq!(remaining()[1..3], [0, 0], "no overflow");
}

#[test]
fn explaining_takes_nothing() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [banning(2), rule("all", [log(5, secs(60)), permits(1), leaky("1/s", 5)])]);
    let request = from("10.0.0.1");
    let (before, saved) = (remaining(&sluice, &request), sluice.save());
    for _ in 0..100 {
        let explained = sluice.explain(&request);
        assert_eq!(
            explained.rules.iter().map(|rule| rule.key.as_deref()).collect::<Vec<_>>(),
            [Some("10.0.0.1"), Some("")]
        );
        assert!(explained.rules.iter().all(|rule| rule.decision.unwrap().is_allowed() && rule.banned.is_none()));
    }
    assert_eq!((remaining(&sluice, &request), sluice.save()), (before, saved));
    assert!(sluice.counts().iter().all(|rule| rule.admitted + rule.refused + rule.banned == 0));
}

#[test]
fn the_highest_priority_wins() {
    let clock = ManualClock::new();
    let class = |priority, rule: Rule| Rule { priority, ..rule };
    let sluice = sluice(
        &clock,
        [
            class(Priority::Background, on("/batch/**", rule("batch", []))),
            class(Priority::Vip, Rule { when: Some(Expr::parse("tier == 'vip'").unwrap()), ..rule("vip", []) }),
            rule("all", [bucket("1/h", 1)]),
        ],
    );
    let vip = AttributeMap::new().with(Attribute::custom("tier"), "vip");
    assert_eq!(sluice.decide(&get("/")).priority(), Priority::Normal);
    assert_eq!(sluice.decide(&get("/batch/1")).priority(), Priority::Background, "also for a refused request");
    assert_eq!(sluice.decide(&get("/batch/1").with_attributes(&vip)).priority(), Priority::Vip);
}

#[test]
fn rules_match_only_their_direction() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [Rule { direction: Direction::Outbound, ..rule("out", [bucket("1/h", 1)]) }]);
    assert_eq!(admitted(&sluice, &get("/"), 5), 5);
    assert_eq!(admitted(&sluice, &get("/").with_direction(Direction::Outbound), 5), 1);
}

#[test]
fn a_queued_request_waits_at_most_max_wait() {
    let clock = ManualClock::new();
    let mut paced = queued(rule("paced", [bucket("1/s", 1)]), secs(3), 10);
    paced.on_limit.reply = Some(Reply::Redirect { status: 303, location: "/busy".to_owned() });
    let sluice = sluice(&clock, [paced, rule("all", [bucket("1/h", 50)])]);
    assert!(Task::new(sluice.admit(&get("/"))).now().is_admitted());
    let mut waiters: Vec<_> = (0..3).map(|_| waiting(sluice.admit(&get("/")))).collect();
    assert_eq!(sluice.counts()[0].waiting, 3);
    let refused = Task::new(sluice.admit(&get("/"))).now();
    assert_eq!(refused.verdict(), Verdict::Denied { retry_after: Some(secs(4)) });
    assert!(matches!(refused.reply(), Some(Reply::Redirect { .. })));
    assert_eq!(sluice.decide(&get("/")).verdict(), Verdict::Denied { retry_after: Some(secs(4)) });
    drop(waiters.remove(1));
    let left = run(&clock, &mut waiters);
    let admissions: Vec<_> = left.iter().map(|left| (left.task, left.at, left.output.is_admitted())).collect();
    assert_eq!(admissions, [(0, secs(1), true), (1, secs(2), true)]);
    assert_eq!((sluice.counts()[0].waiting, clock.pending_timers()), (0, 0));
    assert_eq!((sluice.counts()[0].admitted, sluice.counts()[1].admitted), (3, 3));
    let spent = sluice.explain(&get("/")).rules[1].decision.unwrap().status.remaining;
    assert_eq!(spent, 47, "a cancelled waiter took nothing");
}

#[test]
fn a_request_queues_for_several_rules() {
    let clock = ManualClock::new();
    let slow = queued(rule("slow", [bucket("1/3s", 1)]), secs(60), 10);
    let fast = queued(rule("fast", [bucket("1/s", 1)]), secs(60), 10);
    let hard = on("/hard", rule("hard", [bucket("1/h", 1)]));
    let sluice = sluice(&clock, [fast, slow, hard]);
    assert!(Task::new(sluice.admit(&get("/hard"))).now().is_admitted());
    let too_late = Task::new(sluice.admit(&get("/hard"))).now();
    assert_eq!(refused_by(&too_late), Some("hard"));
    let mut waiters: Vec<_> = (0..2).map(|_| waiting(sluice.admit(&get("/")))).collect();
    let left = run(&clock, &mut waiters);
    assert_eq!(left.iter().map(|left| (left.task, left.at)).collect::<Vec<_>>(), [(0, secs(3)), (1, secs(6))]);
    assert!(left.iter().all(|left| left.output.is_admitted()));
}

#[test]
fn admit_waits_out_a_leaky_bucket_and_frees_the_slot_on_drop() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [rule("paced", [leaky("1/s", 4)])]);
    assert!(Task::new(sluice.admit(&get("/"))).now().is_admitted());
    let mut paused: Vec<_> = (0..3).map(|_| waiting(sluice.admit(&get("/")))).collect();
    assert!(!Task::new(sluice.admit(&get("/"))).now().is_admitted(), "one departs, three wait");
    drop(paused.pop());
    paused.push(waiting(sluice.admit(&get("/"))));
    let left = run(&clock, &mut paused);
    let admissions: Vec<_> = left.iter().map(|left| (left.at, left.output.is_admitted())).collect();
    assert_eq!(admissions, [(secs(1), true), (secs(2), true), (secs(3), true)]);
    assert_eq!(clock.pending_timers(), 0);
}

#[test]
fn a_queue_is_bounded_per_key() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [queued(by("client.ip", rule("paced", [bucket("1/s", 1)])), secs(60), 2)]);
    let waiters: Vec<_> = ["10.0.0.1", "10.0.0.2"]
        .into_iter()
        .flat_map(|ip| (0..6).map(move |_| ip))
        .map(|ip| Task::new(sluice.admit(&from(ip))))
        .filter_map(|mut task| task.poll().is_pending().then_some(task))
        .collect();
    assert_eq!((waiters.len(), sluice.counts()[0].waiting), (4, 4));
    assert_eq!(sluice.counts()[0].refused, 6);
}

#[test]
fn a_dropped_outcome_wakes_the_queue() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [queued(rule("inside", [permits(1)]), secs(10), 10)]);
    let permit = sluice.decide(&get("/"));
    let mut waiters = [waiting(sluice.admit(&get("/"))), waiting(sluice.admit(&get("/")))];
    drop(permit);
    let second = waiters[0].poll_if_woken().unwrap();
    assert!(second.is_admitted() && waiters[1].poll_if_woken().is_none());
    clock.advance(secs(10));
    let timed_out = waiters[1].poll_if_woken();
    clock.advance(NANO);
    let timed_out = timed_out.or_else(|| waiters[1].poll_if_woken()).expect("the maximum wait has passed");
    assert_eq!((timed_out.verdict(), refused_by(&timed_out)), (Verdict::Denied { retry_after: None }, Some("inside")));
    drop(second);
    assert!(sluice.decide(&get("/")).is_admitted());
}

#[test]
fn replaced_rules_keep_change_or_lose_their_state() {
    let clock = ManualClock::new();
    let same = by("client.ip", rule("same", [bucket("1/h", 5)]));
    let sluice = sluice(&clock, [same.clone(), rule("changed", [bucket("1/h", 10)]), rule("gone", [bucket("1/h", 2)])]);
    let request = from("10.0.0.1");
    assert_eq!(admitted(&sluice, &request, 9), 2);
    let before = remaining(&sluice, &request);
    let reprioritized = Rule { priority: Priority::Vip, ..same.clone() };
    sluice
        .replace(
            vec![rule("new", [bucket("1/h", 7)]), rule("changed", [bucket("1/h", 20)]), reprioritized],
            Lists::default(),
        )
        .unwrap();
    let after = remaining(&sluice, &request);
    assert_eq!(after[2], before[0], "same name, same key, same limits: the same state");
    assert_eq!(after[1].unwrap().remaining, 8, "the remaining quota is kept");
    assert_eq!(after[0].unwrap().remaining, 7);
    let counts: Vec<_> = sluice.counts().into_iter().map(|rule| (rule.rule, rule.admitted, rule.refused)).collect();
    assert_eq!(counts[1..], [("changed".to_owned(), 2, 0), ("same".to_owned(), 2, 0)]);
    // Removed and added again: fresh state. Another key: separate counts.
    sluice.replace(vec![rule("gone", [bucket("1/h", 2)]), by("path", same)], Lists::default()).unwrap();
    assert_eq!(
        remaining(&sluice, &request).into_iter().map(|status| status.unwrap().remaining).collect::<Vec<_>>(),
        [2, 5]
    );
}

#[test]
fn permits_held_through_a_replacement_are_given_back() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [rule("inside", [permits(2)])]);
    let held = [sluice.decide(&get("/")), sluice.decide(&get("/"))];
    sluice.replace(vec![rule("inside", [permits(3)])], Lists::default()).unwrap();
    let third = sluice.decide(&get("/"));
    assert!(third.is_admitted() && !sluice.decide(&get("/")).is_admitted());
    drop(held);
    drop(third);
    let all: Vec<Outcome> = (0..3).map(|_| sluice.decide(&get("/"))).collect();
    assert!(all.iter().all(Outcome::is_admitted) && !sluice.decide(&get("/")).is_admitted());
}

#[test]
fn an_invalid_rule_set_is_rejected_as_a_whole() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [rule("all", [bucket("1/h", 5)])]);
    assert!(sluice.decide(&get("/")).is_admitted());
    let (rules, before) = (sluice.rules(), remaining(&sluice, &get("/")));
    let tighter = rule("all", [bucket("1/h", 1)]);
    let refused = |bad: Vec<Rule>| {
        let rules = [vec![tighter.clone()], bad].concat();
        sluice.replace(rules, Lists::default()).unwrap_err()
    };
    assert_eq!(refused(vec![rule("all", [])]), RuleSetError::DuplicateName { name: "all".to_owned() });
    assert!(matches!(refused(vec![rule("many", vec![bucket("1/h", 1); 17])]), RuleSetError::Limit { .. }));
    let ban = Ban { after: 0, within: secs(1), duration: secs(1) };
    assert!(matches!(refused(vec![Rule { ban: Some(ban), ..rule("ban", []) }]), RuleSetError::Ban { .. }));
    let forever = Ban { after: 1, within: secs(1), duration: Duration::MAX };
    assert!(matches!(refused(vec![Rule { ban: Some(forever), ..rule("ban", []) }]), RuleSetError::Ban { .. }));
    let path = Target { path: Some("no slash".to_owned()), ..Target::default() };
    assert!(matches!(refused(vec![Rule { target: path, ..rule("path", []) }]), RuleSetError::Target { .. }));
    assert_eq!((sluice.rules(), remaining(&sluice, &get("/"))), (rules, before));
}

#[test]
fn rules_can_be_replaced_under_load_without_a_free_burst() {
    let clock = ManualClock::new();
    let sets =
        [5_000, 9_000].map(|burst| vec![rule("all", [bucket("1/h", burst)]), rule("other", [log(4_000, secs(3_600))])]);
    let sluice = sluice(&clock, sets[0].clone());
    let total: usize = std::thread::scope(|scope| {
        let threads = [0, 1].map(|_| scope.spawn(|| admitted(&sluice, &get("/"), 5_000)));
        for round in 0..200 {
            sluice.replace(sets[round % 2].clone(), Lists::default()).unwrap();
        }
        threads.map(|thread| thread.join().unwrap()).into_iter().sum()
    });
    assert_eq!(total, 4_000);
}

#[test]
fn an_empty_rule_set_admits_everything() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, []);
    let outcome = sluice.decide(&get("/"));
    assert_eq!((outcome.verdict(), outcome.cause(), outcome.decisions().count()), (Verdict::Allowed, Cause::Rules, 0));
    assert_eq!(sluice.bytes(), 0);
}

//! Deciding without queueing, and refunding charges of other callers.

use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, AttributeMap, Cost, Direction, Queue, Request, Rule};
use sluicegate_engine::{Limit, Outcome, Rate, Sluice, Verdict};

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap()
}

/// No rule uses a store here, so the future completes immediately.
fn decide_async(sluice: &Sluice, request: &Request<'_>) -> Outcome {
    sluice.decide_async(request).take().expect("an immediate decision")
}

#[test]
fn decide_async_never_queues() {
    let mut orders = Rule::new("orders", ["1/1m".parse::<Limit>().unwrap()]);
    orders.on_limit.queue = Some(Queue { max_wait: Duration::from_secs(120), max_waiting: 9 });
    let sluice = sluice(&ManualClock::new(), [orders]);
    let request = Request::new("GET", "/");
    assert!(decide_async(&sluice, &request).is_admitted());
    let refused = decide_async(&sluice, &request);
    assert_eq!(refused.verdict(), Verdict::Denied { retry_after: Some(Duration::from_secs(62)) });
    assert!(sluice.admit(&request).take().is_none(), "admit waits");
    assert_eq!(sluice.counts()[0].refused, 1);
    assert!(sluice.rule("others").is_none());
}

#[test]
fn decide_async_returns_the_wait_without_waiting() {
    let paced = Rule::new("paced", [Limit::leaky_bucket(Rate::per_second(1).unwrap(), 3).unwrap()]);
    let sluice = sluice(&ManualClock::new(), [paced]);
    let request = Request::new("GET", "/");
    assert_eq!(decide_async(&sluice, &request).verdict(), Verdict::Allowed);
    let paused = sluice.rule("paced").unwrap().decide_async(&request).take().unwrap();
    assert_eq!(paused.verdict(), Verdict::Wait(Duration::from_secs(1)));
}

#[test]
fn request_rules_do_not_match_descriptors() {
    let total = Rule::new("total", ["1/1m".parse::<Limit>().unwrap()]);
    let mut described = Rule::new("described", ["1/1m".parse::<Limit>().unwrap()]);
    described.direction = Direction::Descriptor;
    described.key = vec![Attribute::Descriptor("remote_address".to_owned()).into()];
    let sluice = sluice(&ManualClock::new(), [total, described]);
    let entries = AttributeMap::new().with(Attribute::Descriptor("remote_address".to_owned()), "10.0.0.1");
    let descriptor = Request::new("", "").with_direction(Direction::Descriptor).with_attributes(&entries);
    assert!(decide_async(&sluice, &descriptor).is_admitted());
    let refused = decide_async(&sluice, &descriptor);
    assert_eq!(refused.rule().unwrap().name, "described");
    assert!(decide_async(&sluice, &Request::new("GET", "/")).is_admitted(), "nothing was charged");
}

#[test]
fn refunds_never_exceed_what_was_taken() {
    let minute = Duration::from_secs(60);
    for limit in [
        Limit::fixed_window(10, minute, Alignment::Epoch),
        Limit::token_bucket(Rate::new(10, minute).unwrap(), 10),
        Limit::sliding_window(10, minute, 10),
        Limit::interpolated_window(10, minute),
        Limit::sliding_log(10, minute),
    ] {
        let (limit, clock) = (limit.unwrap(), ManualClock::new());
        let mut rule = Rule::new("rule", [limit]);
        rule.key = vec![Attribute::custom("account").into()];
        let sluice = sluice(&clock, [rule]);
        let account = AttributeMap::new().with(Attribute::custom("account"), "alice");
        let request = Request::new("", "").with_attributes(&account);
        let left = || {
            let peeked = decide_async(&sluice, &request.with_cost(0));
            peeked.decisions().next().unwrap().1.decision.status.remaining
        };
        assert!(decide_async(&sluice, &request.with_cost(8)).is_admitted());
        assert_eq!(left(), 2);
        let mut peeked = decide_async(&sluice, &request.with_cost(0));
        peeked.refund(3);
        assert_eq!(peeked.decisions().next().unwrap().1.decision.status.remaining, 5, "the current remaining amount");
        assert_eq!(left(), 5);
        decide_async(&sluice, &request.with_cost(0)).refund(u64::MAX);
        assert_eq!(left(), 10, "not more than the limit");
        assert!(!decide_async(&sluice, &request.with_cost(11)).is_admitted());
        assert!(decide_async(&sluice, &request.with_cost(10)).is_admitted());
        assert!(!decide_async(&sluice, &request).is_admitted());
    }
}

fn remaining(sluice: &Sluice) -> u64 {
    let peeked = decide_async(sluice, &Request::new("GET", "/").with_cost(0));
    peeked.decisions().next().unwrap().1.decision.status.remaining
}

fn take(sluice: &Sluice, cost: u64) -> bool {
    decide_async(sluice, &Request::new("GET", "/").with_cost(cost)).is_admitted()
}

fn refund(sluice: &Sluice, amount: u64) {
    decide_async(sluice, &Request::new("GET", "/").with_cost(0)).refund(amount);
}

/// The time of the charge is unknown. If the newest units were refunded, the older ones would soon expire as
/// well, and more than the limit could pass in one window.
#[test]
fn refunds_free_the_shortest_lived_units_first() {
    let minute = Duration::from_secs(60);
    for (limit, elapsed) in [
        (Limit::sliding_log(10, minute).unwrap(), Duration::from_secs(60)),
        (Limit::sliding_window(10, minute, 10).unwrap(), Duration::from_secs(66)),
    ] {
        let clock = ManualClock::new();
        let sluice = sluice(&clock, [Rule::new("rule", [limit])]);
        // Start of a cell.
        clock.advance(minute * 10);
        assert!(take(&sluice, 5));
        clock.advance(minute / 2);
        assert!(take(&sluice, 5));
        refund(&sluice, 6);
        assert_eq!(remaining(&sluice), 6, "although it was charged earlier: {limit:?}");
        clock.advance(elapsed - minute / 2);
        assert_eq!(remaining(&sluice), 6, "older units are not freed twice: {limit:?}");
        clock.advance(minute / 2);
        assert_eq!(remaining(&sluice), 10, "{limit:?}");
    }
}

/// The log has no entries for charges beyond its limit, and the refund may belong to those.
#[test]
fn an_overdrawn_log_ignores_refunds() {
    let clock = ManualClock::new();
    let log = Limit::sliding_log(10, Duration::from_secs(60)).unwrap();
    let sluice = sluice(&clock, [Rule { cost: Cost::estimate(1), ..Rule::new("log", [log]) }]);
    decide_async(&sluice, &Request::new("GET", "/")).settle(15);
    refund(&sluice, 3);
    assert_eq!(remaining(&sluice), 0);
    clock.advance(Duration::from_secs(61));
    assert_eq!(remaining(&sluice), 10);
    assert!(take(&sluice, 1));
    refund(&sluice, 1);
    assert_eq!(remaining(&sluice), 10, "a debt ends with its window");
}

#[test]
fn pacing_limits_ignore_refunds() {
    let rate = Rate::per_second(1).unwrap();
    let paced = Limit::leaky_bucket(rate, 5).unwrap();
    let warm = Limit::warm_up(rate, Duration::from_secs(10), 3).unwrap();
    for (limit, left_then) in [(paced, 3), (warm, 0)] {
        let sluice = sluice(&ManualClock::new(), [Rule::new("rule", [limit])]);
        assert!(take(&sluice, 2));
        refund(&sluice, 2);
        assert_eq!(remaining(&sluice), left_then, "the next admission would be too early: {limit:?}");
    }
}

/// Bug: a zero-cost read was charged the rule's reservation or attribute cost.
#[test]
fn a_peek_takes_nothing_whatever_the_cost() {
    let units = Attribute::custom("units");
    for cost in [Cost::Fixed(3), Cost::estimate(3), Cost::Attribute(units.clone())] {
        let limit: Limit = "10/1m".parse().unwrap();
        let sluice = sluice(&ManualClock::new(), [Rule { cost: cost.clone(), ..Rule::new("rule", [limit]) }]);
        let attributes = AttributeMap::new().with(units.clone(), "3");
        let request = Request::new("GET", "/").with_attributes(&attributes);
        let left = |cost| {
            let outcome = decide_async(&sluice, &request.with_cost(cost));
            outcome.decisions().next().unwrap().1.decision.status.remaining
        };
        assert_eq!((left(0), left(0), left(1), left(0)), (10, 10, 7, 7), "{cost:?}");
    }
}

/// A refund is multiplied by the rule's cost, or taken from the reserved estimate.
#[test]
fn refunds_use_the_cost_of_the_rule() {
    for (cost, expected) in
        [(Cost::Fixed(3), 10), (Cost::estimate(3), 8), (Cost::Attribute(Attribute::custom("u")), 10)]
    {
        for limit in ["10/1m".parse().unwrap(), Limit::token_bucket(Rate::per_minute(1).unwrap(), 10).unwrap()] {
            let sluice = sluice(&ManualClock::new(), [Rule { cost: cost.clone(), ..Rule::new("rule", [limit]) }]);
            assert!(take(&sluice, 1));
            refund(&sluice, 1);
            assert_eq!(remaining(&sluice), expected, "{cost:?} {limit:?}");
        }
    }
}

/// Open reservations stay reserved; an earlier charge is refunded anyway.
#[test]
fn an_open_reservation_does_not_block_refunds() {
    let bucket = Limit::token_bucket(Rate::per_minute(1).unwrap(), 10).unwrap();
    let sluice = sluice(&ManualClock::new(), [Rule { cost: Cost::estimate(4), ..Rule::new("bucket", [bucket]) }]);
    drop(decide_async(&sluice, &Request::new("GET", "/")));
    let out = decide_async(&sluice, &Request::new("GET", "/"));
    assert_eq!(remaining(&sluice), 2);
    refund(&sluice, 3);
    assert_eq!(remaining(&sluice), 5);
    refund(&sluice, u64::MAX);
    assert_eq!(remaining(&sluice), 6, "all except the outstanding reservation");
    out.settle(1);
    assert_eq!(remaining(&sluice), 9);
}

//! Asking without waiting, and giving back what was taken by somebody else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, AttributeMap, Cost, Queue, Request, Rule, Side};
use sluicegate_engine::{Limit, Outcome, Rate, Sluice, Verdict};

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap()
}

/// Nothing here is counted in a store: every answer is there at once.
fn ask(sluice: &Sluice, request: &Request<'_>) -> Outcome {
    sluice.ask(request).take().expect("an answer at once")
}

#[test]
fn who_asks_does_not_stand_in_line() {
    let mut orders = Rule::new("orders", ["1/1m".parse::<Limit>().unwrap()]);
    orders.on_limit.queue = Some(Queue { max_wait: Duration::from_secs(120), max_waiting: 9 });
    let sluice = sluice(&ManualClock::new(), [orders]);
    let request = Request::new("GET", "/");
    assert!(ask(&sluice, &request).is_admitted());
    let refused = ask(&sluice, &request);
    assert_eq!(refused.verdict(), Verdict::Denied { retry_after: Some(Duration::from_secs(62)) });
    assert!(sluice.admit(&request).take().is_none(), "who wants to be admitted waits");
    assert_eq!(sluice.counts()[0].refused, 1);
    assert!(sluice.ask_named("others", &request).is_none());
}

#[test]
fn who_asks_is_told_of_a_pause_and_does_not_sit_it_out() {
    let paced = Rule::new("paced", [Limit::leaky_bucket(Rate::per_second(1).unwrap(), 3).unwrap()]);
    let sluice = sluice(&ManualClock::new(), [paced]);
    let request = Request::new("GET", "/");
    assert_eq!(ask(&sluice, &request).verdict(), Verdict::Allowed);
    let paused = sluice.ask_named("paced", &request).unwrap().take().unwrap();
    assert_eq!(paused.verdict(), Verdict::Wait(Duration::from_secs(1)));
}

#[test]
fn rules_for_requests_do_not_see_descriptors() {
    let total = Rule::new("total", ["1/1m".parse::<Limit>().unwrap()]);
    let mut described = Rule::new("described", ["1/1m".parse::<Limit>().unwrap()]);
    described.side = Side::Descriptor;
    described.key = vec![Attribute::Descriptor("remote_address".to_owned()).into()];
    let sluice = sluice(&ManualClock::new(), [total, described]);
    let entries = AttributeMap::new().with(Attribute::Descriptor("remote_address".to_owned()), "10.0.0.1");
    let descriptor = Request::new("", "").with_side(Side::Descriptor).with_attributes(&entries);
    assert!(ask(&sluice, &descriptor).is_admitted());
    let refused = ask(&sluice, &descriptor);
    assert_eq!(refused.rule().unwrap().name, "described");
    assert!(ask(&sluice, &Request::new("GET", "/")).is_admitted(), "nothing was taken from it");
}

#[test]
fn what_somebody_took_can_be_given_back_and_never_more() {
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
            let look = ask(&sluice, &request.with_cost(0));
            look.decisions().next().unwrap().1.decision.status.remaining
        };
        assert!(ask(&sluice, &request.with_cost(8)).is_admitted());
        assert_eq!(left(), 2);
        let mut look = ask(&sluice, &request.with_cost(0));
        look.refund(3);
        assert_eq!(look.decisions().next().unwrap().1.decision.status.remaining, 5, "what is left now");
        assert_eq!(left(), 5);
        ask(&sluice, &request.with_cost(0)).refund(u64::MAX);
        assert_eq!(left(), 10, "not more than the limit");
        assert!(!ask(&sluice, &request.with_cost(11)).is_admitted());
        assert!(ask(&sluice, &request.with_cost(10)).is_admitted());
        assert!(!ask(&sluice, &request).is_admitted());
    }
}

fn left(sluice: &Sluice) -> u64 {
    let look = ask(sluice, &Request::new("GET", "/").with_cost(0));
    look.decisions().next().unwrap().1.decision.status.remaining
}

fn take(sluice: &Sluice, cost: u64) -> bool {
    ask(sluice, &Request::new("GET", "/").with_cost(cost)).is_admitted()
}

fn refund(sluice: &Sluice, amount: u64) {
    ask(sluice, &Request::new("GET", "/").with_cost(0)).refund(amount);
}

/// Nobody says when it was taken. Were the newest to go, the older ones would soon be free as well, and more could be
/// had in one window than the limit.
#[test]
fn what_counts_the_shortest_is_given_back_first() {
    let minute = Duration::from_secs(60);
    for (limit, gone) in [
        (Limit::sliding_log(10, minute).unwrap(), Duration::from_secs(60)),
        (Limit::sliding_window(10, minute, 10).unwrap(), Duration::from_secs(66)),
    ] {
        let clock = ManualClock::new();
        let sluice = sluice(&clock, [Rule::new("rule", [limit])]);
        // Where a cell begins.
        clock.advance(minute * 10);
        assert!(take(&sluice, 5));
        clock.advance(minute / 2);
        assert!(take(&sluice, 5));
        refund(&sluice, 6);
        assert_eq!(left(&sluice), 6, "though it was taken a while ago: {limit:?}");
        clock.advance(gone - minute / 2);
        assert_eq!(left(&sluice), 6, "the older ones are not there to be freed once more: {limit:?}");
        clock.advance(minute / 2);
        assert_eq!(left(&sluice), 10, "{limit:?}");
    }
}

/// The log has no entries for what was charged beyond its limit: what comes back might be that.
#[test]
fn an_overdrawn_log_keeps_what_is_given_back() {
    let clock = ManualClock::new();
    let log = Limit::sliding_log(10, Duration::from_secs(60)).unwrap();
    let sluice = sluice(&clock, [Rule { cost: Cost::estimate(1), ..Rule::new("log", [log]) }]);
    ask(&sluice, &Request::new("GET", "/")).settle(15);
    refund(&sluice, 3);
    assert_eq!(left(&sluice), 0);
    clock.advance(Duration::from_secs(61));
    assert_eq!(left(&sluice), 10);
    assert!(take(&sluice, 1));
    refund(&sluice, 1);
    assert_eq!(left(&sluice), 10, "a debt is over with its window");
}

#[test]
fn what_paces_keeps_what_is_given_back() {
    let rate = Rate::per_second(1).unwrap();
    let paced = Limit::leaky_bucket(rate, 5).unwrap();
    let warm = Limit::warm_up(rate, Duration::from_secs(10), 3).unwrap();
    for (limit, left_then) in [(paced, 3), (warm, 0)] {
        let sluice = sluice(&ManualClock::new(), [Rule::new("rule", [limit])]);
        assert!(take(&sluice, 2));
        refund(&sluice, 2);
        assert_eq!(left(&sluice), left_then, "the next would come too soon after: {limit:?}");
    }
}

/// A look spent what a rule reserves for a request or is told that it costs.
#[test]
fn looking_takes_nothing_whatever_a_request_costs() {
    let units = Attribute::custom("units");
    for cost in [Cost::Fixed(3), Cost::estimate(3), Cost::Attribute(units.clone())] {
        let limit: Limit = "10/1m".parse().unwrap();
        let sluice = sluice(&ManualClock::new(), [Rule { cost: cost.clone(), ..Rule::new("rule", [limit]) }]);
        let told = AttributeMap::new().with(units.clone(), "3");
        let request = Request::new("GET", "/").with_attributes(&told);
        let left = |cost| {
            let outcome = ask(&sluice, &request.with_cost(cost));
            outcome.decisions().next().unwrap().1.decision.status.remaining
        };
        assert_eq!((left(0), left(0), left(1), left(0)), (10, 10, 7, 7), "{cost:?}");
    }
}

/// So many times what a request costs, or what is left of an estimate.
#[test]
fn what_is_given_back_is_counted_as_it_was_spent() {
    for (cost, expected) in
        [(Cost::Fixed(3), 10), (Cost::estimate(3), 8), (Cost::Attribute(Attribute::custom("u")), 10)]
    {
        for limit in ["10/1m".parse().unwrap(), Limit::token_bucket(Rate::per_minute(1).unwrap(), 10).unwrap()] {
            let sluice = sluice(&ManualClock::new(), [Rule { cost: cost.clone(), ..Rule::new("rule", [limit]) }]);
            assert!(take(&sluice, 1));
            refund(&sluice, 1);
            assert_eq!(left(&sluice), expected, "{cost:?} {limit:?}");
        }
    }
}

/// What others have reserved is still theirs; what somebody took before comes back all the same.
#[test]
fn a_reservation_that_is_out_keeps_nobody_from_giving_back() {
    let bucket = Limit::token_bucket(Rate::per_minute(1).unwrap(), 10).unwrap();
    let sluice = sluice(&ManualClock::new(), [Rule { cost: Cost::estimate(4), ..Rule::new("bucket", [bucket]) }]);
    drop(ask(&sluice, &Request::new("GET", "/")));
    let out = ask(&sluice, &Request::new("GET", "/"));
    assert_eq!(left(&sluice), 2);
    refund(&sluice, 3);
    assert_eq!(left(&sluice), 5);
    refund(&sluice, u64::MAX);
    assert_eq!(left(&sluice), 6, "all but what is out");
    out.settle(1);
    assert_eq!(left(&sluice), 9);
}

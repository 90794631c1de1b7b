//! Asking without waiting, and giving back what was taken by somebody else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, AttributeMap, Queue, Request, Rule, Side};
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
    for limit in ["fixed_window", "token_bucket", "sliding_window"] {
        let (rate, clock) = (Rate::new(10, Duration::from_secs(60)).unwrap(), ManualClock::new());
        let limit = match limit {
            "fixed_window" => Limit::fixed_window(10, Duration::from_secs(60), Alignment::Epoch).unwrap(),
            "token_bucket" => Limit::token_bucket(rate, 10).unwrap(),
            _ => Limit::sliding_window(10, Duration::from_secs(60), 10).unwrap(),
        };
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

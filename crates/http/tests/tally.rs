//! Estimates settled to what passed: bytes, headers, fields; and kept where nothing can be known.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use http::HeaderMap;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Actual, Cost, Request, Rule};
use sluicegate_engine::{Limit, Rate, Sluice};
use sluicegate_http::Tally;

const RESERVE: u64 = 100;

fn rule(name: &str, cost: Cost) -> Rule {
    Rule { cost, ..Rule::new(name, [Limit::token_bucket(Rate::per_second(1).unwrap(), 100_000).unwrap()]) }
}

fn sources() -> [Actual; 5] {
    let path = ["usage", "total"].map(str::to_owned).to_vec();
    [
        Actual::Told,
        Actual::RequestBytes,
        Actual::ResponseBytes,
        Actual::ResponseHeader("X-Tokens".to_owned()),
        Actual::ResponseJson(path),
    ]
}

/// What rules of all sources, and one of a fixed cost, are charged for a request that this happens to.
fn charged(happens: impl FnOnce(&mut Tally)) -> [u64; 6] {
    let estimating = sources().map(|actual| Cost::Estimate { reserve: RESERVE, actual });
    let costs = estimating.into_iter().chain([Cost::Fixed(1)]);
    let rules = costs.enumerate().map(|(nth, cost)| rule(&nth.to_string(), cost));
    let sluice = Sluice::builder().rules(rules).clock(ManualClock::new()).build().unwrap();
    let outcome = sluice.decide(&Request::new("POST", "/"));
    let mut tally = Tally::of(&outcome).unwrap();
    happens(&mut tally);
    tally.settle(outcome);
    let after = sluice.explain(&Request::new("POST", "/"));
    let left: Vec<u64> = after.rules.iter().map(|it| it.decision.unwrap().status.remaining).collect();
    left.into_iter().map(|left| 100_000 - left).collect::<Vec<_>>().try_into().unwrap()
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

#[test]
fn each_rule_is_charged_what_its_source_says() {
    let charged = charged(|tally| {
        tally.sent(0);
        tally.sent(7);
        tally.sent(8);
        tally.answered(&headers(&[("x-tokens", " 41.5 "), ("content-type", "application/json")]));
        tally.received(br#"{"usage":{"to"#);
        tally.received(br#"tal":321}}"#);
        tally.told(5);
    });
    assert_eq!(charged, [5, 15, 23, 42, 321, 1]);
}

#[test]
fn what_nobody_has_seen_stays_reserved() {
    assert_eq!(charged(|_| {}), [100, 100, 100, 100, 100, 1]);
    assert_eq!(charged(|tally| tally.sent(0)), [100, 0, 100, 100, 100, 1]);
    assert_eq!(charged(|tally| tally.answered(&HeaderMap::new())), [100, 100, 0, 100, 100, 1]);
    let nonsense = headers(&[("x-tokens", "many")]);
    let charged = charged(|tally| {
        tally.answered(&nonsense);
        tally.received(b"no json");
    });
    assert_eq!(charged, [100, 100, 7, 100, 100, 1]);
}

#[test]
fn a_compressed_answer_is_counted_but_not_read() {
    let body = br#"{"usage":{"total":321}}"#;
    for (encoding, cost) in [("identity", 321), (" Identity", 321), ("gzip", 100), ("identity, br", 100), ("", 100)] {
        let charged = charged(|tally| {
            tally.answered(&headers(&[("content-encoding", encoding)]));
            tally.received(body);
        });
        assert_eq!((charged[2], charged[4]), (23, cost), "{encoding:?}");
    }
}

#[test]
fn a_stream_of_events_is_read_to_its_last() {
    let kind = headers(&[("content-type", "Text/Event-Stream; charset=utf-8")]);
    let charged = charged(|tally| {
        tally.answered(&kind);
        for piece in
            ["data: {\"usage\":{\"total\":1}}\n", "\ndata: {\"us", "age\":{\"total\":77}}\n\n", "data: [DONE]\n\n"]
        {
            tally.received(piece.as_bytes());
        }
    });
    assert_eq!(charged[4], 77);
}

#[test]
fn an_answer_that_is_cut_off_costs_what_has_passed() {
    let charged = charged(|tally| {
        tally.answered(&HeaderMap::new());
        tally.received(br#"{"usage":{"total":32"#);
    });
    assert_eq!((charged[2], charged[4]), (20, 100));
}

#[test]
fn nobody_counts_for_rules_that_are_told_or_refuse() {
    let sluice = |cost| Sluice::builder().rule(rule("one", cost)).clock(ManualClock::new()).build().unwrap();
    let request = Request::new("POST", "/");
    for cost in [Cost::Fixed(1), Cost::estimate(5)] {
        assert!(Tally::of(&sluice(cost).decide(&request)).is_none());
    }
    let counted = |reserve| sluice(Cost::Estimate { reserve, actual: Actual::RequestBytes });
    assert!(Tally::of(&counted(1).decide(&request)).is_some());
    assert!(Tally::of(&counted(1 << 40).decide(&request)).is_none(), "refused: there is nothing to settle");
}

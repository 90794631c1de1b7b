//! Settlement of estimated costs by bytes, headers and JSON fields; unknown costs stay reserved.

use http::HeaderMap;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Cost, CostSource, Request, Rule};
use sluicegate_engine::{Limit, Rate, Sluice};
use sluicegate_http_adapter::CostMeter;

const RESERVE: u64 = 100;

fn rule(name: &str, cost: Cost) -> Rule {
    Rule { cost, ..Rule::new(name, [Limit::token_bucket(Rate::per_second(1).unwrap(), 100_000).unwrap()]) }
}

fn sources() -> [CostSource; 5] {
    let path = ["usage", "total"].map(str::to_owned).to_vec();
    [
        CostSource::Reported,
        CostSource::RequestBytes,
        CostSource::ResponseBytes,
        CostSource::ResponseHeader("X-Tokens".to_owned()),
        CostSource::ResponseJson(path),
    ]
}

/// Costs charged to rules of every cost source, and one with a fixed cost, after `record`.
fn charges(record: impl FnOnce(&mut CostMeter)) -> [u64; 6] {
    let estimating = sources().map(|actual| Cost::Estimate { reserve: RESERVE, actual });
    let costs = estimating.into_iter().chain([Cost::Fixed(1)]);
    let rules = costs.enumerate().map(|(nth, cost)| rule(&nth.to_string(), cost));
    let sluice = Sluice::builder().rules(rules).clock(ManualClock::new()).build().unwrap();
    let outcome = sluice.decide(&Request::new("POST", "/"));
    let mut meter = CostMeter::for_outcome(&outcome).unwrap();
    record(&mut meter);
    meter.settle(outcome);
    let after = sluice.explain(&Request::new("POST", "/"));
    let left: Vec<u64> = after.rules.iter().map(|it| it.decision.unwrap().status.remaining).collect();
    left.into_iter().map(|left| 100_000 - left).collect::<Vec<_>>().try_into().unwrap()
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

#[test]
fn each_rule_is_charged_by_its_cost_source() {
    let charged = charges(|meter| {
        meter.add_request_bytes(0);
        meter.add_request_bytes(7);
        meter.add_request_bytes(8);
        meter.response_head(&headers(&[("x-tokens", " 41.5 "), ("content-type", "application/json")]));
        meter.response_data(br#"{"usage":{"to"#);
        meter.response_data(br#"tal":321}}"#);
        meter.set_reported(5);
    });
    assert_eq!(charged, [5, 15, 23, 42, 321, 1]);
}

#[test]
fn unknown_costs_stay_reserved() {
    assert_eq!(charges(|_| {}), [100, 100, 100, 100, 100, 1]);
    assert_eq!(charges(|meter| meter.add_request_bytes(0)), [100, 0, 100, 100, 100, 1]);
    assert_eq!(charges(|meter| meter.response_head(&HeaderMap::new())), [100, 100, 0, 100, 100, 1]);
    let nonsense = headers(&[("x-tokens", "many")]);
    let charged = charges(|meter| {
        meter.response_head(&nonsense);
        meter.response_data(b"no json");
    });
    assert_eq!(charged, [100, 100, 7, 100, 100, 1]);
}

#[test]
fn a_compressed_response_is_counted_but_not_parsed() {
    let body = br#"{"usage":{"total":321}}"#;
    for (encoding, cost) in [("identity", 321), (" Identity", 321), ("gzip", 100), ("identity, br", 100), ("", 100)] {
        let charged = charges(|meter| {
            meter.response_head(&headers(&[("content-encoding", encoding)]));
            meter.response_data(body);
        });
        assert_eq!((charged[2], charged[4]), (23, cost), "{encoding:?}");
    }
}

#[test]
fn an_event_stream_is_read_to_its_end() {
    let kind = headers(&[("content-type", "Text/Event-Stream; charset=utf-8")]);
    let charged = charges(|meter| {
        meter.response_head(&kind);
        for piece in
            ["data: {\"usage\":{\"total\":1}}\n", "\ndata: {\"us", "age\":{\"total\":77}}\n\n", "data: [DONE]\n\n"]
        {
            meter.response_data(piece.as_bytes());
        }
    });
    assert_eq!(charged[4], 77);
}

#[test]
fn a_truncated_response_costs_the_bytes_sent() {
    let charged = charges(|meter| {
        meter.response_head(&HeaderMap::new());
        meter.response_data(br#"{"usage":{"total":32"#);
    });
    assert_eq!((charged[2], charged[4]), (20, 100));
}

#[test]
fn reported_costs_and_refused_requests_need_no_meter() {
    let sluice = |cost| Sluice::builder().rule(rule("one", cost)).clock(ManualClock::new()).build().unwrap();
    let request = Request::new("POST", "/");
    for cost in [Cost::Fixed(1), Cost::estimate(5)] {
        assert!(CostMeter::for_outcome(&sluice(cost).decide(&request)).is_none());
    }
    let counted = |reserve| sluice(Cost::Estimate { reserve, actual: CostSource::RequestBytes });
    assert!(CostMeter::for_outcome(&counted(1).decide(&request)).is_some());
    assert!(
        CostMeter::for_outcome(&counted(1 << 40).decide(&request)).is_none(),
        "refused: there is nothing to settle"
    );
}

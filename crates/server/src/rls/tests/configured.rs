//! Decisions by the reference's files.

use std::time::Duration;

use serde_json::json;
use sluicegate_http::HeaderStyle;

use super::support::{Setup, codes, descriptor, header, headers, metadata, request, serve_file};
use crate::rls::proto::{Code, RateLimitDescriptor, RateLimitResponse, Unit};

const FILE: &str = "
domain: edge
descriptors:
- key: path
  rate_limit: {unit: minute, requests_per_unit: 2, name: per-path}
- key: path
  value: /open
  rate_limit: {unlimited: true}
- key: path
  value: /closed
  rate_limit: {unit: hour, requests_per_unit: 0}
- key: path
  value: /watched
  rate_limit: {unit: week, requests_per_unit: 1}
  shadow_mode: true
- key: path
  value: /watched-zero
  rate_limit: {unit: hour, requests_per_unit: 0}
  shadow_mode: true
- key: account
  descriptors:
  - key: path
    rate_limit: {unit: day, requests_per_unit: 5, name: per-account}
- key: special
  rate_limit:
    unit: second
    requests_per_unit: 100
    replaces: [{name: per-path}]
";

fn path(path: &str) -> RateLimitDescriptor {
    descriptor(&[("path", path)])
}

#[tokio::test]
async fn a_limit_counts_each_value_apart() {
    let served = serve_file(FILE).await;
    assert_eq!(served.once(path("/a")).await, (Code::Ok, 1));
    assert_eq!(served.once(path("/a")).await, (Code::Ok, 0));
    assert_eq!(served.once(path("/a")).await, (Code::OverLimit, 0));
    assert_eq!(served.once(path("/b")).await, (Code::Ok, 1));
    served.clock.advance(Duration::from_secs(60));
    assert_eq!(served.once(path("/a")).await, (Code::Ok, 1));
}

#[tokio::test]
async fn statuses_tell_of_their_limits() {
    let served = serve_file(FILE).await;
    let descriptors = [
        path("/a"),
        path("/open"),
        descriptor(&[("unknown", "x")]),
        descriptor(&[("account", "alice"), ("path", "/a")]),
        descriptor(&[("account", "alice")]),
    ];
    let response = served.ask(request("edge", descriptors)).await;
    assert_eq!(response.overall_code(), Code::Ok);
    let told: Vec<_> = response
        .statuses
        .iter()
        .map(|status| {
            let limit = status.current_limit.as_ref();
            let limit = limit.map(|limit| (limit.name.as_str(), limit.requests_per_unit, limit.unit()));
            (limit, status.limit_remaining, status.duration_until_reset.is_some())
        })
        .collect();
    let expected = [
        (Some(("per-path", 2, Unit::Minute)), 1, true),
        (None, u32::MAX, false),
        (None, 0, false),
        (Some(("per-account", 5, Unit::Day)), 4, true),
        (None, 0, false),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn zero_requests_block() {
    let served = serve_file(FILE).await;
    let response = served.ask(request("edge", [path("/closed"), path("/a")])).await;
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(codes(&response), [Code::OverLimit, Code::Ok]);
    assert_eq!(response.statuses[0].current_limit.as_ref().map(|limit| limit.requests_per_unit), Some(0));
    assert_eq!(metadata(&response)["verdict"], "never");
    // What the other one took went back.
    assert_eq!(served.once(path("/a")).await, (Code::Ok, 1));
}

#[tokio::test]
async fn a_watched_limit_counts_and_admits() {
    let served = serve_file(FILE).await;
    for left in [0, 0, 0] {
        let response = served.ask(request("edge", [path("/watched")])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok]));
        let status = &response.statuses[0];
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit(), status.limit_remaining), (1, Unit::Week, left));
        assert_eq!(header(&response, "retry-after"), None);
    }
    let watched = served.sluice.counts();
    assert_eq!(watched.iter().map(|counts| counts.refused).sum::<u64>(), 2);
}

/// It refused everything, as if nothing were said of watching.
#[tokio::test]
async fn a_watched_limit_of_zero_admits() {
    let served = serve_file(FILE).await;
    for hits in [1, 0, 7] {
        let descriptor = RateLimitDescriptor { hits_addend: Some(hits), ..path("/watched-zero") };
        let response = served.ask(request("edge", [descriptor])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok]));
        let limit = response.statuses[0].current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (0, Unit::Hour));
    }
    let [counts] = &served.rls.zero_limits()[..] else { panic!("one limit was asked") };
    assert_eq!((counts.limit.as_deref(), counts.refused), (Some("edge.path_/watched-zero"), 0));
    assert_eq!((counts.admitted, counts.would_refuse), (0, 3));
}

/// Whoever looks is told that nothing passes. Hits that come back are none of its business: they refuse nothing.
#[tokio::test]
async fn zero_is_over_for_who_looks_and_not_for_who_gives_back() {
    let served = serve_file(FILE).await;
    let closed =
        |hits, is_negative_hits| RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..path("/closed") };
    assert_eq!(served.once(closed(0, false)).await, (Code::OverLimit, 0));
    assert_eq!(served.once(closed(2, true)).await, (Code::Ok, 0));
    assert_eq!(served.once(closed(0, true)).await, (Code::Ok, 0));
}

/// The whole was refused for hits that came back to a limit of zero, and the others' had gone back by then.
#[tokio::test]
async fn hits_come_back_from_admitted_requests_alone() {
    let served = serve_file(FILE).await;
    let with =
        |name, hits, is_negative_hits| RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..path(name) };
    assert_eq!(served.once(with("/a", 2, false)).await, (Code::Ok, 0));
    let response = served.ask(request("edge", [with("/a", 1, true), with("/closed", 1, true)])).await;
    assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok, Code::Ok]));
    assert_eq!(response.statuses[0].limit_remaining, 1);
    for hits in [0, 1] {
        let descriptors = [with("/a", 1, true), with("/closed", 1, true), with("/closed", hits, false)];
        let response = served.ask(request("edge", descriptors)).await;
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(codes(&response), [Code::Ok, Code::Ok, Code::OverLimit]);
        assert_eq!(served.once(with("/a", 0, false)).await, (Code::Ok, 1));
    }
}

#[tokio::test]
async fn a_limit_that_is_replaced_does_not_count() {
    let served = serve_file(FILE).await;
    let special = || descriptor(&[("special", "x")]);
    for _ in 0..5 {
        let response = served.ask(request("edge", [path("/a"), special()])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok, Code::Ok]));
        assert_eq!(response.statuses[0].current_limit, None);
        assert!(response.statuses[1].current_limit.is_some());
    }
    assert_eq!(served.once(path("/a")).await, (Code::Ok, 1));
}

#[tokio::test]
async fn other_domains_are_not_theirs() {
    let served = serve_file(FILE).await;
    for _ in 0..4 {
        let response = served.ask(request("elsewhere", [path("/a")])).await;
        assert_eq!((response.overall_code(), &response.statuses[0].current_limit), (Code::Ok, &None));
    }
}

#[tokio::test]
async fn hits_are_looked_at_and_spent() {
    let served = serve_file(FILE).await;
    let hits = |hits| RateLimitDescriptor { hits_addend: Some(hits), ..path("/a") };
    assert_eq!(served.once(hits(0)).await, (Code::Ok, 2));
    assert_eq!(served.once(hits(3)).await, (Code::OverLimit, 2));
    assert_eq!(served.once(hits(2)).await, (Code::Ok, 0));
    assert_eq!(served.once(hits(0)).await, (Code::Ok, 0));
    let back = |hits| RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits: true, ..path("/a") };
    assert_eq!(served.once(back(1)).await, (Code::Ok, 1));
    assert_eq!(served.once(back(9)).await, (Code::Ok, 2));
}

#[tokio::test]
async fn clients_are_told_what_is_left() {
    let served = Setup { file: Some(FILE), style: HeaderStyle::X, ..Setup::default() }.serve().await;
    let response = served.ask(request("edge", [path("/a")])).await;
    assert_eq!(header(&response, "x-ratelimit-limit"), Some("2"));
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("1"));
}

/// A limit of zero has no rule to tell of it, and was not told of at all. Nothing resets it.
#[tokio::test]
async fn clients_are_told_of_zero() {
    for (style, expected) in [
        (HeaderStyle::Legacy, vec![("ratelimit-limit", "0"), ("ratelimit-remaining", "0")]),
        (HeaderStyle::X, vec![("x-ratelimit-limit", "0"), ("x-ratelimit-remaining", "0")]),
        (
            HeaderStyle::Ietf,
            vec![("ratelimit-policy", "\"edge.path_/closed\";q=0;w=3600"), ("ratelimit", "\"edge.path_/closed\";r=0")],
        ),
        (HeaderStyle::None, vec![]),
    ] {
        let served = Setup { file: Some(FILE), style, ..Setup::default() }.serve().await;
        let response = served.ask(request("edge", [path("/closed")])).await;
        assert_eq!(headers(&response), expected);
    }
}

/// What only watches is not told of, and does not hide what is.
#[tokio::test]
async fn clients_are_told_of_what_acts() {
    let served = Setup { file: Some(FILE), style: HeaderStyle::X, ..Setup::default() }.serve().await;
    for watched in ["/watched-zero", "/watched"] {
        let alone = served.ask(request("edge", [path(watched)])).await;
        assert_eq!(headers(&alone), []);
        let beside = served.ask(request("edge", [path(watched), path(&format!("{watched}-beside"))])).await;
        assert_eq!(header(&beside, "x-ratelimit-remaining"), Some("1"), "{watched}");
    }
}

const QUOTAS: &str = "
domain: edge
descriptors:
- key: tenant
  quota_mode: true
  rate_limit: {unit: minute, requests_per_unit: 1}
  metadata: {tier: {name: gold, left: 3}}
- key: model
  rate_limit: {unit: minute, requests_per_unit: 9}
  metadata: {tier: {size: big}, tags: [a, 1, true, null]}
";

#[tokio::test]
async fn a_quota_that_is_used_up_leaves_the_request_alone() {
    let served = serve_file(QUOTAS).await;
    let ask = async || {
        let descriptors = [descriptor(&[("tenant", "t")]), descriptor(&[("model", "m")])];
        served.ask(request("edge", descriptors)).await
    };
    let described = json!([{"entries": ["tenant=t"]}, {"entries": ["model=m"]}]);
    let own = |response: &RateLimitResponse| {
        let mut fields = metadata(response);
        for name in ["rule", "verdict", "degraded"] {
            assert!(fields.as_object_mut().unwrap().remove(name).is_some(), "{name}");
        }
        fields
    };
    let within = ask().await;
    assert_eq!((within.overall_code(), codes(&within)), (Code::Ok, vec![Code::Ok, Code::Ok]));
    let kept = json!({"tier": {"name": "gold", "left": 3, "size": "big"}, "tags": ["a", 1, true, null]});
    assert_eq!(
        own(&within),
        json!({"domain": "edge", "descriptors": described, "quotaModeEnabled": true, "metadata": kept})
    );
    let over = ask().await;
    assert_eq!((over.overall_code(), codes(&over)), (Code::Ok, vec![Code::OverLimit, Code::Ok]));
    assert_eq!(header(&over, "retry-after"), None);
    let kept = json!({"tier": {"size": "big"}, "tags": ["a", 1, true, null]});
    assert_eq!(
        own(&over),
        json!({"domain": "edge", "descriptors": described, "quotaModeEnabled": true, "quotaModeViolations": [0],
            "metadata": kept})
    );
    // The other limit has counted both.
    assert_eq!(over.statuses[1].limit_remaining, 7);
}

//! Decisions by the envoyproxy/ratelimit configuration.

use std::time::Duration;

use serde_json::json;
use sluicegate_http_adapter::HeaderStyle;

use super::support::{RlsTestSetup, codes, descriptor, header, headers, metadata, request, serve_file};
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
async fn a_limit_counts_each_value_separately() {
    let served = serve_file(FILE).await;
    assert_eq!(served.check_one(path("/a")).await, (Code::Ok, 1));
    assert_eq!(served.check_one(path("/a")).await, (Code::Ok, 0));
    assert_eq!(served.check_one(path("/a")).await, (Code::OverLimit, 0));
    assert_eq!(served.check_one(path("/b")).await, (Code::Ok, 1));
    served.clock.advance(Duration::from_secs(60));
    assert_eq!(served.check_one(path("/a")).await, (Code::Ok, 1));
}

#[tokio::test]
async fn statuses_report_their_limits() {
    let served = serve_file(FILE).await;
    let descriptors = [
        path("/a"),
        path("/open"),
        descriptor(&[("unknown", "x")]),
        descriptor(&[("account", "alice"), ("path", "/a")]),
        descriptor(&[("account", "alice")]),
    ];
    let response = served.call(request("edge", descriptors)).await;
    assert_eq!(response.overall_code(), Code::Ok);
    let reported: Vec<_> = response
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
    assert_eq!(reported, expected);
}

#[tokio::test]
async fn zero_requests_block() {
    let served = serve_file(FILE).await;
    let response = served.call(request("edge", [path("/closed"), path("/a")])).await;
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(codes(&response), [Code::OverLimit, Code::Ok]);
    assert_eq!(response.statuses[0].current_limit.as_ref().map(|limit| limit.requests_per_unit), Some(0));
    assert_eq!(metadata(&response)["verdict"], "never");
    // The other descriptor gave back its hits.
    assert_eq!(served.check_one(path("/a")).await, (Code::Ok, 1));
}

#[tokio::test]
async fn a_shadow_limit_counts_and_admits() {
    let served = serve_file(FILE).await;
    for left in [0, 0, 0] {
        let response = served.call(request("edge", [path("/watched")])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok]));
        let status = &response.statuses[0];
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit(), status.limit_remaining), (1, Unit::Week, left));
        assert_eq!(header(&response, "retry-after"), None);
    }
    let counts = served.sluice.counts();
    assert_eq!(counts.iter().map(|counts| counts.refused).sum::<u64>(), 2);
}

/// Regression test: it refused everything, as if shadow mode were not set.
#[tokio::test]
async fn a_shadow_limit_of_zero_admits() {
    let served = serve_file(FILE).await;
    for hits in [1, 0, 7] {
        let descriptor = RateLimitDescriptor { hits_addend: Some(hits), ..path("/watched-zero") };
        let response = served.call(request("edge", [descriptor])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok]));
        let limit = response.statuses[0].current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit()), (0, Unit::Hour));
    }
    let [counts] = &served.rls.zero_limits()[..] else { panic!("expected one limit") };
    assert_eq!((counts.limit.as_deref(), counts.refused), (Some("edge.path_/watched-zero"), 0));
    assert_eq!((counts.admitted, counts.would_refuse), (0, 3));
}

/// A peek reports that nothing is admitted. Refunds are not affected: they never refuse.
#[tokio::test]
async fn a_zero_limit_refuses_peeks_but_not_refunds() {
    let served = serve_file(FILE).await;
    let closed =
        |hits, is_negative_hits| RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..path("/closed") };
    assert_eq!(served.check_one(closed(0, false)).await, (Code::OverLimit, 0));
    assert_eq!(served.check_one(closed(2, true)).await, (Code::Ok, 0));
    assert_eq!(served.check_one(closed(0, true)).await, (Code::Ok, 0));
}

/// Regression test: a refund to a limit of zero refused the request after the other refunds were made.
#[tokio::test]
async fn only_admitted_requests_refund_hits() {
    let served = serve_file(FILE).await;
    let with =
        |name, hits, is_negative_hits| RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..path(name) };
    assert_eq!(served.check_one(with("/a", 2, false)).await, (Code::Ok, 0));
    let response = served.call(request("edge", [with("/a", 1, true), with("/closed", 1, true)])).await;
    assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok, Code::Ok]));
    assert_eq!(response.statuses[0].limit_remaining, 1);
    for hits in [0, 1] {
        let descriptors = [with("/a", 1, true), with("/closed", 1, true), with("/closed", hits, false)];
        let response = served.call(request("edge", descriptors)).await;
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(codes(&response), [Code::Ok, Code::Ok, Code::OverLimit]);
        assert_eq!(served.check_one(with("/a", 0, false)).await, (Code::Ok, 1));
    }
}

#[tokio::test]
async fn a_replaced_limit_does_not_count() {
    let served = serve_file(FILE).await;
    let special = || descriptor(&[("special", "x")]);
    for _ in 0..5 {
        let response = served.call(request("edge", [path("/a"), special()])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok, Code::Ok]));
        assert_eq!(response.statuses[0].current_limit, None);
        assert!(response.statuses[1].current_limit.is_some());
    }
    assert_eq!(served.check_one(path("/a")).await, (Code::Ok, 1));
}

#[tokio::test]
async fn other_domains_are_decided_by_rules() {
    let served = serve_file(FILE).await;
    for _ in 0..4 {
        let response = served.call(request("elsewhere", [path("/a")])).await;
        assert_eq!((response.overall_code(), &response.statuses[0].current_limit), (Code::Ok, &None));
    }
}

#[tokio::test]
async fn hits_are_peeked_and_spent() {
    let served = serve_file(FILE).await;
    let hits = |hits| RateLimitDescriptor { hits_addend: Some(hits), ..path("/a") };
    assert_eq!(served.check_one(hits(0)).await, (Code::Ok, 2));
    assert_eq!(served.check_one(hits(3)).await, (Code::OverLimit, 2));
    assert_eq!(served.check_one(hits(2)).await, (Code::Ok, 0));
    assert_eq!(served.check_one(hits(0)).await, (Code::Ok, 0));
    let back = |hits| RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits: true, ..path("/a") };
    assert_eq!(served.check_one(back(1)).await, (Code::Ok, 1));
    assert_eq!(served.check_one(back(9)).await, (Code::Ok, 2));
}

#[tokio::test]
async fn headers_report_remaining_quota() {
    let served = RlsTestSetup { file: Some(FILE), style: HeaderStyle::X, ..RlsTestSetup::default() }.serve().await;
    let response = served.call(request("edge", [path("/a")])).await;
    assert_eq!(header(&response, "x-ratelimit-limit"), Some("2"));
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("1"));
}

/// Regression test: a limit of zero has no rule and was not reported at all. It never resets.
#[tokio::test]
async fn headers_report_zero_limits() {
    for (style, expected) in [
        (HeaderStyle::Legacy, vec![("ratelimit-limit", "0"), ("ratelimit-remaining", "0")]),
        (HeaderStyle::X, vec![("x-ratelimit-limit", "0"), ("x-ratelimit-remaining", "0")]),
        (
            HeaderStyle::Ietf,
            vec![("ratelimit-policy", "\"edge.path_/closed\";q=0;w=3600"), ("ratelimit", "\"edge.path_/closed\";r=0")],
        ),
        (HeaderStyle::None, vec![]),
    ] {
        let served = RlsTestSetup { file: Some(FILE), style, ..RlsTestSetup::default() }.serve().await;
        let response = served.call(request("edge", [path("/closed")])).await;
        assert_eq!(headers(&response), expected);
    }
}

/// A shadow limit is not reported and does not hide other limits.
#[tokio::test]
async fn headers_omit_shadow_limits() {
    let served = RlsTestSetup { file: Some(FILE), style: HeaderStyle::X, ..RlsTestSetup::default() }.serve().await;
    for watched in ["/watched-zero", "/watched"] {
        let alone = served.call(request("edge", [path(watched)])).await;
        assert_eq!(headers(&alone), []);
        let both = served.call(request("edge", [path(watched), path(&format!("{watched}-other"))])).await;
        assert_eq!(header(&both, "x-ratelimit-remaining"), Some("1"), "{watched}");
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
async fn an_exhausted_quota_does_not_refuse_the_request() {
    let served = serve_file(QUOTAS).await;
    let call = async || {
        let descriptors = [descriptor(&[("tenant", "t")]), descriptor(&[("model", "m")])];
        served.call(request("edge", descriptors)).await
    };
    let described = json!([{"entries": ["tenant=t"]}, {"entries": ["model=m"]}]);
    let extra_fields = |response: &RateLimitResponse| {
        let mut fields = metadata(response);
        for name in ["rule", "verdict", "degraded"] {
            assert!(fields.as_object_mut().unwrap().remove(name).is_some(), "{name}");
        }
        fields
    };
    let within = call().await;
    assert_eq!((within.overall_code(), codes(&within)), (Code::Ok, vec![Code::Ok, Code::Ok]));
    let merged = json!({"tier": {"name": "gold", "left": 3, "size": "big"}, "tags": ["a", 1, true, null]});
    assert_eq!(
        extra_fields(&within),
        json!({"domain": "edge", "descriptors": described, "quotaModeEnabled": true, "metadata": merged})
    );
    let over = call().await;
    assert_eq!((over.overall_code(), codes(&over)), (Code::Ok, vec![Code::OverLimit, Code::Ok]));
    assert_eq!(header(&over, "retry-after"), None);
    let merged = json!({"tier": {"size": "big"}, "tags": ["a", 1, true, null]});
    assert_eq!(
        extra_fields(&over),
        json!({"domain": "edge", "descriptors": described, "quotaModeEnabled": true, "quotaModeViolations": [0],
            "metadata": merged})
    );
    // The other limit has counted both.
    assert_eq!(over.statuses[1].limit_remaining, 7);
}

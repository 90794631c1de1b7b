//! Limit overrides in descriptors.

use std::time::Duration;

use sluicegate_http_adapter::HeaderStyle;

use super::support::{RlsTestSetup, codes, descriptor, header, headers, metadata, per_minute, request, rule, serve};
use crate::rls::proto::{Code, RateLimitDescriptor, RateLimitOverride, Unit};

fn with_override(entries: &[(&str, &str)], requests_per_unit: u32, unit: Unit) -> RateLimitDescriptor {
    let limit = RateLimitOverride { requests_per_unit, unit: unit.into(), unit_multiplier: None };
    RateLimitDescriptor { limit: Some(limit), ..descriptor(entries) }
}

#[tokio::test]
async fn an_override_replaces_the_rules() {
    let served = serve([rule("total", per_minute(1))]).await;
    let call = || served.check_one(with_override(&[("a", "b")], 2, Unit::Second));
    assert_eq!(call().await, (Code::Ok, 1));
    assert_eq!(call().await, (Code::Ok, 0));
    assert_eq!(call().await, (Code::OverLimit, 0));
    served.clock.advance(Duration::from_secs(1));
    assert_eq!(call().await, (Code::Ok, 1));
    // The rule counted none of them.
    assert_eq!(served.check_one(descriptor(&[("a", "b")])).await, (Code::Ok, 0));
}

#[tokio::test]
async fn the_status_reports_the_override() {
    let served = serve([]).await;
    let mut descriptor = with_override(&[("a", "b")], 2, Unit::Minute);
    descriptor.limit.as_mut().unwrap().unit_multiplier = Some(5);
    let response = served.call(request("edge", [descriptor.clone()])).await;
    let limit = response.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit(), limit.unit_multiplier), (2, Unit::Minute, Some(5)));
    descriptor.hits_addend = Some(2);
    let refused = served.call(request("edge", [descriptor.clone()])).await;
    let wait: u64 = header(&refused, "retry-after").unwrap().parse().unwrap();
    assert!((1..=300).contains(&wait), "{wait}");
    descriptor.hits_addend = Some(3);
    let never = served.call(request("edge", [descriptor])).await;
    assert_eq!((never.overall_code(), header(&never, "retry-after")), (Code::OverLimit, None));
    assert_eq!(metadata(&never)["verdict"], "never");
}

#[tokio::test]
async fn each_domain_entry_and_limit_has_its_own_counter() {
    let served = serve([]).await;
    for (domain, entries, unit) in [
        ("edge", &[("a", "b")][..], Unit::Minute),
        ("edge", &[("a", "c")], Unit::Minute),
        ("edge", &[("a", "b"), ("c", "")], Unit::Minute),
        ("edge", &[("a", "b")], Unit::Hour),
        ("other", &[("a", "b")], Unit::Minute),
    ] {
        let response = served.call(request(domain, [with_override(entries, 1, unit)])).await;
        assert_eq!(response.overall_code(), Code::Ok, "{domain} {entries:?}");
    }
    let again = served.call(request("edge", [with_override(&[("a", "b")], 1, Unit::Minute)])).await;
    assert_eq!(again.overall_code(), Code::OverLimit);
}

#[tokio::test]
async fn a_refused_request_returns_override_hits() {
    let served = serve([rule("total", per_minute(1))]).await;
    assert_eq!(served.check_one(descriptor(&[("a", "b")])).await, (Code::Ok, 0));
    let overridden = || with_override(&[("a", "b")], 1, Unit::Minute);
    for _ in 0..3 {
        let response = served.call(request("edge", [overridden(), descriptor(&[("a", "b")])])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::OverLimit, vec![Code::Ok, Code::OverLimit]));
    }
    assert_eq!(served.check_one(overridden()).await, (Code::Ok, 0));
}

#[tokio::test]
async fn an_override_is_blocked_peeked_and_refunded() {
    let served = serve([]).await;
    assert_eq!(served.check_one(with_override(&[("a", "b")], 0, Unit::Minute)).await, (Code::OverLimit, 0));
    let with = |hits, back| RateLimitDescriptor {
        hits_addend: Some(hits),
        is_negative_hits: back,
        ..with_override(&[("a", "b")], 5, Unit::Hour)
    };
    for (hits, back, expected) in [
        (0, false, (Code::Ok, 5)),
        (5, false, (Code::Ok, 0)),
        (1, false, (Code::OverLimit, 0)),
        (2, true, (Code::Ok, 2)),
        (2, false, (Code::Ok, 0)),
        (u64::MAX, true, (Code::Ok, 5)),
        (5, false, (Code::Ok, 0)),
    ] {
        assert_eq!(served.check_one(with(hits, back)).await, expected, "{hits} {back}");
    }
}

/// A refused request refunds nothing, so that it can be retried.
#[tokio::test]
async fn a_refused_request_refunds_nothing() {
    let served = serve([]).await;
    let full = || with_override(&[("full", "")], 1, Unit::Hour);
    let with = |hits, back| RateLimitDescriptor {
        hits_addend: Some(hits),
        is_negative_hits: back,
        ..with_override(&[("a", "b")], 5, Unit::Hour)
    };
    assert_eq!(served.check_one(full()).await.0, Code::Ok);
    assert_eq!(served.check_one(with(5, false)).await, (Code::Ok, 0));
    let response = served.call(request("edge", [with(3, true), full()])).await;
    assert_eq!((response.overall_code(), codes(&response)), (Code::OverLimit, vec![Code::Ok, Code::OverLimit]));
    assert_eq!(response.statuses[0].limit_remaining, 0);
    assert_eq!(served.check_one(with(0, false)).await, (Code::Ok, 0));
}

/// Refunds cannot be undone: everything is validated before.
#[tokio::test]
async fn an_invalid_request_refunds_nothing() {
    let served = serve([]).await;
    let with = |hits, back| RateLimitDescriptor {
        hits_addend: Some(hits),
        is_negative_hits: back,
        ..with_override(&[("a", "b")], 5, Unit::Hour)
    };
    assert_eq!(served.check_one(with(5, false)).await, (Code::Ok, 0));
    let mut endless = RateLimitDescriptor { is_negative_hits: true, ..with_override(&[("c", "d")], 5, Unit::Year) };
    endless.limit.as_mut().unwrap().unit_multiplier = Some(1_000);
    let refused = served.call_error(request("edge", [with(3, true), endless])).await;
    assert!(refused.message().contains("descriptor 2"), "{refused:?}");
    assert_eq!(served.check_one(with(0, false)).await, (Code::Ok, 0));
}

#[tokio::test]
async fn a_zero_override_refuses_peeks_but_not_refunds() {
    let served = serve([]).await;
    let zero = |hits, is_negative_hits| RateLimitDescriptor {
        hits_addend: Some(hits),
        is_negative_hits,
        ..with_override(&[("a", "b")], 0, Unit::Minute)
    };
    for (hits, back, expected) in [(1, false, Code::OverLimit), (0, false, Code::OverLimit), (1, true, Code::Ok)] {
        assert_eq!(served.check_one(zero(hits, back)).await, (expected, 0), "{hits} {back}");
    }
}

/// Regression test: an override has no rule and was not reported at all.
#[tokio::test]
async fn headers_report_the_override() {
    let expected = |style| match style {
        HeaderStyle::Legacy => ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
        _ => ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
    };
    for style in [HeaderStyle::Legacy, HeaderStyle::X] {
        let served = RlsTestSetup { style, ..RlsTestSetup::default() }.serve().await;
        let call = || served.call(request("edge", [with_override(&[("a", "b")], 1, Unit::Hour)]));
        let reset = |seconds: i64, nanos: i32| (seconds + i64::from(nanos > 0)).to_string();
        let [limit, remaining, until] = expected(style);
        let admitted = call().await;
        let reset_after = admitted.statuses[0].duration_until_reset.unwrap();
        let reset = reset(reset_after.seconds, reset_after.nanos);
        assert_eq!(headers(&admitted), [(limit, "1"), (remaining, "0"), (until, &reset)]);
        assert_eq!(
            headers(&call().await),
            [(limit, "1"), (remaining, "0"), (until, reset.as_str()), ("retry-after", &reset)]
        );
    }
    let served = RlsTestSetup { style: HeaderStyle::Ietf, ..RlsTestSetup::default() }.serve().await;
    let mut descriptor = with_override(&[("a", "b")], 3, Unit::Minute);
    descriptor.limit.as_mut().unwrap().unit_multiplier = Some(5);
    let response = served.call(request("edge", [descriptor])).await;
    assert_eq!(header(&response, "ratelimit-policy"), Some("\"override\";q=3;w=300"));
    assert!(header(&response, "ratelimit").unwrap().starts_with("\"override\";r=2;t="));
}

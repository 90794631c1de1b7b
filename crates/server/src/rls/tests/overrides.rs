//! Limits that descriptors bring along.

use std::time::Duration;

use sluicegate_http::HeaderStyle;

use super::support::{Setup, codes, descriptor, header, headers, metadata, per_minute, request, rule, serve};
use crate::rls::proto::{Code, RateLimitDescriptor, RateLimitOverride, Unit};

fn limited(entries: &[(&str, &str)], requests_per_unit: u32, unit: Unit) -> RateLimitDescriptor {
    let limit = RateLimitOverride { requests_per_unit, unit: unit.into(), unit_multiplier: None };
    RateLimitDescriptor { limit: Some(limit), ..descriptor(entries) }
}

#[tokio::test]
async fn a_limit_that_comes_along_holds_instead_of_the_rules() {
    let served = serve([rule("total", per_minute(1))]).await;
    let ask = || served.once(limited(&[("a", "b")], 2, Unit::Second));
    assert_eq!(ask().await, (Code::Ok, 1));
    assert_eq!(ask().await, (Code::Ok, 0));
    assert_eq!(ask().await, (Code::OverLimit, 0));
    served.clock.advance(Duration::from_secs(1));
    assert_eq!(ask().await, (Code::Ok, 1));
    // The rule has counted none of them.
    assert_eq!(served.once(descriptor(&[("a", "b")])).await, (Code::Ok, 0));
}

#[tokio::test]
async fn its_status_tells_of_it() {
    let served = serve([]).await;
    let mut descriptor = limited(&[("a", "b")], 2, Unit::Minute);
    descriptor.limit.as_mut().unwrap().unit_multiplier = Some(5);
    let response = served.ask(request("edge", [descriptor.clone()])).await;
    let limit = response.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit(), limit.unit_multiplier), (2, Unit::Minute, Some(5)));
    descriptor.hits_addend = Some(2);
    let refused = served.ask(request("edge", [descriptor.clone()])).await;
    let wait: u64 = header(&refused, "retry-after").unwrap().parse().unwrap();
    assert!((1..=300).contains(&wait), "{wait}");
    descriptor.hits_addend = Some(3);
    let never = served.ask(request("edge", [descriptor])).await;
    assert_eq!((never.overall_code(), header(&never, "retry-after")), (Code::OverLimit, None));
    assert_eq!(metadata(&never)["verdict"], "never");
}

#[tokio::test]
async fn counters_are_told_apart_by_everything() {
    let served = serve([]).await;
    for (domain, entries, unit) in [
        ("edge", &[("a", "b")][..], Unit::Minute),
        ("edge", &[("a", "c")], Unit::Minute),
        ("edge", &[("a", "b"), ("c", "")], Unit::Minute),
        ("edge", &[("a", "b")], Unit::Hour),
        ("other", &[("a", "b")], Unit::Minute),
    ] {
        let response = served.ask(request(domain, [limited(entries, 1, unit)])).await;
        assert_eq!(response.overall_code(), Code::Ok, "{domain} {entries:?}");
    }
    let again = served.ask(request("edge", [limited(&[("a", "b")], 1, Unit::Minute)])).await;
    assert_eq!(again.overall_code(), Code::OverLimit);
}

#[tokio::test]
async fn it_goes_back_with_the_rest() {
    let served = serve([rule("total", per_minute(1))]).await;
    assert_eq!(served.once(descriptor(&[("a", "b")])).await, (Code::Ok, 0));
    let of_its_own = || limited(&[("a", "b")], 1, Unit::Minute);
    for _ in 0..3 {
        let response = served.ask(request("edge", [of_its_own(), descriptor(&[("a", "b")])])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::OverLimit, vec![Code::Ok, Code::OverLimit]));
    }
    assert_eq!(served.once(of_its_own()).await, (Code::Ok, 0));
}

#[tokio::test]
async fn it_can_block_be_looked_at_and_be_given_back() {
    let served = serve([]).await;
    assert_eq!(served.once(limited(&[("a", "b")], 0, Unit::Minute)).await, (Code::OverLimit, 0));
    let with = |hits, back| RateLimitDescriptor {
        hits_addend: Some(hits),
        is_negative_hits: back,
        ..limited(&[("a", "b")], 5, Unit::Hour)
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
        assert_eq!(served.once(with(hits, back)).await, expected, "{hits} {back}");
    }
}

/// A request that is refused gives nothing back, so that it can be tried again.
#[tokio::test]
async fn a_refused_request_gives_nothing_back() {
    let served = serve([]).await;
    let full = || limited(&[("full", "")], 1, Unit::Hour);
    let with = |hits, back| RateLimitDescriptor {
        hits_addend: Some(hits),
        is_negative_hits: back,
        ..limited(&[("a", "b")], 5, Unit::Hour)
    };
    assert_eq!(served.once(full()).await.0, Code::Ok);
    assert_eq!(served.once(with(5, false)).await, (Code::Ok, 0));
    let response = served.ask(request("edge", [with(3, true), full()])).await;
    assert_eq!((response.overall_code(), codes(&response)), (Code::OverLimit, vec![Code::Ok, Code::OverLimit]));
    assert_eq!(response.statuses[0].limit_remaining, 0);
    assert_eq!(served.once(with(0, false)).await, (Code::Ok, 0));
}

/// What is given back stays so, whatever becomes of the rest: so everything that can be wrong is found before.
#[tokio::test]
async fn a_request_that_makes_no_sense_gives_nothing_back() {
    let served = serve([]).await;
    let with = |hits, back| RateLimitDescriptor {
        hits_addend: Some(hits),
        is_negative_hits: back,
        ..limited(&[("a", "b")], 5, Unit::Hour)
    };
    assert_eq!(served.once(with(5, false)).await, (Code::Ok, 0));
    let mut endless = RateLimitDescriptor { is_negative_hits: true, ..limited(&[("c", "d")], 5, Unit::Year) };
    endless.limit.as_mut().unwrap().unit_multiplier = Some(1_000);
    let refused = served.refused(request("edge", [with(3, true), endless])).await;
    assert!(refused.message().contains("descriptor 2"), "{refused:?}");
    assert_eq!(served.once(with(0, false)).await, (Code::Ok, 0));
}

#[tokio::test]
async fn zero_is_over_for_who_looks_and_not_for_who_gives_back() {
    let served = serve([]).await;
    let zero = |hits, is_negative_hits| RateLimitDescriptor {
        hits_addend: Some(hits),
        is_negative_hits,
        ..limited(&[("a", "b")], 0, Unit::Minute)
    };
    for (hits, back, expected) in [(1, false, Code::OverLimit), (0, false, Code::OverLimit), (1, true, Code::Ok)] {
        assert_eq!(served.once(zero(hits, back)).await, (expected, 0), "{hits} {back}");
    }
}

/// There is no rule to tell of such a limit, and it was not told of at all.
#[tokio::test]
async fn clients_are_told_of_it() {
    let expected = |style| match style {
        HeaderStyle::Legacy => ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
        _ => ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
    };
    for style in [HeaderStyle::Legacy, HeaderStyle::X] {
        let served = Setup { style, ..Setup::default() }.serve().await;
        let ask = || served.ask(request("edge", [limited(&[("a", "b")], 1, Unit::Hour)]));
        let reset = |seconds: i64, nanos: i32| (seconds + i64::from(nanos > 0)).to_string();
        let [limit, remaining, until] = expected(style);
        let admitted = ask().await;
        let told = admitted.statuses[0].duration_until_reset.unwrap();
        let reset = reset(told.seconds, told.nanos);
        assert_eq!(headers(&admitted), [(limit, "1"), (remaining, "0"), (until, &reset)]);
        assert_eq!(
            headers(&ask().await),
            [(limit, "1"), (remaining, "0"), (until, reset.as_str()), ("retry-after", &reset)]
        );
    }
    let served = Setup { style: HeaderStyle::Ietf, ..Setup::default() }.serve().await;
    let mut descriptor = limited(&[("a", "b")], 3, Unit::Minute);
    descriptor.limit.as_mut().unwrap().unit_multiplier = Some(5);
    let response = served.ask(request("edge", [descriptor])).await;
    assert_eq!(header(&response, "ratelimit-policy"), Some("\"override\";q=3;w=300"));
    assert!(header(&response, "ratelimit").unwrap().starts_with("\"override\";r=2;t="));
}

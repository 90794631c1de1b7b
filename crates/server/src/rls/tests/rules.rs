//! Decisions by the rules of the rule file.

use std::time::Duration;

use sluicegate_engine::overload::{GateLimits, OverloadNotice, VariableRate};
use sluicegate_engine::rule::{
    Adaptive, Attribute, Ban, Cost, CpuGuard, Expr, Lists, Mode, OnLimit, Reply, ReplyBody, Rule,
};
use sluicegate_engine::{Limit, Rate};
use sluicegate_http_adapter::HeaderStyle;

use super::support::{RlsTestSetup, codes, descriptor, header, metadata, per_minute, request, rule, serve};
use crate::rls::proto::{Code, RateLimitDescriptor, Unit};

fn by(attribute: Attribute, rule: Rule) -> Rule {
    Rule { key: vec![attribute.into()], ..rule }
}

#[tokio::test]
async fn a_rule_counts_by_descriptor_entry() {
    let path = Attribute::Descriptor("path".to_owned());
    let served = serve([by(path, rule("per-path", per_minute(2)))]).await;
    let a = || descriptor(&[("path", "/a")]);
    assert_eq!(served.check_one(a()).await, (Code::Ok, 1));
    assert_eq!(served.check_one(a()).await, (Code::Ok, 0));
    assert_eq!(served.check_one(a()).await, (Code::OverLimit, 0));
    assert_eq!(served.check_one(descriptor(&[("path", "/b")])).await, (Code::Ok, 1));
    served.clock.advance(Duration::from_secs(60));
    assert_eq!(served.check_one(a()).await, (Code::Ok, 1));
}

#[tokio::test]
async fn a_status_reports_its_limit() {
    let served = serve([rule("total", per_minute(2))]).await;
    let response = served.call(request("edge", [descriptor(&[("a", "b")])])).await;
    let status = &response.statuses[0];
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!((limit.name.as_str(), limit.requests_per_unit, limit.unit()), ("total", 2, Unit::Minute));
    // The clock is at 1,000 s: 20 s before the end of the minute.
    let reset = status.duration_until_reset.unwrap();
    assert!(reset.seconds < 60 && reset.seconds >= 0, "{reset:?}");
    assert_eq!(metadata(&response), serde_json::json!({"rule": "total", "verdict": "allowed", "degraded": false}));
}

#[tokio::test]
async fn without_a_rule_no_limit_is_reported() {
    let served = serve([rule("total", per_minute(2))]).await;
    let response = served.call(request("elsewhere", [descriptor(&[("a", "b")])])).await;
    assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok]));
    assert_eq!(response.statuses[0].current_limit, None);
    assert_eq!(response.dynamic_metadata, None);
    assert!(response.response_headers_to_add.is_empty());
}

#[tokio::test]
async fn inbound_rules_never_see_descriptors() {
    let served = serve([Rule::new("inbound", [per_minute(1)])]).await;
    for _ in 0..3 {
        assert_eq!(served.check_one(descriptor(&[("a", "b")])).await, (Code::Ok, 0));
    }
}

#[tokio::test]
async fn the_tightest_rule_is_reported() {
    let served =
        serve([rule("wide", per_minute(9)), rule("tight", per_minute(2)), rule("wider", per_minute(10))]).await;
    let call = || served.call(request("edge", [descriptor(&[("a", "b")])]));
    for (code, left) in [(Code::Ok, 1), (Code::Ok, 0), (Code::OverLimit, 0)] {
        let status = call().await.statuses.remove(0);
        assert_eq!((status.code(), status.limit_remaining), (code, left));
        assert_eq!(status.current_limit.unwrap().name, "tight");
    }
}

#[tokio::test]
async fn the_client_ip_comes_from_remote_address() {
    let served = serve([by(Attribute::ClientIp, rule("per-ip", per_minute(1)))]).await;
    let from = |address| descriptor(&[("remote_address", address)]);
    assert_eq!(served.check_one(from("10.0.0.1")).await, (Code::Ok, 0));
    assert_eq!(served.check_one(from("::ffff:10.0.0.1")).await, (Code::OverLimit, 0));
    assert_eq!(served.check_one(from("10.0.0.2")).await, (Code::Ok, 0));
    // No address, no key: the rule does not apply.
    assert_eq!(served.check_one(from("nobody")).await, (Code::Ok, 0));
    assert_eq!(served.check_one(from("nobody")).await, (Code::Ok, 0));
}

#[tokio::test]
async fn hits_are_spent_peeked_and_refused() {
    let served = serve([rule("total", per_minute(10))]).await;
    let hits = |hits| RateLimitDescriptor { hits_addend: hits, ..descriptor(&[("a", "b")]) };
    let call = async |request_hits, own_hits| {
        let mut request = request("edge", [hits(own_hits)]);
        request.hits_addend = request_hits;
        let response = served.call(request).await;
        (response.overall_code(), response.statuses[0].limit_remaining, metadata(&response)["verdict"].clone())
    };
    for (request_hits, own_hits, code, left, verdict) in [
        (0, None, Code::Ok, 9, "allowed"),
        (3, None, Code::Ok, 6, "allowed"),
        (3, Some(2), Code::Ok, 4, "allowed"),
        (3, Some(0), Code::Ok, 4, "allowed"),
        (5, None, Code::OverLimit, 4, "denied"),
        (u32::MAX, None, Code::OverLimit, 4, "never"),
        (0, Some(u64::MAX), Code::OverLimit, 4, "never"),
        (4, None, Code::Ok, 0, "allowed"),
        (0, Some(0), Code::Ok, 0, "allowed"),
        (0, None, Code::OverLimit, 0, "denied"),
    ] {
        assert_eq!(call(request_hits, own_hits).await, (code, left, verdict.into()), "{request_hits} {own_hits:?}");
    }
}

/// Spent hits are refunded, never more; a refused request refunds nothing.
#[tokio::test]
async fn hits_are_refunded() {
    let path = Attribute::Descriptor("path".to_owned());
    let bucket = Limit::token_bucket(Rate::per_minute(1).unwrap(), 10).unwrap();
    let minute = Duration::from_secs(60);
    let window = Limit::sliding_window(10, minute, 10).unwrap();
    for limit in [per_minute(10), bucket, window, Limit::sliding_log(10, minute).unwrap()] {
        let served = serve([by(path.clone(), rule("per-path", limit))]).await;
        let of = |path, hits, is_negative_hits| {
            let hits_addend = Some(hits);
            RateLimitDescriptor { hits_addend, is_negative_hits, ..descriptor(&[("path", path)]) }
        };
        for (hits, back, expected) in [
            (8, false, (Code::Ok, 2)),
            (3, true, (Code::Ok, 5)),
            (0, true, (Code::Ok, 5)),
            (0, false, (Code::Ok, 5)),
            (u64::MAX, true, (Code::Ok, 10)),
            (10, false, (Code::Ok, 0)),
        ] {
            assert_eq!(served.check_one(of("/a", hits, back)).await, expected, "{hits} {back}");
        }
        let response = served.call(request("edge", [of("/a", 5, true), of("/b", 11, false)])).await;
        assert_eq!((response.overall_code(), codes(&response)), (Code::OverLimit, vec![Code::Ok, Code::OverLimit]));
        assert_eq!(served.check_one(of("/a", 0, false)).await, (Code::Ok, 0));
        // Without hits of its own, the descriptor refunds the request's hits.
        let mut request = request("edge", [RateLimitDescriptor { hits_addend: None, ..of("/a", 0, true) }]);
        request.hits_addend = 4;
        assert_eq!(served.call(request).await.statuses[0].limit_remaining, 4);
    }
}

/// A rule's own cost applies to spending only, not to peeks and refunds.
#[tokio::test]
async fn a_peek_spends_nothing_of_the_rule_cost() {
    let path = Attribute::Descriptor("path".to_owned());
    let units = Attribute::Descriptor("units".to_owned());
    for (cost, back) in [(Cost::Fixed(3), 2), (Cost::estimate(3), 6), (Cost::Attribute(units), 6)] {
        let served = serve([by(path.clone(), Rule { cost: cost.clone(), ..rule("costly", per_minute(10)) })]).await;
        let of = |hits, is_negative_hits| {
            let entries = descriptor(&[("path", "/a"), ("units", "3")]);
            RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..entries }
        };
        assert_eq!(served.check_one(of(0, false)).await, (Code::Ok, 10), "{cost:?}");
        assert_eq!(served.check_one(of(1, false)).await, (Code::Ok, 7), "{cost:?}");
        assert_eq!(served.check_one(of(1, false)).await, (Code::Ok, 4), "{cost:?}");
        assert_eq!(served.check_one(of(0, true)).await, (Code::Ok, 4), "{cost:?}");
        assert_eq!(served.check_one(of(back, true)).await, (Code::Ok, 10), "{cost:?}");
    }
}

/// A ban refuses spending. A refund is not refused, and the other refunds of the request are made.
#[tokio::test]
async fn a_ban_does_not_refuse_refunds() {
    let path = Attribute::Descriptor("path".to_owned());
    let minute = Duration::from_secs(60);
    let ban = Some(Ban { after: 1, within: minute, duration: minute });
    let body = Some(ReplyBody::Text("banned".to_owned()));
    let on_limit =
        OnLimit { reply: Some(Reply::Refuse { status: 403, body, headers: Vec::new() }), ..OnLimit::default() };
    let served = serve([by(path, Rule { ban, on_limit, ..rule("per-path", per_minute(2)) })]).await;
    let of = |path, hits, is_negative_hits| {
        let hits_addend = Some(hits);
        RateLimitDescriptor { hits_addend, is_negative_hits, ..descriptor(&[("path", path)]) }
    };
    assert_eq!(served.check_one(of("/good", 2, false)).await, (Code::Ok, 0));
    assert_eq!(served.check_one(of("/bad", 3, false)).await.0, Code::OverLimit);
    assert_eq!(served.check_one(of("/bad", 1, false)).await.0, Code::OverLimit);
    let response = served.call(request("edge", [of("/good", 1, true), of("/bad", 1, true)])).await;
    assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok, Code::Ok]));
    assert!(response.raw_body.is_empty());
    assert_eq!(served.check_one(of("/good", 0, false)).await, (Code::Ok, 1));
    let response = served.call(request("edge", [of("/good", 1, true), of("/bad", 1, false)])).await;
    assert_eq!((response.overall_code(), codes(&response)), (Code::OverLimit, vec![Code::Ok, Code::OverLimit]));
    assert_eq!(served.check_one(of("/good", 0, false)).await, (Code::Ok, 1));
}

/// A refusal of one descriptor gives back the hits of the others, in any order.
#[tokio::test]
async fn descriptors_are_admitted_all_or_none() {
    let path = Attribute::Descriptor("path".to_owned());
    let served = serve([by(path, rule("per-path", per_minute(3)))]).await;
    let of = |path, hits| RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(&[("path", path)]) };
    assert_eq!(served.check_one(of("/full", 3)).await, (Code::Ok, 0));
    for _ in 0..5 {
        let response = served.call(request("edge", [of("/a", 1), of("/full", 1), of("/b", 3)])).await;
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(codes(&response), [Code::Ok, Code::OverLimit, Code::Ok]);
        assert_eq!(metadata(&response)["rule"], "per-path");
    }
    let response = served.call(request("edge", [of("/a", 3), of("/b", 3)])).await;
    assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok, Code::Ok]));
    assert_eq!(served.check_one(of("/a", 1)).await, (Code::OverLimit, 0));
    assert_eq!(served.check_one(of("/b", 1)).await, (Code::OverLimit, 0));
}

#[tokio::test]
async fn shadow_rules_refuse_nothing() {
    let served = serve([Rule { mode: Mode::Shadow, ..rule("watched", per_minute(1)) }]).await;
    for _ in 0..3 {
        let response = served.call(request("edge", [descriptor(&[("a", "b")])])).await;
        assert_eq!(response.overall_code(), Code::Ok);
        assert_eq!(response.statuses[0].current_limit, None);
    }
}

#[tokio::test]
async fn lists_take_precedence() {
    let served = serve([rule("total", per_minute(1))]).await;
    let lists = Lists {
        allow: vec!["client.ip == '10.0.0.1'".parse::<Expr>().unwrap()],
        deny: vec!["client.ip == '10.0.0.2'".parse::<Expr>().unwrap()],
    };
    served.sluice.replace(served.sluice.rules(), lists).unwrap();
    let from = |address| request("edge", [descriptor(&[("remote_address", address)])]);
    for _ in 0..3 {
        assert_eq!(served.call(from("10.0.0.1")).await.overall_code(), Code::Ok);
        let denied = served.call(from("10.0.0.2")).await;
        assert_eq!((denied.overall_code(), codes(&denied)), (Code::OverLimit, vec![Code::OverLimit]));
        assert_eq!(header(&denied, "retry-after"), None);
        assert_eq!(metadata(&denied)["verdict"], "denied");
    }
}

#[tokio::test]
async fn headers_follow_the_configured_style() {
    let rules = || vec![rule("total", per_minute(1))];
    for (style, expected) in [
        (HeaderStyle::Ietf, vec!["ratelimit-policy", "ratelimit"]),
        (HeaderStyle::Legacy, vec!["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]),
        (HeaderStyle::X, vec!["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]),
        (HeaderStyle::None, vec![]),
    ] {
        let served = RlsTestSetup { rules: rules(), style, ..RlsTestSetup::default() }.serve().await;
        let admitted = served.call(request("edge", [descriptor(&[("a", "b")])])).await;
        let names: Vec<&str> = admitted.response_headers_to_add.iter().map(|header| header.key.as_str()).collect();
        assert_eq!(names, expected);
        let refused = served.call(request("edge", [descriptor(&[("a", "b")])])).await;
        let names: Vec<&str> = refused.response_headers_to_add.iter().map(|header| header.key.as_str()).collect();
        assert_eq!(names, [expected, vec!["retry-after"]].concat());
        let wait: u64 = header(&refused, "retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        assert!(refused.raw_body.is_empty());
    }
}

/// The headers report the descriptor with the least remaining quota.
#[tokio::test]
async fn the_tightest_descriptor_is_reported() {
    let path = Attribute::Descriptor("path".to_owned());
    let rules = vec![by(path, rule("per-path", per_minute(9)))];
    let served = RlsTestSetup { rules, style: HeaderStyle::X, ..RlsTestSetup::default() }.serve().await;
    let of = |path, hits| RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(&[("path", path)]) };
    let response = served.call(request("edge", [of("/a", 1), of("/b", 5), of("/c", 2)])).await;
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("4"));
    assert_eq!(response.statuses.iter().map(|status| status.limit_remaining).collect::<Vec<_>>(), [8, 4, 7]);
}

#[tokio::test]
async fn the_rule_reply_is_sent_without_its_status() {
    let headers = vec![("x-why".to_owned(), "busy".to_owned())];
    let text = Some(ReplyBody::Text("too busy".to_owned()));
    for (reply, body, content_type, reason) in [
        (
            Reply::Refuse { status: 503, body: text.clone(), headers: headers.clone() },
            "too busy",
            Some("text/plain; charset=utf-8"),
            Some("busy"),
        ),
        (Reply::Refuse { status: 503, body: None, headers: headers.clone() }, "", None, Some("busy")),
        (
            Reply::Degrade { status: 200, body: Some(ReplyBody::Json("[]".to_owned())), headers },
            "[]",
            Some("application/json"),
            Some("busy"),
        ),
        (Reply::Redirect { status: 302, location: "/busy".to_owned() }, "", None, None),
    ] {
        let on_limit = OnLimit { reply: Some(reply), ..OnLimit::default() };
        let served = serve([Rule { on_limit, ..rule("total", per_minute(1)) }]).await;
        assert!(served.call(request("edge", [descriptor(&[("a", "b")])])).await.raw_body.is_empty());
        let refused = served.call(request("edge", [descriptor(&[("a", "b")])])).await;
        assert_eq!(refused.raw_body, body.as_bytes());
        assert_eq!((header(&refused, "content-type"), header(&refused, "x-why")), (content_type, reason));
        assert_eq!(header(&refused, "location"), None);
        assert!(header(&refused, "retry-after").is_some());
    }
}

#[tokio::test]
async fn buckets_report_their_rate() {
    let served = serve([rule("bucket", Limit::token_bucket(Rate::per_second(10).unwrap(), 25).unwrap())]).await;
    let status = served.call(request("edge", [descriptor(&[("a", "b")])])).await.statuses.remove(0);
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit(), status.limit_remaining), (10, Unit::Second, 24));
}

/// The end of a request is not reported, so no permit may be held.
#[tokio::test]
async fn permits_are_not_held() {
    let served = serve([rule("at-once", Limit::concurrency(1).unwrap())]).await;
    for _ in 0..3 {
        assert_eq!(served.check_one(descriptor(&[("a", "b")])).await.0, Code::Ok);
    }
}

#[tokio::test]
async fn an_overload_refusal_names_the_readings() {
    let guard = Adaptive::Cpu(CpuGuard::default());
    let served = serve([Rule { adaptive: Some(guard), ..rule("guard", per_minute(100)) }]).await;
    let gate = served.sluice.gates().remove(0).1;
    gate.set_limits(GateLimits {
        rate: Some(VariableRate { count: 1.0, window: Duration::from_secs(1) }),
        ..GateLimits::OPEN
    });
    let reason = "cpu 97% > 85%: at most 1 per 1s";
    gate.set_notice(OverloadNotice { state: "limited", reason: reason.to_owned(), readings: Vec::new() });
    let call = async || metadata(&served.call(request("edge", [descriptor(&[("a", "b")])])).await);
    assert_eq!(call().await, serde_json::json!({"rule": "guard", "verdict": "allowed", "degraded": false}));
    assert_eq!(
        call().await,
        serde_json::json!({
            "rule": "guard", "verdict": "denied", "wait_ms": 1_020, "reason": reason, "degraded": false,
        })
    );
}

//! Valid checks.

use std::time::Duration;

use serde_json::json;
use sluicegate_engine::overload::{GateLimits, OverloadNotice, VariableRate};

use super::TestApi;

#[tokio::test]
async fn a_decision_reports_every_field() {
    let subject = TestApi::new();
    let check = r#"{"service":"shop","attributes":{"account":"alice"},"cost":10}"#;
    let response = subject.post("/v1/check", check).await;
    assert_eq!((response.status.as_u16(), response.header("content-type")), (200, Some("application/json")));
    assert_eq!(
        response.json(),
        json!({
            "allowed": true, "verdict": "allowed", "wait_ms": 0, "retry_after_ms": null, "rule": null, "cause": null,
            "degraded": false,
            "limits": [
                {"rule": "per-account", "limit": 10, "remaining": 0, "reset_ms": 10_000, "verdict": "allowed",
                    "shadow": false, "degraded": false},
                {"rule": "all-accounts", "limit": 15, "remaining": 5, "reset_ms": 10_000, "verdict": "allowed",
                    "shadow": false, "degraded": false},
                {"rule": "trial", "limit": 1, "remaining": 1, "reset_ms": 0, "verdict": "never",
                    "shadow": true, "degraded": false},
            ],
        })
    );
    subject.clock.advance(Duration::from_nanos(1));
    let refused = subject.post("/v1/check", r#"{"service":"shop","attributes":{"account":"alice"}}"#).await;
    assert_eq!(refused.status, 200, "a refusal is a decision");
    let refused = refused.json();
    assert_eq!(refused["allowed"], false);
    assert_eq!(refused["verdict"], "denied");
    assert_eq!(refused["retry_after_ms"], 1_000, "rounded up");
    assert_eq!((&refused["rule"], &refused["cause"]), (&json!("per-account"), &json!("limit")));
}

#[tokio::test]
async fn every_part_of_a_request_reaches_the_rules() {
    let subject = TestApi::new();
    // Body, deciding rule, verdict and cause.
    for (body, rule, verdict, cause) in [
        (r#"{"service":"shop","attributes":{"account":"root"},"cost":1000}"#, None, "allowed", Some("allow_list")),
        (r#"{"service":"shop","attributes":{"account":"mallory"}}"#, None, "denied", Some("deny_list")),
        (r#"{"service":"shop","cost":16}"#, Some("all-accounts"), "never", Some("limit")),
        (r#"{"service":"nobody","cost":1000}"#, None, "allowed", None),
        (r#"{"direction":"outbound","service":"shop","cost":1000}"#, None, "allowed", None),
        (r#"{"rule":"files","client_ip":"203.0.113.9","cost":3}"#, Some("files"), "never", Some("limit")),
        (r#"{"method":"GET","path":"//files/./x","client_ip":"::1","cost":3}"#, Some("files"), "never", Some("limit")),
        (r#"{"method":"POST","path":"/files/x","client_ip":"::1","cost":3}"#, None, "allowed", None),
        (r#"{"method":"GET","path":"/search","query":{"q":"x"},"cost":2}"#, Some("searches"), "never", Some("limit")),
        (
            r#"{"service":"tiers","headers":{"X-Tier":"a"},"cookies":{"sid":"b"},"cost":2}"#,
            Some("tiers"),
            "never",
            Some("limit"),
        ),
        (r#"{"service":"pace","host":"shop.example"}"#, None, "allowed", None),
        (r#"{"service":"pace"}"#, None, "wait", None),
        (r#"{"service":"quick"}"#, None, "allowed", None),
        (r#"{"service":"quick"}"#, Some("quick"), "denied", Some("limit")),
        (r#"{"service":"quick"}"#, Some("quick"), "denied", Some("ban")),
        ("{}", None, "allowed", None),
        // Equal to an integer in JSON.
        (r#"{"service":"shop","cost":16.0}"#, Some("all-accounts"), "never", Some("limit")),
        (r#"{"service":"shop","cost":1.6e1}"#, Some("all-accounts"), "never", Some("limit")),
        (" {\"service\" : \"sh\\u006fp\", \"cost\" : 0}\n", None, "allowed", None),
    ] {
        let response = subject.post("/v1/check", body).await;
        assert_eq!(response.status, 200, "{body}");
        let decision = response.json();
        assert_eq!(decision["rule"].as_str(), rule, "{body}: {decision}");
        assert_eq!(decision["verdict"], verdict, "{body}: {decision}");
        assert_eq!(decision["cause"].as_str(), cause, "{body}: {decision}");
        assert_eq!(decision["allowed"], verdict == "allowed" || verdict == "wait", "{body}");
        if verdict == "wait" {
            assert_eq!(decision["wait_ms"], 1_000);
        }
    }
}

#[tokio::test]
async fn listed_checks_are_decided_independently() {
    let subject = TestApi::new();
    let body = r#"{"checks":[
        {"rule":"per-account","attributes":{"account":"a"},"cost":8},
        {"rule":"per-account","attributes":{"account":"a"},"cost":8},
        {"rule":"per-account","attributes":{"account":"a"},"cost":2}
    ]}"#;
    let response = subject.post("/v1/check", body).await.json();
    assert_eq!((&response["allowed"], &response["refused"]), (&json!(false), &json!(null)));
    let each: Vec<_> = response["results"].as_array().unwrap().iter().map(|result| &result["allowed"]).collect();
    assert_eq!(each, [true, false, true]);
    assert_eq!(subject.remaining("per-account").await, 0);
}

#[tokio::test]
async fn all_or_nothing_consumes_nothing_if_one_is_refused() {
    let subject = TestApi::new();
    let body = |last: u32| {
        format!(
            r#"{{"all_or_nothing":true,"checks":[{{"rule":"per-account","attributes":{{"account":"a"}},"cost":8}},
            {{"rule":"per-account","attributes":{{"account":"a"}},"cost":1}},{{"rule":"jobs","attributes":{{"account":"a"}}}},
            {{"rule":"all-accounts","cost":{last}}},{{"service":"quick"}}]}}"#
        )
    };
    let refused = subject.post("/v1/check", &body(16)).await.json();
    assert_eq!((&refused["allowed"], &refused["refused"]), (&json!(false), &json!(3)));
    let results = refused["results"].as_array().unwrap();
    assert_eq!(results.len(), 4, "checks after the refused one are skipped");
    assert_eq!(results[3]["verdict"], "never");
    for (rule, left) in [("per-account", 10), ("jobs", 2), ("all-accounts", 15), ("quick", 1)] {
        assert_eq!(subject.remaining(rule).await, left, "{rule}");
    }
    let allowed = subject.post("/v1/check", &body(15)).await.json();
    assert_eq!((&allowed["allowed"], &allowed["refused"]), (&json!(true), &json!(null)));
    for (rule, left) in [("per-account", 1), ("jobs", 2), ("all-accounts", 0), ("quick", 0)] {
        assert_eq!(subject.remaining(rule).await, left, "{rule}");
    }
}

#[tokio::test]
async fn a_check_releases_permits_and_keeps_estimates() {
    let subject = TestApi::new();
    for _ in 0..5 {
        let check = subject.post("/v1/check", r#"{"rule":"jobs","attributes":{"account":"a"}}"#).await.json();
        assert_eq!(check["allowed"], true);
    }
    subject.post("/v1/check", r#"{"rule":"estimated"}"#).await;
    let decision = subject.post("/v1/check", r#"{"rule":"estimated"}"#).await.json();
    assert_eq!(decision["limits"][0]["remaining"], 1_800);
}

/// An overload refusal names the readings, in all calls that decide.
#[tokio::test]
async fn an_overload_refusal_names_the_readings() {
    let subject = TestApi::new();
    let [(_, gate)] = &subject.sluice.gates()[..] else { panic!("expected one gate") };
    let reason = "cpu 97% > 85%: at most 1 per 1s";
    gate.set_limits(GateLimits {
        rate: Some(VariableRate { count: 1.0, window: Duration::from_secs(1) }),
        ..GateLimits::OPEN
    });
    gate.set_notice(OverloadNotice { state: "limited", reason: reason.to_owned(), readings: Vec::new() });
    let call = async |path| subject.post(path, r#"{"service":"protected"}"#).await.json();
    let admitted = call("/v1/check").await;
    assert_eq!((&admitted["allowed"], admitted.get("reason")), (&json!(true), None));
    for path in ["/v1/check", "/v1/permits", "/v1/reserve"] {
        let refused = call(path).await;
        assert_eq!((&refused["rule"], &refused["cause"]), (&json!("protected"), &json!("overload")), "{path}");
        assert_eq!(refused["reason"], reason, "{path}");
    }
    // No reason is invented without a notice.
    gate.set_notice(OverloadNotice::default());
    let refused = call("/v1/check").await;
    assert_eq!((&refused["cause"], refused.get("reason")), (&json!("overload"), None));
}

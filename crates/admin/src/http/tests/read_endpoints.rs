//! Read endpoints.

use serde_json::json;

use super::{TOKENS, TestServer};

#[tokio::test]
async fn rules_are_listed_with_their_counts() {
    let subject = TestServer::start(Some(TOKENS));
    subject.fixture.send_requests("203.0.113.9", 3);
    let rules = subject.get("/v1/rules").await.json();
    let names: Vec<&str> =
        rules["rules"].as_array().unwrap().iter().map(|rule| rule["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["per-ip", "everything", "trial", "jobs", "tiers"]);
    let per_ip = subject.get("/v1/rules/per-ip").await.json();
    assert_eq!(per_ip, rules["rules"][0]);
    assert_eq!((&per_ip["counts"]["admitted"], &per_ip["counts"]["refused"]), (&json!(2), &json!(1)));
    assert_eq!(per_ip["limits"], json!(["300/1m", "2/5s"]));
    assert_eq!(
        (&per_ip["key"], &per_ip["used"], &per_ip["match"]),
        (&json!(["client.ip"]), &json!(null), &json!(null))
    );
    assert_eq!(per_ip["ban"], json!({"after": 3, "within_s": 60.0, "for_s": 600.0}));
    assert_eq!((&per_ip["direction"], &per_ip["adaptive_kind"]), (&json!("inbound"), &json!(null)));
    let everything = subject.get("/v1/rules/everything").await.json();
    assert_eq!(everything["used"], 0.002);
    assert_eq!(subject.get("/v1/rules/jobs").await.json()["permits"], 0);
    assert_eq!(subject.get("/v1/rules/trial").await.json()["match"], "GET /api/**");
    subject.get("/v1/rules/perip").await.assert_problem(404, "unknown-rule", "did you mean 'per-ip'?");
    subject.get("/v1/rules/%00%0d%0a").await.assert_problem(404, "unknown-rule", r"'\0\r\n'");
    let shadow = subject.get("/v1/shadow").await.json();
    assert_eq!(shadow, json!({"rules": [{"name": "trial", "would_admit": 1, "would_refuse": 1}]}));
}

#[tokio::test]
async fn status_summarises_the_process() {
    let subject = TestServer::start(Some(TOKENS));
    let status = subject.get("/v1/status").await.json();
    assert_eq!(status["rules"]["count"], 5);
    assert_eq!((&status["rules"]["origin"], &status["rules"]["version"]), (&json!("file"), &json!(1)));
    assert!(status["rules"]["path"].as_str().unwrap().ends_with("rules.yaml"));
    assert_eq!(
        (&status["bans"], &status["store"], &status["rules"]["last_error"]),
        (&json!(0), &json!(null), &json!(null))
    );
    assert_eq!(subject.get("/v1/store").await.text(), "null");
}

#[tokio::test]
async fn limits_are_listed_as_numbers() {
    let subject = TestServer::start(Some(TOKENS));
    let limits = subject.get("/v1/limits").await.json();
    let first = &limits["rules"][0]["limits"][0];
    assert_eq!(
        *first,
        json!({"limit": "300/1m", "label": "300/1m", "algorithm": "sliding_window", "unit": "requests", "amount": 300,
            "window_s": 60.0, "burst": null, "rate": "300/1m", "cells": null, "alignment": null, "warm_up_s": null,
            "cold_factor": null})
    );
    assert_eq!(limits["rules"][0]["configured"], limits["rules"][0]["limits"]);
    let tiers = &limits["rules"][4]["limits"][0];
    assert_eq!((&tiers["amount"], &tiers["window_s"], &tiers["burst"]), (&json!(1), &json!(1.0), &json!(5)));
    assert_eq!(tiers["rate"], "1/s");
    let jobs = &limits["rules"][3]["limits"][0];
    assert_eq!((&jobs["window_s"], &jobs["rate"]), (&json!(null), &json!(null)));
}

#[tokio::test]
async fn a_key_is_queried_by_its_values() {
    let subject = TestServer::start(Some(TOKENS));
    let known = |response: &super::TestResponse| response.json()["known"].as_bool().unwrap();
    let path = "/v1/keys?rule=per-ip&key=203.0.113.9";
    assert!(!known(&subject.get(path).await));
    subject.fixture.send_requests("203.0.113.9", 3);
    let key = subject.get(path).await;
    assert!(known(&key));
    let limits = &key.json()["limits"];
    assert_eq!((&limits[0]["remaining"], &limits[1]["remaining"]), (&json!(298), &json!(0)));
    assert!(limits[1]["retry_after_s"].as_f64().unwrap() > 0.0);
    let tiers = subject.get("/v1/keys?rule=tiers&key=vip&key=alice").await.json();
    assert_eq!(tiers["key"], "header['x-tier']=vip, account=alice");
    assert_eq!(subject.get("/v1/keys?rule=everything").await.json()["limits"][0]["remaining"], 998);
    subject.get("/v1/keys?rule=tiers&key=vip").await.assert_problem(422, "unprocessable", "2 parts, but 1 values");
    subject.get("/v1/keys?rule=per-ip&key=nowhere").await.assert_problem(422, "unprocessable", "must be an address");
    subject.get("/v1/keys?rule=per-ipp&key=1").await.assert_problem(404, "unknown-rule", "did you mean 'per-ip'?");
    subject.get("/v1/keys?key=1").await.assert_problem(400, "invalid", "missing parameter `rule`");
}

#[tokio::test]
async fn explain_gives_reasons_and_consumes_nothing() {
    let subject = TestServer::start(Some(TOKENS));
    let explain =
        async |body: serde_json::Value| subject.write("POST", "/v1/explain", Some(&body.to_string())).await.json();
    let request = json!({"method": "GET", "path": "/api/x?draft=1", "ip": "203.0.113.9"});
    for _ in 0..5 {
        let allowed = explain(request.clone()).await;
        assert_eq!((&allowed["verdict"], &allowed["list"]), (&json!("allowed"), &json!(null)));
        assert_eq!(allowed["reason"], "all 3 matching rules admit it");
        assert_eq!(allowed["rules"][3]["mismatch_reason"], "the path is /api/x, not /jobs");
        let mismatch = json!({"part": "path", "expected": ["/jobs"], "actual": "/api/x"});
        assert_eq!((&allowed["rules"][3]["mismatch"], &allowed["rules"][0]["cause"]), (&mismatch, &json!(null)));
        assert_eq!(allowed["rules"][0]["remaining"], 2);
    }
    subject.fixture.send_requests("203.0.113.9", 2);
    let refused = explain(request.clone()).await;
    assert_eq!((&refused["verdict"], &refused["rules"][0]["verdict"]), (&json!("refused"), &json!("refused")));
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.starts_with("rule 'per-ip' for 203.0.113.9: 2/5s is exhausted, retry in "), "{reason}");
    assert_eq!(refused["rules"][0]["cause"], "limit");
    let denied = explain(json!({"method": "GET", "path": "/", "ip": "198.51.100.7"})).await;
    assert_eq!(denied["list"], json!({"list": "deny", "condition": "client.ip in 198.51.100.0/24"}));
    assert_eq!(denied["verdict"], "refused");
    let allowed = explain(json!({"path": "/", "ip": "198.51.100.7", "attributes": {"account": "root"}})).await;
    assert_eq!((&allowed["verdict"], &allowed["list"]["list"]), (&json!("allowed"), &json!("allow")));
    let keyless = explain(json!({"path": "/", "service": "tiers", "headers": {"X-Tier": "vip"}})).await;
    assert_eq!(keyless["rules"][4]["mismatch_reason"], "the rule matches, but the request has no account");
    assert_eq!(keyless["rules"][0]["mismatch_reason"], "the rule matches, but the request has no client.ip");
    subject.fixture.sluice.ban("per-ip", &["203.0.113.9"], None).unwrap();
    let banned = explain(request).await;
    let reason = banned["reason"].as_str().unwrap();
    assert!(reason.starts_with("rule 'per-ip' for 203.0.113.9: banned for another "), "{reason}");
    assert_eq!(banned["rules"][0]["cause"], "ban");
}

#[tokio::test]
async fn versions_are_listed_with_author_and_comment() {
    let subject = TestServer::start(Some(TOKENS));
    let versions = subject.get("/v1/versions").await.json();
    assert_eq!((&versions["versions"][0]["version"], &versions["versions"][0]["current"]), (&json!(1), &json!(true)));
    assert_eq!(versions["versions"][0]["change"], json!({"kind": "start", "version": null}));
    assert_eq!(subject.get("/v1/versions/1").await.json()["text"], super::RULES);
    subject.get("/v1/versions/7").await.assert_problem(404, "unknown-version", "unknown version 7");
    subject.get("/v1/versions/x").await.assert_problem(404, "unknown-version", "invalid version number");
    subject.get("/v1/versions/99999999999999999999999").await.assert_problem(
        404,
        "unknown-version",
        "invalid version number",
    );
}

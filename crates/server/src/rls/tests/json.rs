//! The JSON variant.

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::support::{MAX_REQUEST, RlsTestServer, per_minute, rule, serve, serve_file};

async fn post(served: &RlsTestServer, body: impl Into<Bytes>) -> (StatusCode, String, String) {
    let (parts, body) = served.rls.handle_json(body.into()).await.into_parts();
    let kind = parts.headers["content-type"].to_str().unwrap().to_owned();
    (parts.status, kind, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

#[tokio::test]
async fn json_requests_are_decided() {
    let served = serve_file(
        "
domain: edge
descriptors:
- key: path
  rate_limit: {unit: hour, requests_per_unit: 1, name: per-path}
",
    )
    .await;
    let request = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "path", "value": "/a"}]}]}"#;
    for (expected, code) in [(StatusCode::OK, "OK"), (StatusCode::TOO_MANY_REQUESTS, "OVER_LIMIT")] {
        let (status, kind, body) = post(&served, request).await;
        assert_eq!((status, kind.as_str()), (expected, "application/json"));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["overallCode"], code);
        let status_json = &body["statuses"][0];
        // None remaining: default values are omitted.
        assert_eq!((&status_json["code"], &status_json["limitRemaining"]), (&json!(code), &Value::Null));
        assert_eq!(status_json["currentLimit"], json!({"name": "per-path", "requestsPerUnit": 1, "unit": "HOUR"}));
        assert!(status_json["durationUntilReset"].as_str().unwrap().ends_with('s'));
    }
}

#[tokio::test]
async fn invalid_json_requests_are_refused_with_a_reason() {
    let served = serve([rule("total", per_minute(1))]).await;
    let long = format!(r#"{{"domain": "{}"}}"#, "x".repeat(MAX_REQUEST));
    for (body, expected) in [
        ("", "invalid RateLimitRequest"),
        ("{}", "the domain is empty"),
        (r#"{"domain": "edge"}"#, "no descriptors"),
        (r#"{"domain": "edge", "descriptors": [{}]}"#, "descriptor 1 has no entries"),
        (r#"{"domain": "edge", "descriptors": [{"entries": [{"value": "b"}]}]}"#, "without a key"),
        (
            r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}], "limit": {"requestsPerUnit": 1}}]}"#,
            "the unknown unit 0",
        ),
        (r#"{"domian": "edge"}"#, "unknown field `domian`"),
        (&long, "the maximum is 65536"),
    ] {
        let (status, kind, text) = post(&served, body.to_owned()).await;
        assert_eq!((status, kind.as_str()), (StatusCode::BAD_REQUEST, "text/plain; charset=utf-8"));
        assert!(text.contains(expected), "{text}");
    }
    let good = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}]}]}"#;
    assert_eq!(post(&served, good).await.0, StatusCode::OK);
}

//! The same decisions as JSON.

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::support::{MAX_REQUEST, Served, per_minute, rule, serve, serve_file};

async fn post(served: &Served, body: impl Into<Bytes>) -> (StatusCode, String, String) {
    let (parts, body) = served.rls.json(body.into()).await.into_parts();
    let kind = parts.headers["content-type"].to_str().unwrap().to_owned();
    (parts.status, kind, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

#[tokio::test]
async fn a_request_is_decided_and_answered_as_json() {
    let served = serve_file(
        "
domain: edge
descriptors:
- key: path
  rate_limit: {unit: hour, requests_per_unit: 1, name: per-path}
",
    )
    .await;
    let asked = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "path", "value": "/a"}]}]}"#;
    for (expected, code) in [(StatusCode::OK, "OK"), (StatusCode::TOO_MANY_REQUESTS, "OVER_LIMIT")] {
        let (status, kind, body) = post(&served, asked).await;
        assert_eq!((status, kind.as_str()), (expected, "application/json"));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["overallCode"], code);
        let told = &body["statuses"][0];
        // None left: what has its usual value is left out.
        assert_eq!((&told["code"], &told["limitRemaining"]), (&json!(code), &Value::Null));
        assert_eq!(told["currentLimit"], json!({"name": "per-path", "requestsPerUnit": 1, "unit": "HOUR"}));
        assert!(told["durationUntilReset"].as_str().unwrap().ends_with('s'));
    }
}

#[tokio::test]
async fn what_cannot_be_decided_is_refused_with_a_reason() {
    let served = serve([rule("total", per_minute(1))]).await;
    let long = format!(r#"{{"domain": "{}"}}"#, "x".repeat(MAX_REQUEST));
    for (body, expected) in [
        ("", "this is no RateLimitRequest"),
        ("{}", "the domain is empty"),
        (r#"{"domain": "edge"}"#, "there are no descriptors"),
        (r#"{"domain": "edge", "descriptors": [{}]}"#, "descriptor 1 has no entries"),
        (r#"{"domain": "edge", "descriptors": [{"entries": [{"value": "b"}]}]}"#, "without a key"),
        (
            r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}], "limit": {"requestsPerUnit": 1}}]}"#,
            "a unit that is unknown",
        ),
        (r#"{"domian": "edge"}"#, "unknown field `domian`"),
        (&long, "the most are 65536"),
    ] {
        let (status, kind, text) = post(&served, body.to_owned()).await;
        assert_eq!((status, kind.as_str()), (StatusCode::BAD_REQUEST, "text/plain; charset=utf-8"));
        assert!(text.contains(expected), "{text}");
    }
    let good = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}]}]}"#;
    assert_eq!(post(&served, good).await.0, StatusCode::OK);
}

//! Write endpoints.

use serde_json::json;

use super::{RULES, TOKENS, TestServer};

#[tokio::test]
async fn a_key_is_reset() {
    let subject = TestServer::start(Some(TOKENS));
    subject.fixture.send_requests("203.0.113.9", 2);
    let path = "/v1/keys?rule=per-ip&key=203.0.113.9";
    assert_eq!(subject.write("DELETE", path, None).await.json(), json!({"reset": true}));
    assert_eq!(subject.get(path).await.json()["limits"][1]["remaining"], 2);
    subject.write("DELETE", "/v1/keys?rule=none&key=1", None).await.assert_problem(404, "unknown-rule", "");
    subject.write("DELETE", "/v1/keys?rule=per-ip", None).await.assert_problem(422, "unprocessable", "0 values");
}

#[tokio::test]
async fn bans_are_added_and_removed() {
    let subject = TestServer::start(Some(TOKENS));
    let ban = async |body: &str| subject.write("POST", "/v1/bans", Some(body)).await;
    let banned = ban(r#"{"rule":"per-ip","key":["2001:db8::7"],"for":"5m"}"#).await;
    assert_eq!(banned.status, 201);
    assert_eq!((&banned.json()["key"], &banned.json()["rule"]), (&json!("2001:db8::/64"), &json!("per-ip")));
    let bans = subject.get("/v1/bans").await.json();
    let remaining = bans["bans"][0]["remaining_s"].as_f64().unwrap();
    assert!(remaining > 290.0 && remaining <= 300.0, "{remaining}");
    let remove = "/v1/bans?rule=per-ip&key=2001%3Adb8%3A%3A%2F64";
    assert_eq!(subject.write("DELETE", remove, None).await.json(), json!({"removed": true}));
    assert_eq!(subject.write("DELETE", remove, None).await.json(), json!({"removed": false}));
    ban(r#"{"rule":"everything","key":[]}"#).await.assert_problem(409, "conflict", "no ban");
    ban(r#"{"rule":"none","key":[]}"#).await.assert_problem(404, "unknown-rule", "");
    ban(r#"{"rule":"per-ip","key":["x"]}"#).await.assert_problem(422, "unprocessable", "address");
    ban(r#"{"rule":"per-ip","key":["192.0.2.1"],"for":"soon"}"#).await.assert_problem(
        400,
        "invalid",
        "invalid duration",
    );
    ban(r#"{"rule":"per-ip","key":["192.0.2.1"],"for":"0s"}"#).await.assert_problem(400, "invalid", "must not be zero");
    assert!(subject.fixture.sluice.bans().is_empty());
}

#[tokio::test]
async fn lists_are_added_to_and_removed_from() {
    let subject = TestServer::start(Some(TOKENS));
    let add = async |list: &str, body: &str| subject.write("POST", &format!("/v1/lists/{list}"), Some(body)).await;
    let added = add("deny", r#"{"condition":"client.ip in 203.0.113.0/24","for":"10m"}"#).await;
    assert_eq!(added.status, 201);
    assert_eq!(
        added.json(),
        json!({"condition": "client.ip in 203.0.113.0/24", "source": "runtime", "expires_in_s": 600.0})
    );
    assert_eq!(add("allow", r#"{"condition":"account=='alice'"}"#).await.status, 201);
    subject.fixture.send_requests("203.0.113.9", 3);
    let lists = subject.get("/v1/lists").await.json();
    let sources: Vec<_> = lists["deny"].as_array().unwrap().iter().map(|entry| &entry["source"]).collect();
    assert_eq!((sources, &lists["hits"]), (vec![&json!("file"), &json!("runtime")], &json!({"allow": 0, "deny": 3})));
    let remove = async |list: &str, condition: &str| {
        let query: String =
            form_urlencoded::Serializer::new(String::new()).append_pair("condition", condition).finish();
        subject.write("DELETE", &format!("/v1/lists/{list}?{query}"), None).await
    };
    assert_eq!(remove("deny", "client.ip  in  203.0.113.0/24").await.json(), json!({"removed": true}));
    assert_eq!(remove("deny", "client.ip in 203.0.113.0/24").await.json(), json!({"removed": false}));
    remove("deny", "client.ip in 198.51.100.0/24").await.assert_problem(409, "conflict", "is in the rule file");
    remove("deny", "client.ip in").await.assert_problem(422, "unprocessable", "");
    add("deny", r#"{"condition":"client.ip in 203.0.113.0/99"}"#).await.assert_problem(422, "unprocessable", "");
    add("grey", r#"{"condition":"account == 'x'"}"#).await.assert_problem(404, "unknown-path", "");
    let long = json!({"condition": format!("account == '{}'", "x".repeat(20_000))}).to_string();
    add("deny", &long).await.assert_problem(422, "unprocessable", "more than 16384 bytes");
    let (local, shared) = subject.fixture.sluice.lists();
    assert_eq!((local.deny.len(), shared.deny.len(), shared.allow.len()), (1, 0, 1));
}

#[tokio::test]
async fn rules_are_checked_applied_and_restored() {
    let subject = TestServer::start(Some(TOKENS));
    let bad = json!({"text": "rules:\n  - { name: a, limits: [0/1m] }\n"}).to_string();
    let checked = subject.write("POST", "/v1/source/check", Some(&bad)).await.json();
    assert_eq!((&checked["ok"], &checked["errors"][0]["line"]), (&json!(false), &json!(2)));
    let put = async |text: &str, based_on: u64| {
        let body = json!({"text": text, "based_on": based_on, "comment": "a try"}).to_string();
        subject.write("PUT", "/v1/source", Some(&body)).await
    };
    let refused = put("rules:\n  - { name: a, limits: [0/1m] }\n", 1).await;
    refused.assert_problem(422, "invalid-rules", "line 2");
    assert_eq!(refused.json()["errors"][0]["line"], 2);
    let generation = subject.fixture.sluice.generation();
    let one = "rules:\n  - { name: only, limits: [5/1m] }\n";
    let applied = put(one, 1).await;
    assert_eq!((applied.status.as_u16(), &applied.json()["version"]), (200, &json!(2)));
    assert!(applied.json()["generation"].as_u64().unwrap() > generation);
    put(RULES, 1).await.assert_problem(409, "stale-version", "version 2 is active");
    let source = subject.get("/v1/source").await;
    assert_eq!((source.header("etag"), &source.json()["text"]), (Some("\"2\""), &json!(one)));
    let versions = subject.get("/v1/versions").await.json();
    assert_eq!(
        (&versions["versions"][0]["author"], &versions["versions"][0]["comment"]),
        (&json!("alice"), &json!("a try"))
    );
    let restored = subject.write("POST", "/v1/versions/1/restore", Some(r#"{"comment":"no good"}"#)).await.json();
    assert_eq!(restored["version"], 3);
    assert_eq!(subject.fixture.sluice.rules().len(), 5);
    subject.write("POST", "/v1/versions/9/restore", None).await.assert_problem(
        404,
        "unknown-version",
        "unknown version 9",
    );
    std::fs::write(subject.fixture.folder.join("rules.yaml"), "rules: [").unwrap();
    subject.write("POST", "/v1/reload", None).await.assert_problem(422, "invalid-rules", "");
    assert!(subject.get("/v1/status").await.json()["rules"]["last_error"]["message"].is_string());
    std::fs::write(subject.fixture.folder.join("rules.yaml"), one).unwrap();
    assert_eq!(subject.write("POST", "/v1/reload", None).await.json()["version"], 4);
}

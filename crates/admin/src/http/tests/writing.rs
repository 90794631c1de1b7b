//! What can be changed.

use serde_json::json;

use super::{RULES, Subject, TOKENS};

#[tokio::test]
async fn a_key_is_forgotten() {
    let subject = Subject::start(Some(TOKENS));
    subject.kept.ask("203.0.113.9", 2);
    let path = "/v1/keys?rule=per-ip&key=203.0.113.9";
    assert_eq!(subject.act("DELETE", path, None).await.json(), json!({"reset": true}));
    assert_eq!(subject.get(path).await.json()["limits"][1]["remaining"], 2);
    subject.act("DELETE", "/v1/keys?rule=none&key=1", None).await.is_problem(404, "unknown-rule", "");
    subject.act("DELETE", "/v1/keys?rule=per-ip", None).await.is_problem(422, "unprocessable", "0 values");
}

#[tokio::test]
async fn bans_are_pronounced_and_lifted() {
    let subject = Subject::start(Some(TOKENS));
    let ban = async |body: &str| subject.act("POST", "/v1/bans", Some(body)).await;
    let banned = ban(r#"{"rule":"per-ip","key":["2001:db8::7"],"for":"5m"}"#).await;
    assert_eq!(banned.status, 201);
    assert_eq!((&banned.json()["key"], &banned.json()["rule"]), (&json!("2001:db8::/64"), &json!("per-ip")));
    let bans = subject.get("/v1/bans").await.json();
    let left = bans["bans"][0]["remaining_s"].as_f64().unwrap();
    assert!(left > 290.0 && left <= 300.0, "{left}");
    let lift = "/v1/bans?rule=per-ip&key=2001%3Adb8%3A%3A%2F64";
    assert_eq!(subject.act("DELETE", lift, None).await.json(), json!({"lifted": true}));
    assert_eq!(subject.act("DELETE", lift, None).await.json(), json!({"lifted": false}));
    ban(r#"{"rule":"everything","key":[]}"#).await.is_problem(409, "conflict", "no ban");
    ban(r#"{"rule":"none","key":[]}"#).await.is_problem(404, "unknown-rule", "");
    ban(r#"{"rule":"per-ip","key":["x"]}"#).await.is_problem(422, "unprocessable", "address");
    ban(r#"{"rule":"per-ip","key":["192.0.2.1"],"for":"soon"}"#).await.is_problem(400, "invalid", "is no time");
    ban(r#"{"rule":"per-ip","key":["192.0.2.1"],"for":"0s"}"#).await.is_problem(400, "invalid", "no time at all");
    assert!(subject.kept.sluice.bans().is_empty());
}

#[tokio::test]
async fn lists_are_added_to_and_removed_from() {
    let subject = Subject::start(Some(TOKENS));
    let add = async |list: &str, body: &str| subject.act("POST", &format!("/v1/lists/{list}"), Some(body)).await;
    let added = add("deny", r#"{"condition":"client.ip in 203.0.113.0/24","for":"10m"}"#).await;
    assert_eq!(added.status, 201);
    assert_eq!(
        added.json(),
        json!({"condition": "client.ip in 203.0.113.0/24", "source": "added", "expires_in_s": 600.0})
    );
    assert_eq!(add("allow", r#"{"condition":"account=='alice'"}"#).await.status, 201);
    subject.kept.ask("203.0.113.9", 3);
    let lists = subject.get("/v1/lists").await.json();
    let sources: Vec<_> = lists["deny"].as_array().unwrap().iter().map(|entry| &entry["source"]).collect();
    assert_eq!((sources, &lists["hits"]), (vec![&json!("file"), &json!("added")], &json!({"allow": 0, "deny": 3})));
    let remove = async |list: &str, condition: &str| {
        let query: String =
            form_urlencoded::Serializer::new(String::new()).append_pair("condition", condition).finish();
        subject.act("DELETE", &format!("/v1/lists/{list}?{query}"), None).await
    };
    assert_eq!(remove("deny", "client.ip  in  203.0.113.0/24").await.json(), json!({"removed": true}));
    assert_eq!(remove("deny", "client.ip in 203.0.113.0/24").await.json(), json!({"removed": false}));
    remove("deny", "client.ip in 198.51.100.0/24").await.is_problem(409, "conflict", "stands in the rule file");
    remove("deny", "client.ip in").await.is_problem(422, "unprocessable", "");
    add("deny", r#"{"condition":"client.ip in 203.0.113.0/99"}"#).await.is_problem(422, "unprocessable", "");
    add("grey", r#"{"condition":"account == 'x'"}"#).await.is_problem(404, "unknown-path", "");
    let long = json!({"condition": format!("account == '{}'", "x".repeat(20_000))}).to_string();
    add("deny", &long).await.is_problem(422, "unprocessable", "more than 16384 bytes");
    let (own, further) = subject.kept.sluice.lists();
    assert_eq!((own.deny.len(), further.deny.len(), further.allow.len()), (1, 0, 1));
}

#[tokio::test]
async fn a_text_is_checked_put_in_force_and_taken_back() {
    let subject = Subject::start(Some(TOKENS));
    let bad = json!({"text": "rules:\n  - { name: a, limits: [0/1m] }\n"}).to_string();
    let checked = subject.act("POST", "/v1/source/check", Some(&bad)).await.json();
    assert_eq!((&checked["ok"], &checked["faults"][0]["line"]), (&json!(false), &json!(2)));
    let put = async |text: &str, based_on: u64| {
        let body = json!({"text": text, "based_on": based_on, "comment": "a try"}).to_string();
        subject.act("PUT", "/v1/source", Some(&body)).await
    };
    let refused = put("rules:\n  - { name: a, limits: [0/1m] }\n", 1).await;
    refused.is_problem(422, "faulty-rules", "line 2");
    assert_eq!(refused.json()["faults"][0]["line"], 2);
    let edition = subject.kept.sluice.edition();
    let one = "rules:\n  - { name: only, limits: [5/1m] }\n";
    let applied = put(one, 1).await;
    assert_eq!((applied.status.as_u16(), &applied.json()["version"]), (200, &json!(2)));
    assert!(applied.json()["edition"].as_u64().unwrap() > edition);
    put(RULES, 1).await.is_problem(409, "overtaken", "version 2 is in force");
    let source = subject.get("/v1/source").await;
    assert_eq!((source.header("etag"), &source.json()["text"]), (Some("\"2\""), &json!(one)));
    let versions = subject.get("/v1/versions").await.json();
    assert_eq!(
        (&versions["versions"][0]["author"], &versions["versions"][0]["comment"]),
        (&json!("alice"), &json!("a try"))
    );
    let back = subject.act("POST", "/v1/versions/1/restore", Some(r#"{"comment":"no good"}"#)).await.json();
    assert_eq!(back["version"], 3);
    assert_eq!(subject.kept.sluice.rules().len(), 5);
    subject.act("POST", "/v1/versions/9/restore", None).await.is_problem(404, "unknown-version", "no version 9");
    std::fs::write(subject.kept.folder.join("rules.yaml"), "rules: [").unwrap();
    subject.act("POST", "/v1/reload", None).await.is_problem(422, "faulty-rules", "");
    assert!(subject.get("/v1/status").await.json()["rules"]["last_error"]["message"].is_string());
    std::fs::write(subject.kept.folder.join("rules.yaml"), one).unwrap();
    assert_eq!(subject.act("POST", "/v1/reload", None).await.json()["version"], 4);
}

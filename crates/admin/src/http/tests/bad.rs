//! Input that nobody should send.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Subject, TOKENS, WRITE, call};

#[tokio::test]
async fn bodies_that_make_no_sense_are_told_why_and_change_nothing() {
    let subject = Subject::start(Some(TOKENS));
    let edition = subject.kept.sluice.edition();
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_within = format!(r#"{{"rule":"per-ip","key":{deep}}}"#);
    let long_key = format!(r#"{{"rule":"tiers","key":["{}","a"]}}"#, "x".repeat(60_000));
    for (path, body, status, kind, says) in [
        ("/v1/bans", "", 400, "not-json", "EOF"),
        ("/v1/bans", "{", 400, "not-json", "EOF"),
        ("/v1/bans", "nonsense", 400, "not-json", "expected"),
        ("/v1/bans", "{} {}", 400, "invalid", "missing field `rule`"),
        ("/v1/bans", r#"["per-ip",["203.0.113.9"],null]"#, 400, "invalid", "it is no object"),
        ("/v1/bans", "null", 400, "invalid", ""),
        ("/v1/bans", deep.as_str(), 400, "invalid", "it is no object"),
        ("/v1/bans", deep_within.as_str(), 400, "invalid", ""),
        ("/v1/bans", r#"{"rule":"per-ip","rule":"per-ip","key":[]}"#, 400, "invalid", "duplicate field `rule`"),
        ("/v1/bans", r#"{"rule":"per-ip","key":[],"colour":1}"#, 400, "invalid", "unknown field `colour`"),
        ("/v1/bans", r#"{"rule":"per-ip","key":"203.0.113.9"}"#, 400, "invalid", "expected a sequence"),
        ("/v1/bans", r#"{"rule":"per-ip","key":[""]}"#, 422, "unprocessable", "not empty"),
        ("/v1/bans", r#"{"rule":"per-ip","key":["203.0.113.9\u0000"]}"#, 422, "unprocessable", "address"),
        ("/v1/bans", long_key.as_str(), 409, "conflict", "no ban"),
        ("/v1/bans", r#"{"rule":"","key":[]}"#, 404, "unknown-rule", "''"),
        ("/v1/explain", r#"{"path":"/","headers":{"a":"1","a":"2"}}"#, 400, "invalid", "there twice"),
        ("/v1/explain", r#"{"path":"/","headers":{"a":1}}"#, 400, "invalid", "expected a string"),
        ("/v1/explain", r#"{"path":"/","cost":-1}"#, 400, "invalid", "u64"),
        ("/v1/explain", r#"{"path":"/","cost":1.5}"#, 400, "invalid", "u64"),
        ("/v1/explain", r#"{"path":"/","ip":"300.1.1.1"}"#, 422, "unprocessable", "is no address"),
        ("/v1/explain", r#"{"path":"orders"}"#, 422, "unprocessable", "must begin with /"),
        ("/v1/explain", r#"{"path":"/","side":"left"}"#, 422, "unprocessable", "is no side"),
        ("/v1/explain", r#"{"path":"/","descriptor":[["a"]]}"#, 400, "invalid", ""),
        ("/v1/lists/deny", r#"{"condition":""}"#, 422, "unprocessable", ""),
        ("/v1/lists/deny", r#"{"condition":"\u0000"}"#, 422, "unprocessable", ""),
        ("/v1/source", r#"{"text":"rules: []"}"#, 400, "invalid", "based_on"),
        ("/v1/source", r#"{"text":"rules: []","based_on":1,"comment":"a\nb"}"#, 400, "invalid", "one line"),
        ("/v1/source", r#"{"text":"","based_on":7}"#, 409, "overtaken", "version 1"),
        ("/v1/source", r#"{"text":"\u0000\u0001","based_on":1}"#, 422, "faulty-rules", ""),
        ("/v1/reload", "[]", 400, "invalid", "send no body"),
        ("/v1/reload", r#"{"now":true}"#, 413, "too-large", ""),
    ] {
        let method = if path == "/v1/source" { "PUT" } else { "POST" };
        let answer = subject.act(method, path, Some(body)).await;
        let shown: String = body.chars().take(80).collect();
        assert_eq!(answer.status, status, "{path} {shown}: {}", answer.text());
        answer.is_problem(status, kind, says);
        assert!(answer.body.len() < 2_000, "{path} {shown}");
        assert!(!answer.body.iter().any(u8::is_ascii_control), "{path} {shown}");
    }
    assert_eq!(subject.kept.sluice.edition(), edition);
    assert!(subject.kept.sluice.bans().is_empty());
}

#[tokio::test]
async fn a_fault_is_told_with_its_place() {
    let subject = Subject::start(Some(TOKENS));
    for (path, body, pointer) in [
        ("/v1/bans", r#"{"rule":"per-ip","key":["a",1]}"#, "/key/1"),
        ("/v1/explain", r#"{"path":"/","headers":{"a/b":1}}"#, "/headers/a~1b"),
        ("/v1/explain", r#"{"path":"/","descriptor":[["a","b"],["c",1]]}"#, "/descriptor/1/1"),
        ("/v1/explain", r#"{"path":"/","ip":"x"}"#, "/ip"),
        ("/v1/lists/deny", r#"{"condition":"client.ip in"}"#, "/condition"),
    ] {
        assert_eq!(subject.act("POST", path, Some(body)).await.json()["pointer"], pointer, "{body}");
    }
}

#[tokio::test]
async fn a_key_of_a_megabyte_is_refused() {
    let subject = Subject::start(Some(TOKENS));
    let large = format!(r#"{{"rule":"per-ip","key":["{}"]}}"#, "1".repeat(1 << 20));
    subject.act("POST", "/v1/bans", Some(&large)).await.is_problem(413, "too-large", "more than 65536 bytes");
    let large = format!("/v1/keys?rule=per-ip&key={}", "1".repeat(1 << 20));
    let mut stream = TcpStream::connect(subject.address).await.unwrap();
    let head = format!("GET {large} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {WRITE}\r\n\r\n");
    // It may hang up before all of it is sent.
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_eq!(subject.get("/v1/status").await.status, 200);
}

#[tokio::test]
async fn what_does_not_say_that_it_is_json_is_not_read() {
    let subject = Subject::start(Some(TOKENS));
    for (path, kind) in [
        ("/v1/explain", None),
        ("/v1/explain", Some("text/plain")),
        ("/v1/explain", Some("application/x-www-form-urlencoded")),
        ("/v1/explain", Some("application/jsonp")),
        ("/v1/versions/1/restore", Some("text/plain")),
    ] {
        let mut request = call("POST", path, Some(WRITE), Some("{}"));
        request.headers_mut().remove("content-type");
        if let Some(kind) = kind {
            request.headers_mut().insert("content-type", kind.parse().unwrap());
        }
        subject.send(request).await.is_problem(415, "content-type", "application/json");
    }
    let mut request = call("POST", "/v1/explain", Some(WRITE), Some(r#"{"path":"/"}"#));
    request.headers_mut().insert("content-type", "Application/JSON; charset=utf-8".parse().unwrap());
    assert_eq!(subject.send(request).await.status, 200);
}

#[tokio::test]
async fn large_bodies_are_refused_unread_and_rules_may_be_larger() {
    let subject = Subject::start(Some(TOKENS));
    let mut stream = TcpStream::connect(subject.address).await.unwrap();
    let head = format!(
        "PUT /v1/source HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {WRITE}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        17 << 20
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    let large = format!(r#"{{"text":"{}"}}"#, "# comment\\n".repeat(100_000));
    let checked = subject.act("POST", "/v1/source/check", Some(&large)).await;
    assert_eq!(checked.status, 200, "{}", checked.text());
}

#[tokio::test]
async fn parameters_that_nobody_knows_are_told() {
    let subject = Subject::start(Some(TOKENS));
    for (path, says) in [
        ("/v1/rules?name=per-ip", "unknown parameter 'name': there are none here"),
        ("/v1/top?rul=per-ip", "did you mean `rule`?"),
        ("/v1/top?most=0", "say 1 to 1000"),
        ("/v1/top?most=many", "say 1 to 1000"),
        ("/v1/top?rule=a&rule=b", "there twice"),
        ("/v1/keys?rule=per-ip&key=1&keys=2", "did you mean `key`?"),
        ("/v1/status?%00", "'\\0'"),
    ] {
        subject.get(path).await.is_problem(400, "invalid", says);
    }
    subject.get("/v1/top?rule=none").await.is_problem(404, "unknown-rule", "");
}

/// What is no HTTP at all, or stops in the middle, is nobody else's affair.
#[tokio::test]
async fn broken_connections_leave_the_others_alone() {
    let subject = Subject::start(Some(TOKENS));
    let mut open = Vec::new();
    for start in
        ["\0\0\0\0\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "POST /v1/explain HTTP/1.1\r\ncontent-length: 10\r\n\r\n{"]
    {
        let mut stream = TcpStream::connect(subject.address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        open.push(stream);
    }
    let answer = tokio::time::timeout(Duration::from_secs(10), subject.get("/v1/status")).await.unwrap();
    assert_eq!(answer.status, 200);
}

//! Invalid input.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{TOKENS, TestServer, WRITE, call};

#[tokio::test]
async fn invalid_bodies_are_explained_and_change_nothing() {
    let subject = TestServer::start(Some(TOKENS));
    let generation = subject.fixture.sluice.generation();
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_within = format!(r#"{{"rule":"per-ip","key":{deep}}}"#);
    let long_key = format!(r#"{{"rule":"tiers","key":["{}","a"]}}"#, "x".repeat(60_000));
    for (path, body, status, kind, detail) in [
        ("/v1/bans", "", 400, "not-json", "EOF"),
        ("/v1/bans", "{", 400, "not-json", "EOF"),
        ("/v1/bans", "nonsense", 400, "not-json", "expected"),
        ("/v1/bans", "{} {}", 400, "invalid", "missing field `rule`"),
        ("/v1/bans", r#"["per-ip",["203.0.113.9"],null]"#, 400, "invalid", "expected a JSON object"),
        ("/v1/bans", "null", 400, "invalid", ""),
        ("/v1/bans", deep.as_str(), 400, "invalid", "expected a JSON object"),
        ("/v1/bans", deep_within.as_str(), 400, "invalid", ""),
        ("/v1/bans", r#"{"rule":"per-ip","rule":"per-ip","key":[]}"#, 400, "invalid", "duplicate field `rule`"),
        ("/v1/bans", r#"{"rule":"per-ip","key":[],"colour":1}"#, 400, "invalid", "unknown field `colour`"),
        ("/v1/bans", r#"{"rule":"per-ip","key":"203.0.113.9"}"#, 400, "invalid", "expected a sequence"),
        ("/v1/bans", r#"{"rule":"per-ip","key":[""]}"#, 422, "unprocessable", "non-empty"),
        ("/v1/bans", r#"{"rule":"per-ip","key":["203.0.113.9\u0000"]}"#, 422, "unprocessable", "address"),
        ("/v1/bans", long_key.as_str(), 409, "conflict", "no ban"),
        ("/v1/bans", r#"{"rule":"","key":[]}"#, 404, "unknown-rule", "''"),
        ("/v1/explain", r#"{"path":"/","headers":{"a":"1","a":"2"}}"#, 400, "invalid", "duplicate name"),
        ("/v1/explain", r#"{"path":"/","headers":{"a":1}}"#, 400, "invalid", "expected a string"),
        ("/v1/explain", r#"{"path":"/","cost":-1}"#, 400, "invalid", "u64"),
        ("/v1/explain", r#"{"path":"/","cost":1.5}"#, 400, "invalid", "u64"),
        ("/v1/explain", r#"{"path":"/","ip":"300.1.1.1"}"#, 422, "unprocessable", "invalid IP address"),
        ("/v1/explain", r#"{"path":"orders"}"#, 422, "unprocessable", "must start with /"),
        ("/v1/explain", r#"{"path":"/","direction":"left"}"#, 422, "unprocessable", "unknown direction"),
        ("/v1/explain", r#"{"path":"/","descriptor":[["a"]]}"#, 400, "invalid", ""),
        ("/v1/lists/deny", r#"{"condition":""}"#, 422, "unprocessable", ""),
        ("/v1/lists/deny", r#"{"condition":"\u0000"}"#, 422, "unprocessable", ""),
        ("/v1/source", r#"{"text":"rules: []"}"#, 400, "invalid", "based_on"),
        ("/v1/source", r#"{"text":"rules: []","based_on":1,"comment":"a\nb"}"#, 400, "invalid", "one line"),
        ("/v1/source", r#"{"text":"","based_on":7}"#, 409, "stale-version", "version 1"),
        ("/v1/source", r#"{"text":"\u0000\u0001","based_on":1}"#, 422, "invalid-rules", ""),
        ("/v1/reload", "[]", 400, "invalid", "takes no body"),
        ("/v1/reload", r#"{"now":true}"#, 413, "too-large", ""),
    ] {
        let method = if path == "/v1/source" { "PUT" } else { "POST" };
        let response = subject.write(method, path, Some(body)).await;
        let excerpt: String = body.chars().take(80).collect();
        assert_eq!(response.status, status, "{path} {excerpt}: {}", response.text());
        response.assert_problem(status, kind, detail);
        assert!(response.body.len() < 2_000, "{path} {excerpt}");
        assert!(!response.body.iter().any(u8::is_ascii_control), "{path} {excerpt}");
    }
    assert_eq!(subject.fixture.sluice.generation(), generation);
    assert!(subject.fixture.sluice.bans().is_empty());
}

#[tokio::test]
async fn errors_carry_a_json_pointer() {
    let subject = TestServer::start(Some(TOKENS));
    for (path, body, pointer) in [
        ("/v1/bans", r#"{"rule":"per-ip","key":["a",1]}"#, "/key/1"),
        ("/v1/explain", r#"{"path":"/","headers":{"a/b":1}}"#, "/headers/a~1b"),
        ("/v1/explain", r#"{"path":"/","descriptor":[["a","b"],["c",1]]}"#, "/descriptor/1/1"),
        ("/v1/explain", r#"{"path":"/","ip":"x"}"#, "/ip"),
        ("/v1/lists/deny", r#"{"condition":"client.ip in"}"#, "/condition"),
    ] {
        assert_eq!(subject.write("POST", path, Some(body)).await.json()["pointer"], pointer, "{body}");
    }
}

#[tokio::test]
async fn a_megabyte_key_is_rejected() {
    let subject = TestServer::start(Some(TOKENS));
    let large = format!(r#"{{"rule":"per-ip","key":["{}"]}}"#, "1".repeat(1 << 20));
    subject.write("POST", "/v1/bans", Some(&large)).await.assert_problem(413, "too-large", "65536 bytes");
    let large = format!("/v1/keys?rule=per-ip&key={}", "1".repeat(1 << 20));
    let mut stream = TcpStream::connect(subject.address).await.unwrap();
    let head = format!("GET {large} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {WRITE}\r\n\r\n");
    // The server may close the connection before everything is sent.
    let _ = stream.write_all(head.as_bytes()).await;
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    let response = String::from_utf8_lossy(&response);
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 4"), "{response}");
    assert_eq!(subject.get("/v1/status").await.status, 200);
}

#[tokio::test]
async fn bodies_without_a_json_content_type_are_rejected() {
    let subject = TestServer::start(Some(TOKENS));
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
        subject.send(request).await.assert_problem(415, "content-type", "application/json");
    }
    let mut request = call("POST", "/v1/explain", Some(WRITE), Some(r#"{"path":"/"}"#));
    request.headers_mut().insert("content-type", "Application/JSON; charset=utf-8".parse().unwrap());
    assert_eq!(subject.send(request).await.status, 200);
}

#[tokio::test]
async fn large_bodies_are_rejected_unread_and_rules_may_be_larger() {
    let subject = TestServer::start(Some(TOKENS));
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
    let checked = subject.write("POST", "/v1/source/check", Some(&large)).await;
    assert_eq!(checked.status, 200, "{}", checked.text());
}

#[tokio::test]
async fn unknown_query_parameters_are_rejected() {
    let subject = TestServer::start(Some(TOKENS));
    for (path, detail) in [
        ("/v1/rules?name=per-ip", "unknown parameter 'name': this call takes no parameters"),
        ("/v1/top?rul=per-ip", "did you mean `rule`?"),
        ("/v1/top?limit=0", "use 1 to 1000"),
        ("/v1/top?limit=many", "use 1 to 1000"),
        ("/v1/top?rule=a&rule=b", "duplicate parameter `rule`"),
        ("/v1/keys?rule=per-ip&key=1&keys=2", "did you mean `key`?"),
        ("/v1/status?%00", "'\\0'"),
    ] {
        subject.get(path).await.assert_problem(400, "invalid", detail);
    }
    subject.get("/v1/top?rule=none").await.assert_problem(404, "unknown-rule", "");
}

/// Invalid or truncated requests do not affect other connections.
#[tokio::test]
async fn broken_connections_do_not_affect_others() {
    let subject = TestServer::start(Some(TOKENS));
    let mut open = Vec::new();
    for start in
        ["\0\0\0\0\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "POST /v1/explain HTTP/1.1\r\ncontent-length: 10\r\n\r\n{"]
    {
        let mut stream = TcpStream::connect(subject.address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        open.push(stream);
    }
    let response = tokio::time::timeout(Duration::from_secs(10), subject.get("/v1/status")).await.unwrap();
    assert_eq!(response.status, 200);
}

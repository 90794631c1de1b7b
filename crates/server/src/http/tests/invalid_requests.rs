//! Invalid calls: each gets an error with a pointer and consumes nothing.

use proptest::prelude::*;

use super::{TestApi, json, plain};

/// Body, problem type, part of the detail, pointer.
type InvalidCase = (&'static str, &'static str, &'static str, Option<&'static str>);

const INVALID_CHECKS: &[InvalidCase] = &[
    ("", "not-json", "EOF", None),
    ("{", "not-json", "EOF", None),
    ("{}x", "not-json", "trailing characters", None),
    ("{\"service\":\"a\nb\"}", "not-json", "control character", None),
    (r#"{"service":"\ud800"}"#, "not-json", "", None),
    (r#"{"cost":01}"#, "not-json", "invalid number", None),
    (r#"{"cost":NaN}"#, "not-json", "expected value", None),
    ("[]", "invalid", "expected an object", Some("")),
    ("null", "invalid", "expected an object", Some("")),
    (r#"{"servise":"shop"}"#, "invalid", "did you mean 'service'?", Some("/servise")),
    (r#"{"colour":"red"}"#, "invalid", "the fields are rule, direction, service", Some("/colour")),
    (r#"{"ttl":"1s"}"#, "invalid", "unknown field 'ttl'", Some("/ttl")),
    (r#"{"a/b~c":1}"#, "invalid", "unknown field", Some("/a~1b~0c")),
    (r#"{"cost":1,"cost":1}"#, "invalid", "duplicate", Some("/cost")),
    (r#"{"cost":1,"c\u006fst":2}"#, "invalid", "duplicate", Some("/cost")),
    (r#"{"service":5}"#, "invalid", "expected text", Some("/service")),
    (r#"{"service":null}"#, "invalid", "expected text", Some("/service")),
    (r#"{"cost":"1"}"#, "invalid", "expected a whole number", Some("/cost")),
    (r#"{"cost":-1}"#, "invalid", "expected a whole number", Some("/cost")),
    (r#"{"cost":1.5}"#, "invalid", "expected a whole number", Some("/cost")),
    (r#"{"cost":1e308}"#, "invalid", "expected a whole number", Some("/cost")),
    (r#"{"cost":18446744073709551616}"#, "invalid", "expected a whole number", Some("/cost")),
    (r#"{"direction":"upside"}"#, "invalid", "use inbound or outbound", Some("/direction")),
    (r#"{"client_ip":"1.2.3"}"#, "invalid", "invalid IP address", Some("/client_ip")),
    (r#"{"client_ip":""}"#, "invalid", "invalid IP address", Some("/client_ip")),
    (r#"{"path":"/x?q=1"}"#, "invalid", "put query parameters into `query`", Some("/path")),
    (r#"{"service":"a\u0000b"}"#, "invalid", "control character 0x00", Some("/service")),
    (r#"{"host":"a\r\nb"}"#, "invalid", "control character 0x0d", Some("/host")),
    (r#"{"headers":{"x":"a\r\nb: c"}}"#, "invalid", "control character", Some("/headers/x")),
    (r#"{"attributes":{"account":"a\u0000"}}"#, "invalid", "control character", Some("/attributes/account")),
    (r#"{"headers":[]}"#, "invalid", "an object with text values", Some("/headers")),
    (r#"{"headers":{"x":["a"]}}"#, "invalid", "expected text", Some("/headers/x")),
    (r#"{"headers":{"x":"1","X":"2"}}"#, "invalid", "duplicate", Some("/headers/X")),
    (r#"{"query":{"":"1"}}"#, "invalid", "empty name", Some("/query/")),
    (r#"{"attributes":{"account":""}}"#, "invalid", "empty attribute", Some("/attributes/account")),
    (r#"{"attributes":{"client_ip":"::1"}}"#, "invalid", "did you mean client.ip", Some("/attributes/client_ip")),
    (r#"{"attributes":{"service":"x"}}"#, "invalid", "has its own field", Some("/attributes/service")),
    (r#"{"rule":""}"#, "invalid", "empty value", Some("/rule")),
    (r#"{"rule":"per-account"}"#, "invalid", "is keyed by account", Some("/rule")),
    (r#"{"rule":"per-acount"}"#, "unknown-rule", "did you mean 'per-account'?", Some("/rule")),
    (r#"{"rule":"x\"y"}"#, "unknown-rule", "unknown rule", Some("/rule")),
    (r#"{"checks":[]}"#, "invalid", "empty list", Some("/checks")),
    (r#"{"checks":{}}"#, "invalid", "a list of checks", Some("/checks")),
    (r#"{"checks":[{}],"cost":1}"#, "invalid", "not allowed with `checks`", Some("/cost")),
    (r#"{"all_or_nothing":true}"#, "invalid", "only allowed with `checks`", Some("/all_or_nothing")),
    (r#"{"checks":[{}],"all_or_nothing":1}"#, "invalid", "true or false", Some("/all_or_nothing")),
    (r#"{"checks":[{"service":"shop"},5]}"#, "invalid", "expected an object", Some("/checks/1")),
    (r#"{"checks":[{"service":"shop"},{"cost":-1}]}"#, "invalid", "whole number", Some("/checks/1/cost")),
    (r#"{"checks":[{"checks":[]}]}"#, "invalid", "unknown field 'checks'", Some("/checks/0/checks")),
    (r#"{"checks":[{},{},{},{},{},{}]}"#, "invalid", "more than 5 checks", Some("/checks/5")),
];

async fn assert_refused(subject: &TestApi, path: &str, (body, kind, detail, pointer): InvalidCase) {
    let response = subject.post(path, body).await;
    let problem = response.problem();
    let excerpt: String = body.chars().take(100).collect();
    assert_eq!(problem.1, kind, "{excerpt}: {}", problem.2);
    assert!(problem.2.contains(detail), "{excerpt}: {}", problem.2);
    assert_eq!(problem.3.as_deref(), pointer, "{excerpt}: {}", problem.2);
    assert!(response.body.len() < 1_000, "{excerpt}");
}

#[tokio::test]
async fn invalid_checks_are_refused_with_a_pointer() {
    let subject = TestApi::new();
    for bad in INVALID_CHECKS {
        assert_refused(&subject, "/v1/check", *bad).await;
        assert!(subject.is_untouched(), "{}", bad.0);
    }
}

#[tokio::test]
async fn other_invalid_bodies_are_refused_with_a_pointer() {
    let subject = TestApi::new();
    for (path, bad) in [
        ("/v1/reserve", (r#"{"checks":[]}"#, "invalid", "unknown field", Some("/checks"))),
        ("/v1/reserve", (r#"{"ttl":0}"#, "invalid", "use 1ms to 1d", Some("/ttl"))),
        ("/v1/reserve", (r#"{"ttl":"25h"}"#, "invalid", "use 1ms to 1d", Some("/ttl"))),
        ("/v1/reserve", (r#"{"ttl":"soon"}"#, "invalid", "invalid duration 'soon'", Some("/ttl"))),
        ("/v1/reserve", (r#"{"ttl":true}"#, "invalid", "a number of milliseconds", Some("/ttl"))),
        ("/v1/reserve", (r#"{"ttl":-5}"#, "invalid", "a number of milliseconds", Some("/ttl"))),
        ("/v1/reserve", (r#"{"ttl":1.5}"#, "invalid", "a number of milliseconds", Some("/ttl"))),
        ("/v1/reserve", (r#"{"ttl":86400001.0}"#, "invalid", "use 1ms to 1d", Some("/ttl"))),
        ("/v1/reserve", (r#"{"wait":1}"#, "invalid", "unknown field 'wait'", Some("/wait"))),
        ("/v1/reserve", (r#"{"rule":"nosuch"}"#, "unknown-rule", "unknown rule", Some("/rule"))),
        ("/v1/permits", (r#"{"wait":"2h"}"#, "invalid", "use 0s to 1h", Some("/wait"))),
        ("/v1/permits", (r#"{"rule":"nosuch","wait":5}"#, "unknown-rule", "unknown rule", Some("/rule"))),
        ("/v1/permits", (r#"{"rule":"jobs","wait":5}"#, "invalid", "is keyed by account", Some("/rule"))),
        ("/v1/settle", ("{}", "invalid", "`reservation` is missing", None)),
        ("/v1/settle", (r#"{"reservation":"x"}"#, "invalid", "`actual`", None)),
        ("/v1/settle", (r#"{"reservation":"x","cancel":false}"#, "invalid", "`actual`", None)),
        ("/v1/settle", (r#"{"reservation":"x","actual":1,"cancel":true}"#, "invalid", "omit one", Some("/cancel"))),
        ("/v1/settle", (r#"{"reservation":"x","actual":-1}"#, "invalid", "whole number", Some("/actual"))),
        (
            "/v1/settle",
            (r#"{"reservation":"x","actual":1}"#, "unknown-reservation", "unknown reservation", Some("/reservation")),
        ),
    ] {
        assert_refused(&subject, path, bad).await;
        assert!(subject.is_untouched(), "{path} {}", bad.0);
    }
}

#[tokio::test]
async fn an_invalid_list_item_gives_back_earlier_tokens() {
    let subject = TestApi::new();
    let first = r#"{"rule":"per-account","attributes":{"account":"a"},"cost":7}"#;
    for (all, second, status, pointer) in [
        (false, r#"{"rule":"nosuch"}"#, 404, "/checks/1/rule"),
        (true, r#"{"rule":"nosuch"}"#, 404, "/checks/1/rule"),
        (false, r#"{"rule":"jobs"}"#, 400, "/checks/1/rule"),
        (true, r#"{"rule":"jobs"}"#, 400, "/checks/1/rule"),
    ] {
        let body = format!(r#"{{"checks":[{first},{second}],"all_or_nothing":{all}}}"#);
        let problem = subject.post("/v1/check", &body).await.problem();
        assert_eq!((problem.0, problem.3.as_deref()), (status, Some(pointer)));
        assert_eq!(subject.remaining("per-account").await, 10, "{body}");
    }
}

#[tokio::test]
async fn depth_and_size_are_bounded() {
    let subject = TestApi::new();
    for body in [
        "[".repeat(4_000),
        format!(r#"{{"headers":{}"#, "[".repeat(4_000)),
        r#"{"a":"#.repeat(800),
        r#"{"headers":"#.repeat(300),
        r#"{"checks":["#.repeat(300),
    ] {
        assert_eq!(subject.post("/v1/check", &body).await.status, 400, "{}", &body[..20]);
    }
    // The number of entries is bounded as well.
    let wide = TestApi::with_settings(&sluicegate_config::settings::Server::default());
    let pairs: Vec<String> = (0..101).map(|index| format!(r#""h{index}":"""#)).collect();
    let problem = wide.post("/v1/check", &format!(r#"{{"headers":{{{}}}}}"#, pairs.join(","))).await.problem();
    assert!(problem.2.contains("more than 100 entries"), "{}", problem.2);
    let deep = format!(r#"{{"headers":{}"#, "{\"a\":".repeat(10_000));
    assert_eq!(wide.post("/v1/check", &deep).await.status, 400);
    let large = format!(r#"{{"service":"{}"}}"#, "x".repeat(1 << 20));
    assert_eq!(wide.post("/v1/check", &large).await.problem().1, "too-large");
    // An error quotes only the start of the input.
    let long = format!(r#"{{"cost":"{}"}}"#, "\u{e9}".repeat(400_000));
    assert!(wide.post("/v1/check", &long).await.body.len() < 1_000);
    assert!(subject.is_untouched() && wide.is_untouched());
}

#[tokio::test]
async fn other_content_types_are_refused() {
    let subject = TestApi::new();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json5", "", "application"] {
        let mut request = json("POST", "/v1/check", "{}");
        request.headers_mut().insert("content-type", kind.parse().unwrap());
        let problem = subject.call(request).await.problem();
        assert_eq!((problem.0, problem.1.as_str()), (415, "content-type"), "{kind}");
    }
    assert_eq!(subject.call(plain("POST", "/v1/check")).await.problem().0, 415);
    assert!(subject.is_untouched());
    for kind in ["application/json", "Application/JSON; charset=utf-8"] {
        let mut request = json("POST", "/v1/check", "{}");
        request.headers_mut().insert("content-type", kind.parse().unwrap());
        assert_eq!(subject.call(request).await.status, 200, "{kind}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_neither_panic_nor_consume(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        text in r#"(\{|\}|\[|\]|:|,|"rule"|"cost"|"checks"|"ttl"|"service"|"headers"|"shop"|"x"|-?[0-9.e]{1,20}|null|true|\\u0000){0,30}"#,
        path in prop::sample::select(vec!["/v1/check", "/v1/reserve", "/v1/settle", "/v1/permits", "/v1/permits/00", "/v1/auth"]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for body in [bytes.as_slice(), text.as_bytes()] {
            let subject = TestApi::new();
            let method = if path.ends_with("00") { "PUT" } else { "POST" };
            let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
            let request = request.body(http_body_util::Full::new(bytes::Bytes::from(body.to_vec()))).unwrap();
            let response = runtime.block_on(subject.call(request));
            if response.status.is_success() {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(body).is_ok());
            } else {
                prop_assert!(response.status.is_client_error());
                prop_assert!(subject.is_untouched());
            }
        }
    }
}

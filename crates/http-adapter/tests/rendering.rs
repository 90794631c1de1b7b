//! Rendering of outcomes: header styles, refusals and rule replies.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use serde_json::Value;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, Ban, Cost, Expr, Lists, Mode, Reply, ReplyBody, Request, Rule};
use sluicegate_engine::{Limit, Rate, Sluice};
use sluicegate_http_adapter::{HeaderStyle, Protocol, Renderer};

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn sluice(rules: impl IntoIterator<Item = Rule>) -> (Sluice, ManualClock) {
    let clock = ManualClock::new();
    (Sluice::builder().rules(rules).clock(clock.clone()).build().unwrap(), clock)
}

fn request() -> Request<'static> {
    Request::new("GET", "/")
}

fn replying(name: &str, text: &str, reply: Reply) -> Rule {
    let mut rule = Rule::new(name, [limit(text)]);
    rule.on_limit.reply = Some(reply);
    rule
}

/// Headers of the next response, as `name: value`, sorted by name.
fn response_headers(sluice: &Sluice, style: HeaderStyle) -> Vec<String> {
    let mut headers = HeaderMap::new();
    Renderer::new(style).fields(&sluice.decide(&request())).write(&mut headers);
    lines(&headers)
}

fn lines(headers: &HeaderMap) -> Vec<String> {
    let mut lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort();
    lines
}

/// The refusal of the next request.
fn refused(sluice: &Sluice, protocol: Protocol) -> Response<Bytes> {
    let outcome = sluice.decide(&request());
    assert!(!outcome.is_admitted());
    Renderer::new(HeaderStyle::None).refuse(&outcome, protocol)
}

fn header<'a>(response: &'a Response<Bytes>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

#[test]
fn each_style_reports_the_remaining_quota() {
    let rules = || [Rule::new("per-minute", [limit("300/1m")]), Rule::new("per-second", [limit("2/s")])];
    let (ours, _) = sluice(rules());
    assert_eq!(
        response_headers(&ours, HeaderStyle::Ietf),
        [
            "ratelimit-policy: \"per-minute\";q=300;w=60",
            "ratelimit-policy: \"per-second\";q=2;w=1",
            "ratelimit: \"per-minute\";r=299;t=62, \"per-second\";r=1;t=2",
        ]
    );
    let (ours, _) = sluice(rules());
    assert_eq!(
        response_headers(&ours, HeaderStyle::Legacy),
        ["ratelimit-limit: 2", "ratelimit-remaining: 1", "ratelimit-reset: 2"],
        "of the tightest limit"
    );
    assert_eq!(
        response_headers(&ours, HeaderStyle::X),
        ["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 2"]
    );
    assert_eq!(response_headers(&ours, HeaderStyle::None), [""; 0]);
}

#[test]
fn times_are_rounded_up_to_whole_seconds() {
    let (ours, clock) = sluice([Rule::new("bucket", [Limit::token_bucket(Rate::per_second(1).unwrap(), 3).unwrap()])]);
    drop(ours.decide(&request()));
    drop(ours.decide(&request()));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(response_headers(&ours, HeaderStyle::Ietf)[1], "ratelimit: \"bucket\";r=0;t=3");
}

#[test]
fn the_refusing_limit_is_reported() {
    // `tight` has less remaining, but `empty` refuses.
    let (ours, _) = sluice([Rule::new("empty", [limit("5/1h")]), Rule::new("tight", [limit("6/1m")])]);
    for _ in 0..5 {
        drop(ours.decide(&request()));
    }
    assert_eq!(response_headers(&ours, HeaderStyle::X)[0], "x-ratelimit-limit: 5");
}

#[test]
fn concurrency_limits_have_no_window() {
    let (ours, _) = sluice([Rule::new("inside", [Limit::concurrency(3).unwrap()])]);
    assert_eq!(
        response_headers(&ours, HeaderStyle::Ietf),
        ["ratelimit-policy: \"inside\";q=3;qu=\"concurrent-requests\"", "ratelimit: \"inside\";r=2"]
    );
}

#[test]
fn shadow_rules_are_not_shown() {
    let shadow = Rule { mode: Mode::Shadow, ..Rule::new("trial", [limit("1/1h")]) };
    let (ours, _) = sluice([shadow]);
    assert_eq!(response_headers(&ours, HeaderStyle::Ietf), [""; 0]);
}

#[test]
fn a_plain_refusal_is_a_problem_document_that_names_the_limit() {
    let (ours, _) = sluice([Rule::new("per-ip", [limit("1/10s"), limit("100/1m")]), Rule::new("all", [limit("2/s")])]);
    drop(ours.decide(&request()));
    let response = refused(&ours, Protocol::Http);
    assert_eq!(response.status(), 429);
    assert_eq!(header(&response, "content-type"), Some("application/problem+json"));
    assert_eq!(header(&response, "retry-after"), Some("11"), "a window of ten cells, rounded up");
    assert_eq!(header(&response, "cache-control"), Some("no-store"));
    let problem: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["violated-policies"], serde_json::json!(["per-ip/10s"]));
    assert_eq!(problem["detail"], "over the limit sliding_window 1/10s, 10 cells of 'per-ip': try again in 11 s");
}

#[test]
fn retry_after_is_never_zero_and_absent_when_retrying_is_useless() {
    let bucket = Limit::token_bucket(Rate::per_second(1_000_000).unwrap(), 1).unwrap();
    let (fast, _) = sluice([Rule::new("fast", [bucket])]);
    drop(fast.decide(&request()));
    assert_eq!(header(&refused(&fast, Protocol::Http), "retry-after"), Some("1"));

    let (inside, _) = sluice([Rule::new("inside", [Limit::concurrency(1).unwrap()])]);
    let permit = inside.decide(&request());
    assert_eq!(header(&refused(&inside, Protocol::Http), "retry-after"), Some("1"), "the wait is unknown");
    drop(permit);

    let (never, _) = sluice([Rule { cost: Cost::Fixed(9), ..Rule::new("small", [limit("5/s")]) }]);
    let response = refused(&never, Protocol::Http);
    assert_eq!(header(&response, "retry-after"), None);
    assert!(String::from_utf8_lossy(response.body()).contains("the request can never be admitted"));
}

#[test]
fn deny_lists_and_bans_have_their_own_detail() {
    let lists = Lists { deny: vec![Expr::parse("path == '/'").unwrap()], ..Lists::default() };
    let denied = Sluice::builder().lists(lists).build().unwrap();
    let response = refused(&denied, Protocol::Http);
    assert_eq!(response.status(), 403);
    assert_eq!(header(&response, "retry-after"), None);
    let problem: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!((&problem["type"], &problem["detail"]), (&"about:blank".into(), &"on the deny list".into()));

    let minute = Duration::from_secs(60);
    let ban = Ban { after: 1, within: minute, duration: 10 * minute };
    let (banning, _) = sluice([Rule { ban: Some(ban), ..Rule::new("strict", [limit("1/1s")]) }]);
    drop(banning.decide(&request()));
    drop(banning.decide(&request()));
    let response = refused(&banning, Protocol::Http);
    assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, Some("600")));
    assert!(String::from_utf8_lossy(response.body()).contains("banned by rule 'strict' after too many refusals"));
}

#[test]
fn a_rule_reply_is_rendered() {
    let refuse = Reply::Refuse {
        status: 503,
        body: Some(ReplyBody::Text("busy".to_owned())),
        headers: vec![("x-reason".to_owned(), "limit".to_owned())],
    };
    let (ours, _) = sluice([replying("a", "1/1h", refuse)]);
    drop(ours.decide(&request()));
    let response = refused(&ours, Protocol::Http);
    assert_eq!((response.status().as_u16(), &response.body()[..]), (503, &b"busy"[..]));
    assert_eq!(header(&response, "content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(header(&response, "x-reason"), Some("limit"));
    assert!(header(&response, "retry-after").is_some());

    let json = Some(ReplyBody::Json(r#"{"items":[]}"#.to_owned()));
    let (ours, _) = sluice([replying("b", "1/1h", Reply::Degrade { status: 200, body: json, headers: Vec::new() })]);
    drop(ours.decide(&request()));
    let response = refused(&ours, Protocol::Http);
    assert_eq!((response.status().as_u16(), &response.body()[..]), (200, &br#"{"items":[]}"#[..]));
    assert_eq!(header(&response, "content-type"), Some("application/json"));
    assert_eq!(header(&response, "retry-after"), None, "a degraded response is not an error");

    let (ours, _) = sluice([replying("c", "1/1h", Reply::Redirect { status: 303, location: "/busy".to_owned() })]);
    drop(ours.decide(&request()));
    let response = refused(&ours, Protocol::Http);
    assert_eq!((response.status().as_u16(), header(&response, "location")), (303, Some("/busy")));
}

#[test]
fn a_reply_with_only_a_status_keeps_the_problem_document() {
    let (ours, _) = sluice([replying("a", "1/1h", Reply::Refuse { status: 503, body: None, headers: Vec::new() })]);
    drop(ours.decide(&request()));
    let response = refused(&ours, Protocol::Http);
    assert_eq!(response.status(), 503);
    let problem: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(problem["status"], 503);
}

/// In HTTP/2, a body with a bodiless status breaks the stream, and not every server drops it.
#[test]
fn bodiless_statuses_have_no_body() {
    for status in [204, 205, 304] {
        for body in [None, Some(ReplyBody::Text("busy".to_owned()))] {
            let refuse = Reply::Refuse { status, body: body.clone(), headers: Vec::new() };
            let degrade = Reply::Degrade { status, body, headers: Vec::new() };
            for reply in [refuse, degrade] {
                let (ours, _) = sluice([replying("a", "1/1h", reply)]);
                drop(ours.decide(&request()));
                let response = refused(&ours, Protocol::Http);
                assert_eq!((response.status().as_u16(), &response.body()[..]), (status, &b""[..]));
                assert_eq!(header(&response, "content-type"), None);
            }
        }
    }
}

#[test]
fn a_file_reply_has_its_media_type_and_a_missing_file_refuses() {
    let folder = std::env::temp_dir().join(format!("sluicegate-http-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let page = folder.join("busy.html");
    std::fs::write(&page, "<p>busy</p>").unwrap();
    let degrade = |path: &std::path::Path| Reply::Degrade {
        status: 200,
        body: Some(ReplyBody::File(path.to_str().unwrap().to_owned())),
        headers: Vec::new(),
    };
    let (ours, _) = sluice([replying("a", "1/1h", degrade(&page))]);
    drop(ours.decide(&request()));
    let response = refused(&ours, Protocol::Http);
    assert_eq!((response.status().as_u16(), &response.body()[..]), (200, &b"<p>busy</p>"[..]));
    assert_eq!(header(&response, "content-type"), Some("text/html; charset=utf-8"));

    let (ours, _) = sluice([replying("a", "1/1h", degrade(&folder.join("none.html")))]);
    drop(ours.decide(&request()));
    assert_eq!(refused(&ours, Protocol::Http).status(), 503);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn invalid_statuses_and_header_names_are_ignored() {
    let headers = vec![("bad name".to_owned(), "x".to_owned()), ("x-ok".to_owned(), "a\r\nb: c".to_owned())];
    for status in [0, 99, 100, 199, 1_000, u16::MAX] {
        let reply = Reply::Refuse { status, body: None, headers: headers.clone() };
        let (ours, _) = sluice([replying("a", "1/1h", reply)]);
        drop(ours.decide(&request()));
        let response = refused(&ours, Protocol::Http);
        assert_eq!(response.status(), 429, "{status}");
        assert_eq!(header(&response, "x-ok"), None);
    }
    let (ours, _) = sluice([replying("a", "1/1h", Reply::Redirect { status: 302, location: "/a\r\nb: c".to_owned() })]);
    drop(ours.decide(&request()));
    assert_eq!(refused(&ours, Protocol::Http).status(), 429);
}

#[test]
fn a_grpc_refusal_is_a_grpc_status() {
    let degrade = Reply::Degrade { status: 200, body: None, headers: Vec::new() };
    let (ours, _) = sluice([replying("100% \u{e9}", "1/10s", degrade)]);
    drop(ours.decide(&request()));
    let response = refused(&ours, Protocol::Grpc);
    assert_eq!((response.status().as_u16(), header(&response, "grpc-status")), (200, Some("8")));
    assert_eq!(header(&response, "content-type"), Some("application/grpc"));
    assert_eq!(header(&response, "grpc-retry-pushback-ms"), Some("11000"));
    assert_eq!(header(&response, "retry-after"), Some("11"));
    let message = header(&response, "grpc-message").unwrap();
    assert!(message.contains("'100%25 %C3%A9'"), "{message}");

    // gRPC clients read pushback as a signed 32-bit number; a larger one would mean "do not retry".
    let (slow, _) = sluice([Rule::new("slow", [Limit::sliding_log(1, Duration::from_secs(40 * 86_400)).unwrap()])]);
    drop(slow.decide(&request()));
    assert_eq!(header(&refused(&slow, Protocol::Grpc), "grpc-retry-pushback-ms"), Some("2147483647"));

    let (never, _) = sluice([Rule { cost: Cost::Fixed(9), ..Rule::new("small", [limit("5/s")]) }]);
    assert_eq!(header(&refused(&never, Protocol::Grpc), "grpc-retry-pushback-ms"), Some("-1"));
}

/// A gRPC-Web client requires its own content type and treats any other as a broken response.
#[test]
fn a_grpc_web_refusal_has_the_grpc_web_content_type() {
    let (ours, _) = sluice([Rule::new("a", [limit("1/10s")])]);
    drop(ours.decide(&request()));
    for (protocol, kind) in
        [(Protocol::GrpcWeb, "application/grpc-web+proto"), (Protocol::GrpcWebText, "application/grpc-web-text+proto")]
    {
        let response = refused(&ours, protocol);
        assert_eq!((header(&response, "content-type"), header(&response, "grpc-status")), (Some(kind), Some("8")));
    }
}

/// A client over its limit could request a page as gRPC, be refused with status 200, and poison a shared
/// cache with the empty response or a substitute.
#[test]
fn refusals_are_not_cacheable() {
    let degrade = |headers: Vec<(String, String)>| Reply::Degrade { status: 200, body: None, headers };
    let (ours, _) = sluice([replying("a", "1/1h", degrade(Vec::new()))]);
    drop(ours.decide(&request()));
    for protocol in [Protocol::Http, Protocol::Grpc, Protocol::GrpcWeb, Protocol::GrpcWebText] {
        assert_eq!(header(&refused(&ours, protocol), "cache-control"), Some("no-store"), "{protocol:?}");
    }
    let (ours, _) = sluice([replying("a", "1/1h", degrade(vec![("cache-control".into(), "max-age=5".into())]))]);
    drop(ours.decide(&request()));
    assert_eq!(header(&refused(&ours, Protocol::Http), "cache-control"), Some("max-age=5"), "set by the rule");
}

#[test]
fn the_protocol_is_detected_from_the_content_type() {
    for (kind, expected) in [
        ("application/grpc", Protocol::Grpc),
        ("application/grpc+proto", Protocol::Grpc),
        ("Application/gRPC; charset=x", Protocol::Grpc),
        ("application/grpc-web", Protocol::GrpcWeb),
        ("application/grpc-web+proto", Protocol::GrpcWeb),
        ("application/grpc-web-text", Protocol::GrpcWebText),
        ("application/grpc-web-text+proto", Protocol::GrpcWebText),
        ("application/grpcfoo", Protocol::Http),
        ("", Protocol::Http),
        ("application/json", Protocol::Http),
    ] {
        let headers: HeaderMap = [(http::header::CONTENT_TYPE, kind.parse().unwrap())].into_iter().collect();
        assert_eq!(Protocol::of(&headers), expected);
    }
}

/// Regression: outcomes of older rules, queued through a reload, caused all replies to be prepared and files
/// to be read again, for them and for the next outcome.
#[test]
fn a_file_is_read_once_despite_outcomes_of_older_rules() {
    let folder = std::env::temp_dir().join(format!("sluicegate-http-once-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let page = folder.join("busy.html");
    std::fs::write(&page, "busy").unwrap();
    let file = Some(ReplyBody::File(page.to_str().unwrap().to_owned()));
    let (ours, _) = sluice([Rule::new("a", [limit("5/1m")])]);
    let renderer = Renderer::new(HeaderStyle::Ietf);
    let before = ours.decide(&request());
    let degrade = Reply::Degrade { status: 200, body: file, headers: Vec::new() };
    ours.replace(vec![replying("b", "1/1h", degrade)], Lists::default()).unwrap();
    drop(ours.decide(&request()));
    let after = ours.decide(&request());
    assert_eq!(renderer.refuse(&after, Protocol::Http).status(), 200);
    std::fs::remove_dir_all(folder).unwrap();
    drop(renderer.fields(&before));
    assert_eq!(renderer.refuse(&after, Protocol::Http).status(), 200);
}

#[test]
fn replaced_rules_change_the_headers() {
    let (ours, _) = sluice([Rule::new("a", [limit("5/1m")])]);
    let renderer = Renderer::new(HeaderStyle::Ietf);
    let before = ours.decide(&request());
    let policy = |outcome: &sluicegate_engine::Outcome| {
        let mut headers = HeaderMap::new();
        renderer.fields(outcome).write(&mut headers);
        headers["ratelimit-policy"].to_str().unwrap().to_owned()
    };
    assert_eq!(policy(&before), "\"a\";q=5;w=60");
    ours.replace(vec![Rule::new("b", [limit("7/1m")])], Lists::default()).unwrap();
    assert_eq!(policy(&ours.decide(&request())), "\"b\";q=7;w=60");
    assert_eq!(policy(&before), "\"a\";q=5;w=60", "an outcome is rendered with the rules that decided it");
}

/// A rule with a token bucket of one token, and a request that matches it.
fn plain(reply: Option<Reply>) -> (Rule, Request<'static>) {
    let bucket = Limit::token_bucket(Rate::per_minute(2).unwrap(), 1).unwrap();
    let mut rule = Rule::new("per \"ip\"", [bucket]);
    rule.key = vec![Attribute::ClientIp.into()];
    rule.on_limit.reply = reply;
    (rule, request().with_client_ip(Ipv4Addr::LOCALHOST))
}

/// A refusal is rendered from an outcome, from a fast-path decision, and as raw bytes: all must be equal.
#[test]
fn all_rendering_paths_give_the_same_refusal() {
    let in_order = |response: &Response<Bytes>| {
        let lines = response.headers().iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()));
        (response.status(), lines.collect::<String>(), String::from_utf8(response.body().to_vec()).unwrap())
    };
    for style in [HeaderStyle::Ietf, HeaderStyle::Legacy, HeaderStyle::X, HeaderStyle::None] {
        let (rule, request) = plain(None);
        let (sluice, clock) = sluice([rule]);
        let (fast_path, renderer) = (sluice.fast_path(), Renderer::new(style));
        let admitted = fast_path.try_decide(&request).unwrap();
        assert!(admitted.is_admitted() && renderer.refuse_raw(&admitted).is_none());
        clock.advance(Duration::from_millis(1_500));
        let fast = fast_path.try_decide(&request).unwrap();
        let outcome = sluice.decide(&request);
        let expected = in_order(&renderer.refuse(&outcome, Protocol::Http));
        assert_eq!(in_order(&renderer.refuse(&fast, Protocol::Http)), expected);
        let brief = renderer.refuse_raw(&fast).unwrap();
        let [lines, body] = [brief.lines(), brief.body()].map(|text| String::from_utf8(text.to_vec()).unwrap());
        assert_eq!((brief.status(), lines, body), expected);
        let expected = in_order(&renderer.refuse(&outcome, Protocol::Grpc));
        assert_eq!(in_order(&renderer.refuse(&fast, Protocol::Grpc)), expected);
    }
}

#[test]
fn a_rule_with_its_own_reply_has_no_raw_refusal() {
    let (rule, request) = plain(Some(Reply::Redirect { status: 302, location: "/busy".to_owned() }));
    let (sluice, _clock) = sluice([rule]);
    let (fast_path, renderer) = (sluice.fast_path(), Renderer::new(HeaderStyle::Ietf));
    assert!(fast_path.try_decide(&request).unwrap().is_admitted());
    let refused = fast_path.try_decide(&request).unwrap();
    assert!(renderer.refuse_raw(&refused).is_none());
    assert_eq!(renderer.refuse(&refused, Protocol::Http).status(), 302);
}

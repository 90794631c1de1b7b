//! Contents of access-log lines, in both formats.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_engine::clock::ManualClock;

use super::file::LogFile;
use super::support::file::gateway_yaml;
use super::support::raw::Client;
use super::support::upstream::Upstream;
use super::support::{TestGateway, wait_until};

/// One rule for each verdict.
const RULES: &str = r#"
lists: { deny: ["header['x-who'] == 'mallory'"] }
rules:
  - { name: trial, limits: [1/1h], mode: shadow }
  - { name: plain, match: /plain, key: "header['x-account']", limits: [1/1h] }
  - { name: milder, match: /milder, limits: [1/1h], on_limit: { degrade: { status: 203, body: old } } }
  - { name: elsewhere, match: /elsewhere, limits: [1/1h], on_limit: { redirect: /busy } }
  - { name: strict, match: /strict, key: client.ip, limits: [1/1h], ban: { after: 1, within: 1m, for: 10m } }
  - { name: line, match: /line, limits: [{ leaky_bucket: 2/s, queue: 3 }] }
"#;

fn fields(log: &LogFile, format: &str, upstream: &Upstream) -> String {
    let routes = ["plain", "milder", "elsewhere", "strict", "line"]
        .map(|path| format!("{{ path: /{path}, upstream: shop }}"))
        .join(", ");
    let routes = format!("upstreams: {{ shop: \"http://{}\" }}\nroutes: [{routes}]", upstream.at);
    format!("{}\n{routes}", log.setting(format))
}

/// The members of a line, without times and IDs.
fn without_variable_fields(mut line: Value) -> Value {
    let members = line.as_object_mut().unwrap();
    for name in ["time", "request_id", "duration", "upstream_time", "key_hash"] {
        members.remove(name);
    }
    line
}

#[test]
fn json_reports_the_outcome_of_each_request() {
    let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, "json", &upstream), RULES));
    let mut client = Client::connect(gateway.at);
    let mut send = |line: &str, more: &str, body: &str| {
        let length = body.len();
        client.send(format!("{line} HTTP/1.1\r\nHost: shop.example\r\n{more}Content-Length: {length}\r\n\r\n{body}"));
        client.read_response().unwrap().status
    };
    let agent = "User-Agent: test/1\r\nReferer: https://example.com/\r\n";
    let statuses = [
        send("POST /plain?a=%20b", &format!("X-Account: a-secret\r\n{agent}"), "twelve bytes"),
        send("GET /plain", "X-Account: a-secret\r\n", ""),
        send("GET /plain", "X-Account: another-secret\r\n", ""),
        send("GET /milder", "", ""),
        send("GET /milder", "", ""),
        send("GET /elsewhere", "", ""),
        send("GET /elsewhere", "", ""),
        send("GET /strict", "", ""),
        send("GET /strict", "", ""),
        send("GET /strict", "", ""),
        send("GET /plain", "X-Who: mallory\r\n", ""),
        send("GET /nowhere", "", ""),
        send("PATCH /plain", "X-Account: third\r\n", ""),
        send("TRACE /plain", "", ""),
    ];
    assert_eq!(statuses, [200, 429, 200, 200, 203, 200, 302, 200, 429, 429, 403, 404, 200, 501]);
    let lines = log.objects(statuses.len());
    for (line, status) in lines.iter().zip(statuses) {
        assert_eq!(line["status"], status, "{line}");
        assert_eq!((&line["client"], &line["host"]), (&json!("127.0.0.1"), &json!("shop.example")));
        assert!(line["duration"].as_f64().unwrap() < 60.0 && line.get("aborted").is_none(), "{line}");
    }
    // The shadow rule would have admitted the first request; requests refused by another rule are not counted by
    // it.
    let tried: Vec<bool> = lines.iter().map(|line| line["shadow"] == "trial").collect();
    let uncounted = [0, 1, 4, 6, 8, 9, 10, 13];
    assert_eq!(tried, (0..statuses.len()).map(|index| !uncounted.contains(&index)).collect::<Vec<_>>());
    let server = format!("http://{}", upstream.at);
    let first = json!({
        "client": "127.0.0.1", "method": "POST", "host": "shop.example", "target": "/plain?a=%20b",
        "version": "HTTP/1.1", "referer": "https://example.com/", "user_agent": "test/1", "request_bytes": 12,
        "status": 200, "response_bytes": 5, "wait": 0.0, "upstream": "shop", "server": server, "attempts": 1,
        "verdict": "allowed", "rule": "plain",
    });
    assert_eq!(without_variable_fields(lines[0].clone()), first);
    let verdict_fields =
        |index: usize| ["verdict", "rule", "failure", "upstream"].map(|name| lines[index][name].as_str());
    assert_eq!(verdict_fields(1), [Some("refused"), Some("plain"), None, None]);
    assert_eq!(verdict_fields(2), [Some("allowed"), Some("plain"), None, Some("shop")]);
    assert_eq!(verdict_fields(4), [Some("degraded"), Some("milder"), None, None]);
    assert_eq!(verdict_fields(6), [Some("redirected"), Some("elsewhere"), None, None]);
    assert_eq!(verdict_fields(8), [Some("refused"), Some("strict"), None, None]);
    assert_eq!(verdict_fields(9), [Some("banned"), Some("strict"), None, None]);
    assert_eq!(verdict_fields(10), [Some("denied"), None, None, None]);
    assert_eq!(verdict_fields(11), [Some("failed"), None, Some("no_route"), None]);
    assert_eq!(verdict_fields(13), [Some("failed"), None, Some("not_implemented"), None]);
    // Equal keys have equal hashes, different keys have different ones; a rule without a key has none.
    let hash = |index: usize| lines[index].get("key_hash").map(|hash| hash.as_str().unwrap().to_owned());
    assert!(hash(0).is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())));
    assert_eq!(hash(0), hash(1));
    assert_ne!(hash(0), hash(2));
    assert_eq!((hash(3), hash(11)), (None, None));
    assert!(!log.lines(statuses.len()).concat().contains("secret"), "keys are not logged");
}

#[test]
fn a_common_line_extends_the_combined_format() {
    let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, "common", &upstream), RULES));
    let mut client = Client::connect(gateway.at);
    client.send("GET /plain?a=b HTTP/1.1\r\nHost: shop\r\nX-Account: a\r\nUser-Agent: test/1\r\n\r\n");
    let id = client.read_response().unwrap().header("x-request-id").unwrap().to_owned();
    client.send("GET /plain HTTP/1.1\r\nHost: shop\r\nX-Account: a\r\nReferer: http://b/\r\n\r\n");
    let refused = client.read_response().unwrap();
    client.get("/nowhere");
    let lines = log.lines(3);
    let (before, rest) = lines[0].split_once(" [").unwrap();
    let (moment, rest) = rest.split_once("] ").unwrap();
    let (head, more) = rest.split_at(rest.find(" id=").unwrap());
    assert_eq!((before, head), ("127.0.0.1 - -", "\"GET /plain?a=b HTTP/1.1\" 200 5 \"-\" \"test/1\""));
    let form: String = moment.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    assert!(form.starts_with("00/") && form.ends_with("/0000:00:00:00 +0000"), "{moment}");
    let names: Vec<&str> = more.split_whitespace().map(|word| word.split_once('=').unwrap().0).collect();
    assert_eq!(names, ["id", "verdict", "rule", "wait", "rt", "key", "upstream", "server", "ut"]);
    let of = |index: usize, name: &str| {
        let line: &str = &lines[index];
        let (_, value) = line.rsplit_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{line}"));
        value.split(' ').next().unwrap()
    };
    assert_eq!((of(0, "id"), of(0, "verdict")), (id.as_str(), "allowed"));
    assert_eq!((of(0, "rule"), of(0, "wait")), ("plain", "0.000000"));
    assert_eq!((of(0, "upstream"), of(0, "server")), ("shop", format!("http://{}", upstream.at).as_str()));
    let length = refused.body.len();
    assert!(
        lines[1].contains(&format!("\"GET /plain HTTP/1.1\" 429 {length} \"http://b/\" \"-\" id=")),
        "{}",
        lines[1]
    );
    assert_eq!((of(1, "verdict"), of(1, "server"), of(1, "key")), ("refused", "-", of(0, "key")));
    assert_eq!((of(2, "verdict"), of(2, "rule"), of(2, "shadow")), ("failed:no_route", "-", "trial"));
}

#[test]
fn wait_is_the_time_in_the_queue() {
    let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
    let clock = ManualClock::new();
    let gateway = TestGateway::with_clock(&gateway_yaml(&fields(&log, "json", &upstream), RULES), clock.clone());
    let admitted = || gateway.running().sluice().counts().iter().map(|rule| rule.admitted).max();
    let mut clients = [(); 2].map(|()| Client::connect(gateway.at));
    assert_eq!(clients[0].get("/line").status, 200);
    clients[1].send("GET /line HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("it is queued", || admitted() == Some(2));
    clock.advance(Duration::from_millis(500));
    assert_eq!(clients[1].read_response().unwrap().status, 200);
    let lines = log.objects(2);
    let verdict_fields: Vec<_> = lines.iter().map(|line| (line["wait"].clone(), line["duration"].clone())).collect();
    assert_eq!(verdict_fields, [(json!(0.0), json!(0.0)), (json!(0.5), json!(0.5))]);
    assert_eq!((&lines[1]["verdict"], &lines[1]["rule"]), (&json!("allowed"), &json!("line")));
}

/// A statistics handle may outlive the gateway and must not delay the last lines.
#[test]
fn stopping_flushes_every_line() {
    let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, "json", &upstream), ""));
    let stats = gateway.running().stats().clone();
    let mut client = Client::connect(gateway.at);
    for _ in 0..10 {
        client.get("/plain");
    }
    gateway.stop();
    assert_eq!(log.text().lines().count(), 10);
    assert_eq!(stats.log_stats(), Some((0, 0)));
}

/// For any bytes in a head: each request is one line with the right contents.
#[test]
fn no_request_can_inject_a_line() {
    let hostile: [&[u8]; 8] = [
        b"\" 200 0 \"-\" \"-\" id=forged verdict=allowed",
        b"\\\",\"status\":200,\"verdict\":\"allowed\"}",
        b"\\",
        b"a\tb",
        b"\x80\xff\xc2\x85\xe2\x80\xa8",
        b"\xf0\x9f\x92\xa9 \\x0a \\u000a",
        b"%0d%0a{\"time\":\"forged\"}",
        b"\xc2\x9b31m",
    ];
    let refused: [&[u8]; 5] = [b"a\rb", b"a\nb", b"a\0b", b"a\x1b[31mb", b"a\x7fb"];
    for format in ["json", "common"] {
        let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
        let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, format, &upstream), RULES));
        let (mut written, mut agents) = (0, Vec::new());
        for value in hostile.iter().chain(&refused) {
            for (before, after) in [
                (&b"GET /plain HTTP/1.1\r\nHost: shop\r\nUser-Agent: "[..], &b"\r\n\r\n"[..]),
                (b"GET /plain HTTP/1.1\r\nHost: shop\r\nReferer: ", b"\r\n\r\n"),
                (b"GET /plain?", b" HTTP/1.1\r\nHost: shop\r\n\r\n"),
                (b"GET /plain/", b" HTTP/1.1\r\nHost: shop\r\n\r\n"),
                (b"GET /plain HTTP/1.1\r\nHost: ", b"\r\n\r\n"),
                (b"G", b" /plain HTTP/1.1\r\nHost: shop\r\n\r\n"),
            ] {
                let mut client = Client::connect(gateway.at);
                client.send([before, value, after].concat());
                let response = client.read_response().unwrap();
                // Input that is not HTTP is answered before it becomes a request: it has no ID and no line.
                if response.header("x-request-id").is_some() {
                    written += 1;
                    if before.ends_with(b"User-Agent: ") {
                        agents.push(*value);
                    }
                } else {
                    assert_eq!(response.status, 400, "{}", value.escape_ascii());
                }
            }
        }
        assert_eq!(agents, hostile, "valid header bytes are accepted");
        let lines = log.lines(written);
        assert!(lines.iter().all(|line| line.bytes().all(|byte| (b' '..=b'~').contains(&byte))), "{lines:#?}");
        if format == "json" {
            let agents_logged: Vec<String> =
                log.objects(written).iter().filter_map(|line| Some(line["user_agent"].as_str()?.to_owned())).collect();
            assert_eq!(agents_logged, hostile.map(|value| String::from_utf8_lossy(value).into_owned()));
        } else {
            // Six quotes, and the fields after them cannot be forged.
            assert!(lines.iter().all(|line| line.matches('"').count() == 6), "{lines:#?}");
            assert!(lines.iter().all(|line| line.rsplit('"').next().unwrap().starts_with(" id=")), "{lines:#?}");
        }
    }
}

/// HTTP/2 heads have no line ends that would protect the log.
#[test]
fn no_http2_request_can_inject_a_line() {
    use super::support::frames::{END_STREAM, Http2, StreamResult, head};
    let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, "json", &upstream), RULES));
    for value in ["a\r\nb", "a\nb", "a\0b", "a\"},{\"b", "a\x1bb"] {
        for name in [":path", "user-agent", "referer", ":method"] {
            let mut headers = vec![
                (":method", "GET"),
                (":scheme", "http"),
                (":authority", "shop"),
                (":path", "/plain"),
                (name, value),
            ];
            if let Some(replaced) = headers.iter().position(|(known, _)| *known == name && name.starts_with(':')) {
                headers.pop();
                headers[replaced].1 = value;
            }
            let mut client = Http2::connect(gateway.at);
            client.send(head(1, END_STREAM, &headers));
            let stream_result = client.stream_result(1);
            assert!(
                !matches!(stream_result, StreamResult::Status(200)) || value == "a\"},{\"b",
                "{name} {value:?}: {stream_result:?}"
            );
        }
    }
    // One more request, so that its line follows all the others.
    Client::connect(gateway.at).get("/plain?last");
    wait_until("the last line is written", || log.text().contains("/plain?last"));
    assert!(log.text().lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", log.text());
}

//! Malformed requests and request smuggling.
//!
//! A strict server is behind the gateway. Each case checks the responses, the state of the connection, the
//! requests that were forwarded, and that the next client gets the response to its own request.

use crate::support;

use std::io::Write;
use std::net::Shutdown;

use support::frames::{self, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Http2, StreamResult};
use support::raw::Client;
use support::recorder::{RecordedRequest, Recorder};
use support::{TestGateway, proxy_yaml};

/// Follows a malformed request and must never be parsed as a request of its own.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: shop.example\r\n\r\n";

/// Input bytes and the expected results.
struct RequestCase {
    name: &'static str,
    sent: Vec<u8>,
    /// True if the client shuts down its write side.
    shuts_down_write: bool,
    /// The expected response statuses, in order.
    statuses: Vec<u16>,
    /// True if the connection is closed afterwards.
    is_closed: bool,
    /// The requests that are forwarded completely.
    forwarded: Vec<&'static str>,
}

/// A request that is rejected and closes the connection.
fn bad(name: &'static str, status: u16, sent: impl AsRef<[u8]>) -> RequestCase {
    let sent = sent.as_ref().to_vec();
    RequestCase { name, sent, shuts_down_write: false, statuses: vec![status], is_closed: true, forwarded: Vec::new() }
}

/// The same, followed directly by another request.
fn smuggling(name: &'static str, status: u16, sent: impl AsRef<[u8]>) -> RequestCase {
    bad(name, status, [sent.as_ref(), SMUGGLED.as_bytes()].concat())
}

/// A request that is forwarded.
fn good(name: &'static str, arrives: &'static str, sent: impl AsRef<[u8]>) -> RequestCase {
    let sent = sent.as_ref().to_vec();
    RequestCase { name, sent, shuts_down_write: false, statuses: vec![200], is_closed: false, forwarded: vec![arrives] }
}

/// A request that is forwarded and is the last one of its connection.
fn last(name: &'static str, arrives: &'static str, sent: impl AsRef<[u8]>) -> RequestCase {
    RequestCase { is_closed: true, ..good(name, arrives, sent) }
}

/// A POST with these headers, followed by `rest`.
fn post(lines: &str, rest: &str) -> String {
    format!("POST /post HTTP/1.1\r\nHost: shop.example\r\n{lines}\r\n\r\n{rest}")
}

struct Fixture {
    recorder: Recorder,
    gateway: TestGateway,
    probes: usize,
}

impl Fixture {
    fn start() -> Self {
        let recorder = Recorder::new();
        let gateway = TestGateway::from_yaml(&proxy_yaml(&[recorder.at], ""));
        Self { recorder, gateway, probes: 0 }
    }

    fn run(&mut self, case: &RequestCase) -> Vec<RecordedRequest> {
        let name = case.name;
        let start = self.recorder.seen().len();
        let mut client = Client::connect(self.gateway.at);
        // If the request is rejected early, not all of it can be written.
        drop(client.stream.write_all(&case.sent));
        if case.shuts_down_write {
            drop(client.stream.shutdown(Shutdown::Write));
        }
        for status in &case.statuses {
            let response =
                client.read_response().unwrap_or_else(|| panic!("{name}: no response, but {status} is expected"));
            assert_eq!(response.status, *status, "{name}: {response:?}");
        }
        let mut arrived: Vec<String> = case.forwarded.iter().map(|it| (*it).to_owned()).collect();
        if case.is_closed {
            assert!(client.is_closed(), "{name}: the connection stays open");
        } else {
            arrived.push(self.probe(name, &mut client));
        }
        arrived.push(self.probe(name, &mut Client::connect(self.gateway.at)));
        let seen = self.recorder.seen().split_off(start);
        let lines: Vec<String> = seen.iter().map(|it| format!("{} {}", it.method, it.target)).collect();
        assert_eq!(lines, arrived, "{name}");
        assert_eq!(self.recorder.violations(), [""; 0], "{name}");
        seen
    }

    fn probe(&mut self, name: &str, client: &mut Client) -> String {
        self.probes += 1;
        let path = format!("/probe/{}", self.probes);
        let response = client.get(&path);
        let expected = format!("GET {path}");
        assert_eq!((response.status, response.text()), (200, expected.clone()), "{name}: the next request");
        expected
    }

    /// Checks that nothing was forwarded later.
    fn finish(self) {
        let Self { recorder, gateway, .. } = self;
        gateway.stop();
        assert_eq!(recorder.violations(), [""; 0]);
        assert!(!recorder.seen().iter().any(|it| it.target.contains("smuggled")));
    }
}

fn run_cases(cases: &[RequestCase]) {
    let mut stage = Fixture::start();
    for case in cases {
        stage.run(case);
    }
    stage.finish();
}

/// RFC 9112, section 6: lengths that count, and lengths that are attacks.
#[test]
fn body_framing() {
    let chunks = "5\r\nhello\r\n0\r\n\r\n";
    let both = |lines: &str| post(lines, chunks);
    run_cases(&[
        good("a length", "POST /post", post("Content-Length: 5", "hello")),
        good("chunks", "POST /post", both("Transfer-Encoding: chunked")),
        good("upper case", "POST /post", both("TRANSFER-ENCODING: CHUNKED")),
        good("a space behind", "POST /post", both("Transfer-Encoding: chunked ")),
        good("a tab before", "POST /post", both("Transfer-Encoding:\tchunked")),
        good("the same length twice", "POST /post", post("Content-Length: 5\r\nContent-Length: 5", "hello")),
        // 6.1: the coding takes precedence, and the connection must close.
        last("length and coding", "POST /post", both("Content-Length: 5\r\nTransfer-Encoding: chunked") + SMUGGLED),
        last("coding and length", "POST /post", both("Transfer-Encoding: chunked\r\nContent-Length: 5") + SMUGGLED),
        last(
            "a length on each side",
            "POST /post",
            both("Content-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 6") + SMUGGLED,
        ),
        last(
            "a length that hides a request in the remaining chunks",
            "POST /post",
            post("Content-Length: 4\r\nTransfer-Encoding: chunked", &format!("0\r\n\r\n{SMUGGLED}")),
        ),
        // 6.3: a request whose last coding is not chunked has no defined end: 400 and close.
        smuggling("identity", 400, both("Transfer-Encoding: identity\r\nContent-Length: 5")),
        smuggling("chunked, identity", 400, both("Transfer-Encoding: chunked, identity\r\nContent-Length: 5")),
        smuggling("chunked, then identity", 400, both("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity")),
        smuggling("xchunked", 400, both("Transfer-Encoding: xchunked\r\nContent-Length: 5")),
        smuggling("quoted", 400, both("Transfer-Encoding: \"chunked\"\r\nContent-Length: 5")),
        smuggling("a parameter", 400, both("Transfer-Encoding: chunked;q=1\r\nContent-Length: 5")),
        smuggling("a vertical tab", 400, both("Transfer-Encoding: \x0bchunked\r\nContent-Length: 5")),
        smuggling("an empty coding", 400, both("Transfer-Encoding: \r\nContent-Length: 5")),
        smuggling("a broken name", 400, both("Transfer-Encoding : chunked\r\nContent-Length: 5")),
        // 7: unknown codings are not implemented.
        smuggling("gzip, chunked", 501, both("Transfer-Encoding: gzip, chunked")),
        smuggling("identity, then chunked", 501, both("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked")),
        smuggling("chunked twice", 501, both("Transfer-Encoding: chunked, chunked")),
        // 6.1: HTTP/1.0 has no transfer codings.
        smuggling("1.0 with chunks", 400, both("Transfer-Encoding: chunked").replace("HTTP/1.1", "HTTP/1.0")),
        // 6.3: invalid or contradictory lengths.
        smuggling("two lengths", 400, post("Content-Length: 5\r\nContent-Length: 6", "hello")),
        smuggling("a list of lengths", 400, post("Content-Length: 5, 6", "hello")),
        smuggling("a list of equal lengths", 400, post("Content-Length: 5, 5", "hello")),
        smuggling("a sign", 400, post("Content-Length: +5", "hello")),
        smuggling("a negative length", 400, post("Content-Length: -5", "hello")),
        smuggling("hexadecimal", 400, post("Content-Length: 0x5", "hello")),
        smuggling("a fraction", 400, post("Content-Length: 5.0", "hello")),
        smuggling("no length", 400, post("Content-Length:", "hello")),
        smuggling("a length of 2^64", 400, post("Content-Length: 18446744073709551616", "hello")),
        // Too large to be counted.
        smuggling("the longest length", 431, post("Content-Length: 18446744073709551615", "hello")),
    ]);
}

/// RFC 9112, section 7.1: an invalid chunk closes the connection.
#[test]
fn invalid_chunks() {
    let chunked = |rest: &str| post("Transfer-Encoding: chunked", rest);
    let cut = |name, sent: String| RequestCase { shuts_down_write: true, ..bad(name, 400, sent) };
    run_cases(&[
        good("an extension", "POST /post", chunked("5;a=b\r\nhello\r\n0\r\n\r\n")),
        good("zeros before", "POST /post", chunked("0005\r\nhello\r\n000\r\n\r\n")),
        good("capitals", "POST /post", chunked("A\r\n0123456789\r\n0\r\n\r\n")),
        smuggling("a negative size", 400, chunked("-5\r\nhello\r\n0\r\n\r\n")),
        smuggling("17 digits", 400, chunked("10000000000000005\r\nhello\r\n0\r\n\r\n")),
        smuggling("no size", 400, chunked("\r\nhello\r\n0\r\n\r\n")),
        smuggling("an extension of nothing", 400, chunked(";a=b\r\nhello\r\n0\r\n\r\n")),
        smuggling("garbage", 400, chunked("5g\r\nhello\r\n0\r\n\r\n")),
        smuggling("a prefix", 400, chunked("0x5\r\nhello\r\n0\r\n\r\n")),
        smuggling("a bare LF behind the size", 400, chunked("5\nhello\r\n0\r\n\r\n")),
        smuggling("a bare LF in an extension", 400, chunked("5;a\nhello\r\n0\r\n\r\n")),
        smuggling("too much data", 400, chunked("5\r\nhello!\r\n0\r\n\r\n")),
        smuggling("no CRLF behind data", 400, chunked("5\r\nhello0\r\n\r\n")),
        smuggling("a bare LF behind data", 400, chunked("5\r\nhello\n0\r\n\r\n")),
        smuggling("a bare CR behind data", 400, chunked("5\r\nhello\r0\r\n\r\n")),
        bad("an extension without end", 400, chunked(&format!("5;{}", "a".repeat(64 << 10)))),
        bad("extensions without end", 400, chunked(&format!("1;{}\r\na\r\n", "a".repeat(1_000)).repeat(100))),
        bad("trailers without end", 400, chunked(&format!("0\r\n{}", "a: b\r\n".repeat(20_000)))),
        cut("an end in a chunk", chunked("5\r\nhel")),
        cut("an end in a size", chunked("5\r\nhello\r\n1")),
        cut("an end before the last chunk", chunked("5\r\nhello\r\n")),
        cut("an end in the trailers", chunked("5\r\nhello\r\n0\r\na: b\r\n")),
        cut("an end in a body of known length", post("Content-Length: 6", "hello")),
    ]);
}

/// RFC 9112, sections 2 to 5, and RFC 9110, section 7.2.
#[test]
fn invalid_heads() {
    let get = |lines: &str| format!("GET /get HTTP/1.1\r\n{lines}\r\n\r\n");
    let hosted = |lines: &str| get(&format!("Host: shop.example\r\n{lines}"));
    run_cases(&[
        // 3.2: exactly one valid Host.
        smuggling("no host", 400, "GET /get HTTP/1.1\r\n\r\n"),
        smuggling("two hosts", 400, get("Host: shop.example\r\nHost: other.example")),
        smuggling("the same host twice", 400, get("Host: shop.example\r\nHost: shop.example")),
        smuggling("a host with a path", 400, get("Host: shop.example/x")),
        smuggling("a host with a space", 400, get("Host: shop example")),
        smuggling("a host with a login", 400, get("Host: me@shop.example")),
        smuggling("two hosts in 1.0", 400, "GET /get HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
        last("1.0 without a host", "GET /get", "GET /get HTTP/1.0\r\n\r\n"),
        good("an empty host", "GET /get", get("Host:")),
        good("another host in the target", "GET /get", "GET http://shop.example/get HTTP/1.1\r\nHost: evil\r\n\r\n"),
        smuggling("a target with a login", 400, "GET http://me@shop.example/get HTTP/1.1\r\nHost: a\r\n\r\n"),
        // 5: header lines.
        smuggling("a folded line", 400, hosted("X-Folded: a\r\n b")),
        smuggling("a folded line after a tab", 400, hosted("X-Folded: a\r\n\tb")),
        smuggling("a line that begins folded", 400, get(" Host: shop.example")),
        smuggling("a space before the colon", 400, hosted("X-Spaced : a")),
        smuggling("a tab before the colon", 400, hosted("X-Spaced\t: a")),
        smuggling("no colon", 400, hosted("X-Spaced")),
        smuggling("no name", 400, hosted(": a")),
        smuggling("NUL in a name", 400, hosted("X-\0Nul: a")),
        smuggling("NUL in a value", 400, hosted("X-Nul: a\0b")),
        smuggling("a control byte in a value", 400, hosted("X-Bell: a\x07b")),
        smuggling("DEL in a value", 400, hosted("X-Del: a\x7fb")),
        smuggling("a bare CR in a value", 400, hosted("X-Cr: a\rb")),
        smuggling("a bare CR at the end of a line", 400, "GET /get HTTP/1.1\rHost: shop.example\r\r"),
        smuggling("brackets in a name", 400, hosted("X-[a]: b")),
        smuggling("letters beyond ASCII in a name", 400, hosted("X-\u{e4}: b")),
        // 2.2: a bare LF may be accepted as a line end; forwarded lines end in CRLF.
        good("bare LFs", "GET /get", "GET /get HTTP/1.1\nHost: shop.example\n\n"),
        good("empty lines before", "GET /get", format!("\r\n\r\n{}", hosted("X-A: b"))),
        good("letters beyond ASCII in a value", "GET /get", hosted("X-A: \u{e4}")),
        // 3: the request line.
        bad("HTTP/0.9", 400, "GET /get\r\n\r\n"),
        smuggling("HTTP/1.2", 400, hosted("X-A: b").replace("1.1", "1.2")),
        smuggling("HTTP/2.0", 400, hosted("X-A: b").replace("1.1", "2.0")),
        smuggling("HTTP/11", 400, hosted("X-A: b").replace("1.1", "11")),
        smuggling("http/1.1", 400, hosted("X-A: b").replace("HTTP", "http")),
        smuggling("two spaces", 400, hosted("X-A: b").replace("GET ", "GET  ")),
        smuggling("a space in the target", 400, hosted("X-A: b").replace("/get", "/g et")),
        smuggling("NUL in the target", 400, hosted("X-A: b").replace("/get", "/g\0et")),
        smuggling("a method that is none", 400, hosted("X-A: b").replace("GET", "G@T")),
        smuggling("no method", 400, hosted("X-A: b").replace("GET", "")),
        smuggling("no path", 400, hosted("X-A: b").replace("/get", "get")),
        smuggling("a star for GET", 400, hosted("X-A: b").replace("/get", "*")),
        good("a star for OPTIONS", "OPTIONS *", hosted("X-A: b").replace("GET /get", "OPTIONS *")),
        smuggling("CONNECT", 501, hosted("X-A: b").replace("GET /get", "CONNECT shop.example:80")),
        smuggling("TRACE", 501, hosted("X-A: b").replace("GET", "TRACE")),
        bad("TLS where none is spoken", 400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
        // Size limits.
        bad("a long method", 431, hosted("X-A: b").replace("GET", &"G".repeat(64 << 10))),
        bad("a long target", 431, hosted("X-A: b").replace("/get", &format!("/{}", "g".repeat(65_540)))),
        bad("a long line", 431, hosted(&format!("X-Long: {}", "a".repeat(128 << 10)))),
        bad("many lines", 431, hosted(&"X-A: b\r\n".repeat(101)[..101 * 8 - 2])),
        bad("a bomb of lines", 431, hosted(&"a:b\r\n".repeat(30_000))),
    ]);
}

/// Hop-by-hop headers and rewritten headers.
#[test]
fn heads_as_forwarded() {
    let mut stage = Fixture::start();
    let mut seen = |name, lines: &str, body: &str| {
        let case = good(name, "POST /post", post(lines, body));
        stage.run(&case).remove(0)
    };
    let named = seen(
        "headers that Connection names",
        "Content-Length: 5\r\nX-Forwarded-For: 192.0.2.1\r\nX-Mine: 1\r\n\
         Connection: X-Forwarded-For, Host, Content-Length, X-Mine, keep-alive\r\nKeep-Alive: timeout=5",
        "hello",
    );
    assert_eq!((named.header("host"), &named.body[..]), (Some("shop.example"), &b"hello"[..]));
    let forwarded = named.headers.iter().find(|(name, _)| name == "x-forwarded-for");
    assert_eq!(forwarded.unwrap().1, "127.0.0.1");
    for name in ["x-mine", "connection", "keep-alive"] {
        assert!(!named.headers.iter().any(|(known, _)| known == name), "{name}");
    }

    let te = seen("TE", "Connection: TE\r\nTE: gzip, trailers\r\nContent-Length: 0", "");
    assert_eq!((te.header("te"), te.header("connection")), (Some("trailers"), None));

    let chunked = seen("our own chunks", "Transfer-Encoding: chunked", "3;a=b\r\nhel\r\n02\r\nlo\r\n0\r\n\r\n");
    assert_eq!((chunked.header("transfer-encoding"), &chunked.body[..]), (Some("chunked"), &b"hello"[..]));

    let trailers = seen(
        "trailers",
        "Trailer: X-Sum, Content-Length, Host, Transfer-Encoding\r\nTransfer-Encoding: chunked",
        "5\r\nhello\r\n0\r\nX-Sum: 5\r\nContent-Length: 9\r\nHost: evil\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    assert_eq!(trailers.trailers, [("x-sum".to_owned(), "5".to_owned())]);
    assert_eq!(trailers.header("host"), Some("shop.example"));

    // Announced trailers that are not sent: the head must not be sent twice.
    let none =
        seen("trailers that do not come", "Trailer: X-Sum\r\nTransfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n");
    assert_eq!((none.trailers, &none.body[..]), (Vec::new(), &b"hello"[..]));

    // Upgrades to protocols that would carry requests past the rules are ignored.
    for upgrade in ["h2c", "H2C, websocket", "HTTP/2.0", "TLS/1.0, HTTP/1.1"] {
        let lines = format!(
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0"
        );
        let plain = seen("an upgrade to HTTP/2", &lines, "");
        for name in ["connection", "upgrade", "http2-settings"] {
            assert_eq!(plain.header(name), None, "{upgrade}: {name}");
        }
    }

    let absolute = good("another host", "GET /get", "GET http://shop.example:81/get HTTP/1.1\r\nHost: evil\r\n\r\n");
    assert_eq!(stage.run(&absolute)[0].header("host"), Some("shop.example:81"));
    stage.finish();
}

#[test]
fn a_body_may_come_with_any_method() {
    let mut stage = Fixture::start();
    for method in ["GET", "DELETE", "HEAD", "OPTIONS", "BREW"] {
        for (lines, body) in [("Content-Length: 5", "hello"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")]
        {
            let start = stage.recorder.seen().len();
            let mut client = Client::connect(stage.gateway.at);
            client.send(post(lines, body).replace("POST", method));
            assert_eq!(client.read_response_to(method != "HEAD").unwrap().status, 200, "{method}");
            stage.probe(method, &mut client);
            let seen = &stage.recorder.seen()[start];
            assert_eq!((seen.method.as_str(), &seen.body[..]), (method, &b"hello"[..]), "{lines}");
        }
    }
    stage.finish();
}

#[test]
fn expect_100_continue_gets_an_interim_response() {
    let mut stage = Fixture::start();
    let mut client = Client::connect(stage.gateway.at);
    client.send(post("Expect: 100-continue\r\nContent-Length: 5", ""));
    assert_eq!(client.line().as_deref(), Some("HTTP/1.1 100 Continue"));
    assert_eq!(client.line().as_deref(), Some(""));
    client.send("hello");
    assert_eq!(client.read_response().unwrap().text(), "POST /post");
    stage.probe("after a hundred", &mut client);
    let seen = stage.recorder.seen();
    // The gateway has answered the expectation, so it is not forwarded.
    assert_eq!((seen[0].header("expect"), &seen[0].body[..]), (None, &b"hello"[..]));
    stage.finish();
}

#[test]
fn pipelined_requests_get_responses_in_order() {
    let mut stage = Fixture::start();
    let mut client = Client::connect(stage.gateway.at);
    let mut sent = String::new();
    for number in 0..100 {
        sent += &match number % 3 {
            0 => format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
            1 => format!("POST /{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"),
            _ => {
                format!("PUT /{number} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
            }
        };
    }
    client.send(&sent);
    for number in 0..100 {
        let expected = format!("{} /{number}", ["GET", "POST", "PUT"][number % 3]);
        assert_eq!(client.read_response().unwrap().text(), expected);
    }
    stage.probe("after a hundred requests", &mut client);

    // A malformed request after valid ones does not affect them, and nothing after it is read.
    let both = "GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost : a\r\n\r\n";
    let mut case = smuggling("a bad one behind a good one", 200, both);
    case.statuses.push(400);
    case.forwarded.push("GET /first");
    stage.run(&case);
    stage.finish();
}

/// RFC 9113, section 8: malformed streams are reset or refused, and nothing of them is forwarded.
#[test]
fn invalid_http2_streams() {
    const PROTOCOL_ERROR: u32 = 1;
    let stage = Fixture::start();
    let method = (":method", "POST");
    let (scheme, authority, path) = ((":scheme", "http"), (":authority", "shop.example"), (":path", "/h2"));
    let whole = [method, scheme, authority, path];
    let with = |more: &[(&'static str, &'static str)]| [&whole[..], more].concat();
    let malformed =
        [StreamResult::Reset(PROTOCOL_ERROR), StreamResult::GoAway(PROTOCOL_ERROR), StreamResult::Status(400)];
    for (name, headers) in [
        ("upper case", with(&[("X-Upper", "a")])),
        ("connection", with(&[("connection", "close")])),
        ("keep-alive", with(&[("keep-alive", "5")])),
        ("proxy-connection", with(&[("proxy-connection", "close")])),
        ("transfer-encoding", with(&[("transfer-encoding", "chunked")])),
        ("upgrade", with(&[("upgrade", "websocket")])),
        ("te", with(&[("te", "gzip")])),
        ("no method", vec![scheme, authority, path]),
        ("no scheme", vec![method, authority, path]),
        ("no path", vec![method, scheme, authority]),
        ("an empty path", vec![method, scheme, authority, (":path", "")]),
        ("no authority and no host", vec![method, scheme, path]),
        ("two methods", with(&[method])),
        ("two paths", with(&[path])),
        ("a pseudo header of responses", with(&[(":status", "200")])),
        ("an unknown pseudo header", with(&[(":x", "a")])),
        ("a pseudo header behind another", [&[("x-a", "b")], &whole[..]].concat()),
        ("host and authority differ", with(&[("host", "evil")])),
        ("two hosts", with(&[("host", "shop.example"), ("host", "shop.example")])),
        ("a login", vec![method, scheme, (":authority", "me@shop.example"), path]),
        ("a line break in a value", with(&[("x-a", "b\r\nX-Smuggled: 1")])),
        ("a line break in a name", with(&[("x-a: b\r\nx-b", "c")])),
        ("a line break in the path", vec![method, scheme, authority, (":path", "/ HTTP/1.1\r\nHost: evil")]),
        ("a space in the path", vec![method, scheme, authority, (":path", "/smuggled HTTP/1.1")]),
        ("a line break in the method", vec![(":method", "GET / HTTP/1.1\r\nX: "), scheme, authority, path]),
        ("NUL in a value", with(&[("x-a", "b\0c")])),
        ("a colon in a name", with(&[("x:a", "b")])),
        ("an empty name", with(&[("", "b")])),
        ("a length that is none", with(&[("content-length", "+0")])),
        ("two lengths", with(&[("content-length", "0"), ("content-length", "1")])),
    ] {
        let mut client = Http2::connect(stage.gateway.at);
        client.send(frames::head(1, END_STREAM, &headers));
        let stream_result = client.stream_result(1);
        assert!(malformed.contains(&stream_result), "{name}: {stream_result:?}");
        // If the connection stays open, the next request is served.
        if !matches!(stream_result, StreamResult::GoAway(_)) {
            client.send(frames::get(3, "/better"));
            assert_eq!(client.stream_result(3), StreamResult::Status(200), "{name}");
            assert_eq!(client.body(3), b"GET /better");
        }
    }
    // 8.1.1: a length that disagrees with the data, in both directions.
    for (length, data) in [("4", "hello"), ("6", "hello")] {
        let mut client = Http2::connect(stage.gateway.at);
        client.send(frames::head(1, 0, &with(&[("content-length", length)])));
        client.send(frames::frame(DATA, END_STREAM, 1, data.as_bytes()));
        let stream_result = client.stream_result(1);
        assert!(malformed.contains(&stream_result), "{length}: {stream_result:?}");
    }
    let mut client = Http2::connect(stage.gateway.at);
    client.send(frames::head(1, END_STREAM, &with(&[("content-length", "5")])));
    let stream_result = client.stream_result(1);
    assert!(malformed.contains(&stream_result), "a length without data: {stream_result:?}");
    drop(client);
    // A request without data is complete, and may have been forwarded before unexpected data arrives.
    let mut client = Http2::connect(stage.gateway.at);
    client.send(frames::head(1, 0, &with(&[("content-length", "0")])));
    client.send(frames::frame(DATA, END_STREAM, 1, b"hello"));
    let stream_result = client.stream_result(1);
    assert!(
        malformed.contains(&stream_result) || stream_result == StreamResult::Status(200),
        "data without a length: {stream_result:?}"
    );
    drop(client);
    // Misplaced frames close the connection.
    for (name, bytes) in [
        ("data of no stream", frames::frame(DATA, 0, 0, b"a")),
        ("data of a stream that never was", frames::frame(DATA, 0, 5, b"a")),
        ("an even stream", frames::get(2, "/smuggled")),
        (
            "a head within a head",
            [frames::frame(HEADERS, 0, 1, &frames::block(&whole)), frames::get(3, "/smuggled")].concat(),
        ),
        ("a continuation without headers", frames::frame(CONTINUATION, END_HEADERS, 1, &[])),
        ("a frame too large", frames::frame(DATA, 0, 1, &[0; 20_000])),
        ("a broken block", frames::frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff; 20])),
    ] {
        let mut client = Http2::connect(stage.gateway.at);
        client.send(bytes);
        let stream_result = client.end();
        assert!(matches!(stream_result, StreamResult::GoAway(1..)), "{name}: {stream_result:?}");
    }
    let arrived = stage.recorder.seen();
    assert!(arrived.iter().all(|it| it.target == "/better" || it.header("content-length") == Some("0")), "{arrived:?}");
    assert!(arrived.iter().all(|it| it.body.is_empty()));
    stage.finish();
}

#[test]
fn the_http2_authority_becomes_the_host() {
    let stage = Fixture::start();
    let mut client = Http2::connect(stage.gateway.at);
    let (method, scheme, path) = ((":method", "GET"), (":scheme", "http"), (":path", "/h2?a=b"));
    client.send(frames::head(1, END_STREAM, &[method, scheme, (":authority", "Shop.example"), path]));
    assert_eq!(client.stream_result(1), StreamResult::Status(200));
    client.send(frames::head(3, END_STREAM, &[method, scheme, path, ("host", "shop.example")]));
    assert_eq!(client.stream_result(3), StreamResult::Status(200));
    let cookies = [("cookie", "a=1"), ("cookie", "b=2")];
    let whole = [method, scheme, (":authority", "a:80"), path, ("host", "a:80"), cookies[0], cookies[1]];
    client.send(frames::head(5, END_STREAM, &whole));
    assert_eq!(client.stream_result(5), StreamResult::Status(200));
    let seen = stage.recorder.seen();
    let hosts: Vec<_> = seen.iter().map(|it| it.header("host").unwrap()).collect();
    assert_eq!(hosts, ["Shop.example", "shop.example", "a:80"]);
    assert!(seen.iter().all(|it| it.target == "/h2?a=b"));
    // RFC 9113, section 8.2.3: over HTTP/1 there is one cookie header.
    let cookies: Vec<_> = seen[2].headers.iter().filter(|(name, _)| name == "cookie").map(|it| it.1.as_str()).collect();
    assert_eq!(cookies, ["a=1; b=2"]);
    drop(client);
    stage.finish();
}

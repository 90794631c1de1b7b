//! Responses with every framing, to clients of every HTTP version.

use std::io::Write;

use super::scripted::{RawServer, read_head};
use super::support::frames::{self, DATA, END_STREAM, HEADERS, Http2, RESET, StreamResult};
use super::support::raw::Client;
use super::support::{TestGateway, proxy_yaml};

/// A server that selects its response by path.
fn server() -> RawServer {
    RawServer::new(|mut stream| {
        while let Some(head) = read_head(&mut stream) {
            let mut words = head.split(' ');
            let (method, path) = (words.next().unwrap(), words.next().unwrap());
            let (response, ends): (&[u8], bool) = match (method, path) {
                ("HEAD", _) => (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\n", false),
                (_, "/length") => (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false),
                (_, "/empty") => (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false),
                (_, "/chunked") => {
                    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", false)
                }
                (_, "/until-close") => (b"HTTP/1.1 200 OK\r\n\r\nhello", true),
                (_, "/old") => (b"HTTP/1.0 200 OK\r\n\r\nhello", true),
                (_, "/closing") => {
                    (b"HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: 5\r\n\r\nhello", true)
                }
                (_, "/nothing") => (b"HTTP/1.1 204 No Content\r\n\r\n", false),
                (_, "/unchanged") => {
                    (b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 500\r\n\r\n", false)
                }
                (_, "/hints") => {
                    let response = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                                   HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
                    (response, false)
                }
                (_, "/switched") => {
                    (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello", false)
                }
                _ => (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", false),
            };
            stream.write_all(response).unwrap();
            if ends {
                return;
            }
        }
    })
}

const HELLO: [&str; 6] = ["/length", "/chunked", "/until-close", "/old", "/closing", "/hints"];

#[test]
fn http11_clients_keep_their_connection_for_any_response_framing() {
    let server = server();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    for _ in 0..3 {
        for path in HELLO {
            let response = client.get(path);
            assert_eq!((response.status, response.text().as_str()), (200, "hello"), "{path}");
            assert_eq!((response.header("connection"), response.header("x-hop")), (None, None), "{path}");
        }
        assert_eq!(client.get("/empty").body, b"");
        let nothing = client.get("/nothing");
        assert_eq!((nothing.status, nothing.header("content-length")), (204, None));
        let unchanged = client.get("/unchanged");
        assert_eq!((unchanged.status, unchanged.header("etag")), (304, Some("\"a\"")));
        client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.read_response_to(false).unwrap();
        assert_eq!((head.status, head.header("content-length")), (200, Some("5")));
    }
}

#[test]
fn a_client_may_ask_to_close() {
    let server = server();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    for path in HELLO {
        let mut client = Client::connect(gateway.at);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let response = client.read_response().unwrap();
        assert_eq!((response.text().as_str(), response.header("connection")), ("hello", Some("close")), "{path}");
        assert!(client.is_closed());
    }
}

#[test]
fn http10_clients_get_no_chunks() {
    let server = server();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    for path in HELLO {
        let mut client = Client::connect(gateway.at);
        client.send(format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n"));
        let response = client.read_response().unwrap();
        assert_eq!((response.text().as_str(), response.header("transfer-encoding")), ("hello", None), "{path}");
        assert!(client.is_closed());
    }
    // The connection may stay open if the length is known.
    let mut client = Client::connect(gateway.at);
    for _ in 0..3 {
        client.send("GET /length HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
        let response = client.read_response().unwrap();
        assert_eq!((response.text().as_str(), response.header("connection")), ("hello", Some("keep-alive")));
    }
}

#[test]
fn http2_clients_get_complete_responses() {
    let server = server();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Http2::connect(gateway.at);
    for (number, path) in HELLO.into_iter().enumerate() {
        let stream = 2 * u32::try_from(number).unwrap() + 1;
        client.send(frames::get(stream, path));
        assert_eq!(client.stream_result(stream), StreamResult::Status(200), "{path}");
        assert_eq!(client.body(stream), b"hello", "{path}");
    }
    for (stream, method, path, status) in
        [(101, "HEAD", "/x", 200), (103, "GET", "/nothing", 204), (105, "GET", "/unchanged", 304)]
    {
        let head = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)];
        client.send(frames::head(stream, END_STREAM, &head));
        let frame = loop {
            let frame = client.next().unwrap();
            if frame.stream == stream {
                break frame;
            }
        };
        assert_eq!(frames::status(&frame.payload), status);
        assert_ne!(frame.flags & END_STREAM, 0, "{method} {path}: no more data");
    }
}

#[test]
fn a_refused_http2_upload_gets_a_response_and_a_reset() {
    let server = server();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], "rules: [{ name: one, limits: [1/1h] }]"));
    let mut client = Http2::connect(gateway.at);
    client.send(frames::get(1, "/length"));
    assert_eq!(client.stream_result(1), StreamResult::Status(200));
    for stream in (3..40).step_by(2) {
        let upload = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/length")];
        client.send(frames::head(stream, 0, &upload));
        client.send(frames::frame(DATA, 0, stream, &[b'x'; 1_000]));
        let mut seen = Vec::new();
        while seen.last().is_none_or(|kind| *kind != RESET) {
            let frame = client.next().unwrap();
            if frame.stream == stream {
                seen.push(frame.kind);
                if frame.kind == RESET {
                    assert_eq!(frame.payload, [0; 4], "it was not an error");
                }
            }
        }
        assert_eq!(seen, [HEADERS, DATA, RESET]);
    }
}

/// RFC 9110, section 15.2.2: a server must not switch protocols without a request for it.
#[test]
fn an_unrequested_protocol_switch_is_a_502() {
    let server = server();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    assert_eq!(client.get("/switched").status, 502);
    assert_eq!(client.get("/length").text(), "hello");
    let mut client = Http2::connect(gateway.at);
    client.send(frames::get(1, "/switched"));
    assert_eq!(client.stream_result(1), StreamResult::Status(502));
    client.send(frames::get(3, "/length"));
    assert_eq!(client.stream_result(3), StreamResult::Status(200));
}

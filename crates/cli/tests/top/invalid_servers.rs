//! Servers that are not an admin API, or a broken one: reported in one line, without a panic.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::{failure, run};

/// A server that sends a fixed reply to every request and closes. Ends with the test's process.
fn serve_fixed(reply: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let reply = reply.clone();
            thread::spawn(move || {
                let mut stream = stream;
                let mut request = [0; 4_096];
                // Errors are ignored: the client may have disconnected.
                drop(stream.read(&mut request));
                drop(stream.write_all(&reply));
            });
        }
    });
    url
}

fn events(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{text}").into_bytes()
}

#[test]
fn a_non_admin_server_is_reported() {
    let plain = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let cases = [
        (Vec::new(), ""),
        (b"-ERR unknown command\r\n".to_vec(), "invalid HTTP"),
        (b"\x16\x03\x01\0\0\0".to_vec(), ""),
        (plain("200 OK", "<html>hello</html>"), "not an admin API: /v1/live is not an event stream"),
        (plain("404 Not Found", "nothing here"), "404 Not Found"),
        (
            plain("403 Forbidden", "{\"detail\":\"set `admin.token_file`\\u001b[2J\\n\"}"),
            "set `admin.token_file`\\u{1b}[2J\\n",
        ),
        (plain("500 Internal Server Error", "[[[[["), "500 Internal Server Error"),
        (plain("301 Moved Permanently", ""), "301 Moved Permanently"),
        (format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20)).into_bytes(), ""),
        (events(""), "closed the stream"),
        (events("event: tick\ndata: {\"at_ms\": 1, \"rules\": [{\"name\": \"a\"}]}\n\n"), "closed the stream"),
        (
            events("event: tick\ndata: not json\n\nevent: tick\ndata: 7\n\nevent: tick\ndata: [[[\n\n"),
            "closed the stream",
        ),
        (events(&format!("event: tick\ndata: {}\n\n", "[".repeat(100_000))), "closed the stream"),
        (events(&"x".repeat(17 << 20)), "an event exceeds 16 MiB"),
    ];
    for (reply, why) in cases {
        let shown = String::from_utf8_lossy(&reply[..reply.len().min(60)]).into_owned();
        let url = serve_fixed(reply);
        let error = failure(&run(&["--once", &url]));
        assert!(error.contains(&url) && error.contains(why), "{shown:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}

/// Invalid values are shown as absent; unknown fields are ignored.
#[test]
fn invalid_values_are_tolerated() {
    let first = r#"{"at_ms": "soon", "rules": [{"name": 7, "admitted": -1}, null, {"name": "a", "used": 1e999}]}"#;
    let second =
        r#"{"at_ms": 1e300, "bans": [], "rules": [{"name": "a", "admitted": 1e300, "refused": {}, "used": -3}]}"#;
    let url = serve_fixed(events(&format!(
        "event: tick\ndata: {first}\n\nevent: tick\ndata: {second}\n\n\
                                    event: tick\ndata: {{\"at_ms\": 5000, \"rules\": [{{\"name\": \"good\"}}]}}\n\n"
    )));
    let output = run(&["--once", &url]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(super::out(&output).contains("RULE"));
}

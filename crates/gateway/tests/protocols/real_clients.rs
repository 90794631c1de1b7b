//! Third-party clients (curl, h2load) and the PROXY protocol.

use std::io::Write;
use std::process::{Command, Stdio};

use bytes::Bytes;
use http::Response;
use sluicegate_engine::clock::ClockHandle;

use super::support::certificate::CertificateDir;
use super::support::raw::Client;
use super::support::upstream::Upstream;
use super::support::{TestGateway, proxy_yaml};

/// A server that responds with the length of the request body.
fn measuring() -> Upstream {
    Upstream::new(|request| async move { Response::new(Bytes::from(request.body().len().to_string())) })
}

/// The output of curl, with this standard input.
fn curl(words: &[&str], input: &[u8]) -> String {
    let mut curl = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "*"])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = curl.stdin.take().unwrap();
    let input = input.to_vec();
    let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = curl.wait_with_output().unwrap();
    writing.join().unwrap();
    assert!(output.status.success(), "curl {words:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn curl_sends_large_bodies_after_100_continue() {
    let upstream = measuring();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], ""));
    let url = format!("http://{}/up", gateway.at);
    let body = vec![b'x'; 5 << 20];
    for version in ["--http1.1", "--http2-prior-knowledge", "--http1.0"] {
        for coding in ["X-A: b", "Transfer-Encoding: chunked"] {
            if coding.starts_with('T') && version != "--http1.1" {
                continue;
            }
            let output =
                curl(&[version, "-H", "Expect: 100-continue", "-H", coding, "--data-binary", "@-", &url], &body);
            assert_eq!(output, body.len().to_string(), "{version} {coding}");
        }
    }
    assert!(upstream.seen.lock().iter().all(|it| !it.headers().contains_key("expect")));
}

#[test]
fn curl_h2c_upgrades_are_served_over_http1() {
    let upstream = measuring();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], ""));
    let output = curl(&["--http2", "-w", " %{http_version} %{http_code}", &format!("http://{}/", gateway.at)], b"");
    assert_eq!(output, "0 1.1 200");
}

#[test]
fn curl_negotiates_the_protocol_over_tls() {
    let folder = CertificateDir::new();
    let upstream = measuring();
    let yaml = proxy_yaml(&[upstream.at], "").replace("listen: 127.0.0.1:0", CertificateDir::LISTEN);
    let gateway = TestGateway::in_dir(folder.path(), &yaml, ClockHandle::system());
    let (url, ca) = (format!("https://{}/x", gateway.at), folder.authority());
    let body = vec![b'x'; 5 << 20];
    for (option, spoken) in [("--http2", "2"), ("--http1.1", "1.1")] {
        for version in ["1.2", "1.3"] {
            let output = curl(
                &[option, "--cacert", &ca, "--tls-max", version, "-w", " %{http_version}", "--data-binary", "@-", &url],
                &body,
            );
            assert_eq!(output, format!("{} {spoken}", body.len()));
        }
    }
    let seen = upstream.seen.lock();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|it| it.headers()["x-forwarded-proto"] == "https"));
    drop(seen);
    // Without a TLS handshake there is no service.
    let mut plain = Client::connect(gateway.at);
    plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(plain.read_response().is_none());
}

#[test]
fn h2load_gets_every_response() {
    let upstream = Upstream::returning("hello");
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], ""));
    for arguments in ["-n 3000 -c 10 -m 10", "-n 3000 -c 10 --h1"] {
        let output = Command::new("h2load").args(arguments.split(' ')).arg(format!("http://{}/", gateway.at)).output();
        let Ok(output) = output else { panic!("h2load is missing: run scripts/setup test") };
        let output = String::from_utf8(output.stdout).unwrap();
        assert!(output.contains("3000 succeeded, 0 failed, 0 errored, 0 timeout"), "{output}");
        assert!(output.contains("status codes: 3000 2xx"), "{output}");
    }
}

#[test]
fn proxy_protocol_sets_the_client_address() {
    let upstream = measuring();
    let listen = "listen: { address: 127.0.0.1:0, proxy_protocol: true }\n  trusted_proxies: [127.0.0.0/8]";
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], "").replace("listen: 127.0.0.1:0", listen));
    let v2 = {
        let mut line = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
        line.extend([192, 0, 2, 8, 127, 0, 0, 1, 0x10, 0, 0, 80]);
        line
    };
    let v6 = b"PROXY TCP6 2001:db8::7 ::1 1000 80\r\n".to_vec();
    let v1 = b"PROXY TCP4 192.0.2.7 127.0.0.1 1000 80\r\n".to_vec();
    for (line, client) in [(v1, "192.0.2.7"), (v2, "192.0.2.8"), (v6, "2001:db8::7")] {
        let mut proxy = Client::connect(gateway.at);
        proxy.send(line);
        for _ in 0..2 {
            assert_eq!(proxy.get("/").status, 200);
            assert_eq!(upstream.seen.lock().last().unwrap().headers()["x-forwarded-for"], client);
        }
    }
    let output = curl(&["--haproxy-protocol", "-w", " %{http_code}", &format!("http://{}/", gateway.at)], b"");
    assert_eq!(output, "0 200");
    // Without a PROXY header, or with an invalid one, there is no service.
    let before = upstream.requests();
    for line in ["", "PROXY TCP4 192.0.2.7\r\n", "PROXY TCP4 192.0.2.7 127.0.0.1 1000 80 more\r\n"] {
        let mut client = Client::connect(gateway.at);
        client.send(format!("{line}GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(client.read_response().is_none(), "{line:?}");
    }
    assert_eq!(upstream.requests(), before);
}

#[test]
fn proxy_protocol_from_an_untrusted_peer_is_rejected() {
    let upstream = measuring();
    let listen = "listen: { address: 127.0.0.1:0, proxy_protocol: true }\n  trusted_proxies: [192.0.2.0/24]";
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], "").replace("listen: 127.0.0.1:0", listen));
    let mut client = Client::connect(gateway.at);
    client.send("PROXY TCP4 192.0.2.7 127.0.0.1 1000 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.read_response().is_none());
    assert_eq!(upstream.requests(), 0);
}

#[test]
fn curl_sees_the_refusal_of_its_upload() {
    let upstream = measuring();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], "rules: [{ name: one, limits: [1/1h] }]"));
    let url = format!("http://{}/up", gateway.at);
    let body = vec![b'x'; 20 << 20];
    assert_eq!(curl(&[&url], b""), "0");
    for expect in ["Expect:", "Expect: 100-continue"].repeat(5) {
        let words = ["--http1.1", "-H", expect, "-o", "/dev/null", "-w", "%{http_code}", "--data-binary", "@-", &url];
        assert_eq!(curl(&words, &body), "429", "{expect}");
    }
}

#[test]
fn a_client_that_keeps_sending_sees_the_refusal() {
    let upstream = measuring();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], "rules: [{ name: one, limits: [1/1h] }]"));
    assert_eq!(Client::connect(gateway.at).get("/").status, 200);
    for _ in 0..20 {
        let mut client = Client::connect(gateway.at);
        drop(client.stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n"));
        drop(client.stream.write_all(&[b'x'; 5_000_000]));
        assert_eq!(client.read_response().unwrap().status, 429);
    }
}

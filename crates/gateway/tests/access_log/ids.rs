//! Request IDs: in the log, at the upstream and at the client.

use std::net::SocketAddr;

use http::Response;

use super::file::LogFile;
use super::support::file::gateway_yaml;
use super::support::raw::{Client, RawResponse};
use super::support::scripted::ScriptedServer;
use super::support::upstream::Upstream;
use super::support::{TestGateway, wait_until};

fn fields(log: &LogFile, trusted: &str, upstream: SocketAddr) -> String {
    format!(
        "{}\ntrusted_proxies: [{trusted}]\nupstreams: {{ shop: \"http://{upstream}\" }}\n\
         routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]",
        log.setting("json")
    )
}

fn get_with(at: SocketAddr, lines: &str) -> RawResponse {
    let mut client = Client::connect(at);
    client.send(format!("GET / HTTP/1.1\r\nHost: shop\r\n{lines}\r\n"));
    client.read_response().unwrap()
}

fn id(response: &RawResponse) -> &str {
    let all: Vec<_> = response.headers.iter().filter(|(name, _)| name == "x-request-id").collect();
    assert_eq!(all.len(), 1, "{response:?}");
    &all[0].1
}

/// The IDs that the upstream received, all of each request.
fn ids_sent_upstream(upstream: &Upstream) -> Vec<String> {
    let ids = |request: &http::Request<bytes::Bytes>| {
        let all: Vec<_> = request.headers().get_all("x-request-id").iter().map(|id| id.to_str().unwrap()).collect();
        all.join("|")
    };
    upstream.seen.lock().iter().map(ids).collect()
}

fn logged_ids(log: &LogFile, count: usize) -> Vec<String> {
    log.objects(count).iter().map(|line| line["request_id"].as_str().unwrap().to_owned()).collect()
}

fn is_generated(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[test]
fn upstream_client_and_log_see_the_same_id() {
    let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, "", upstream.at), ""));
    let returned: Vec<String> = (0..5).map(|_| id(&get_with(gateway.at, "")).to_owned()).collect();
    assert!(returned.iter().all(|id| is_generated(id)), "{returned:?}");
    assert_eq!(returned.iter().collect::<std::collections::HashSet<_>>().len(), 5, "{returned:?}");
    assert_eq!(ids_sent_upstream(&upstream), returned);
    assert_eq!(logged_ids(&log, 5), returned);
}

/// Responses of the gateway itself have an ID too: users quote it when they report a refusal.
#[test]
fn a_refusal_has_an_id_too() {
    let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
    let rules = "rules: [{ name: one, limits: [1/1h] }]";
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, "", upstream.at), rules));
    let mut client = Client::connect(gateway.at);
    let responses = [(); 3].map(|()| {
        client.send("GET / HTTP/1.1\r\nHost: shop\r\nX-Request-Id: mine\r\n\r\n");
        client.read_response().unwrap()
    });
    assert_eq!([responses[0].status, responses[1].status, responses[2].status], [200, 429, 429]);
    client.send("TRACE / HTTP/1.1\r\nHost: shop\r\n\r\n");
    let bad = client.read_response().unwrap();
    assert_eq!(bad.status, 501);
    let returned: Vec<String> = responses.iter().chain([&bad]).map(|response| id(response).to_owned()).collect();
    assert!(returned.iter().all(|id| is_generated(id)), "{returned:?}");
    assert_eq!(logged_ids(&log, 4), returned);
}

#[test]
fn only_a_trusted_proxy_may_set_the_id() {
    for (trusted, taken) in [("127.0.0.0/8", true), ("10.0.0.0/8", false), ("", false)] {
        let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
        let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, trusted, upstream.at), ""));
        let returned = id(&get_with(gateway.at, "X-Request-Id: edge-1.a/b+c=:~_\r\n")).to_owned();
        assert_eq!(returned == "edge-1.a/b+c=:~_", taken, "{trusted}: {returned}");
        assert!(taken || is_generated(&returned), "{returned}");
        assert_eq!(ids_sent_upstream(&upstream), [returned.as_str()]);
        assert_eq!(logged_ids(&log, 1), [returned]);
    }
}

#[test]
fn an_invalid_id_is_always_replaced() {
    let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, "127.0.0.0/8", upstream.at), ""));
    let long = "a".repeat(129);
    let bad = ["", "a b", "a\"b", "a,b", "\u{e9}", "<script>", &long];
    let returned: Vec<String> =
        bad.iter().map(|given| id(&get_with(gateway.at, &format!("X-Request-Id: {given}\r\n"))).to_owned()).collect();
    assert!(returned.iter().all(|id| is_generated(id)), "{returned:?}");
    assert_eq!(ids_sent_upstream(&upstream), returned);
    assert_eq!(logged_ids(&log, bad.len()), returned);
    assert_eq!(id(&get_with(gateway.at, &format!("X-Request-Id: {}\r\n", &long[1..]))), &long[1..]);
    // Of two IDs, the first counts.
    assert_eq!(id(&get_with(gateway.at, "X-Request-Id: one\r\nX-Request-Id: two\r\n")), "one");
    assert_eq!(ids_sent_upstream(&upstream).last().unwrap(), "one");
}

/// `Connection` names hop-by-hop headers, but a peer cannot remove the gateway's own headers with it.
#[test]
fn connection_header_cannot_remove_the_id() {
    let log = LogFile::new();
    let upstream = Upstream::new(|_| async {
        let response = Response::builder().header("connection", "x-request-id").header("x-request-id", "the-server's");
        response.body(bytes::Bytes::from_static(b"hello")).unwrap()
    });
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, "", upstream.at), ""));
    let lines = ["", "Connection: X-Request-Id\r\n", "X-Request-Id: a\r\nConnection: close, x-request-id\r\n"];
    let returned: Vec<String> = lines.iter().map(|lines| id(&get_with(gateway.at, lines)).to_owned()).collect();
    assert!(returned.iter().all(|id| is_generated(id)), "{returned:?}");
    assert_eq!(ids_sent_upstream(&upstream), returned);
    assert_eq!(logged_ids(&log, lines.len()), returned);
}

#[test]
fn connection_header_cannot_remove_the_id_of_an_upgrade() {
    let log = LogFile::new();
    let server = ScriptedServer::new(|connection| {
        if connection.request() {
            connection.send("HTTP/1.1 101 Switching\r\nUpgrade: chat\r\nConnection: upgrade, x-request-id\r\n\r\n");
        }
    });
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, "", server.at), ""));
    let response = get_with(gateway.at, "Upgrade: chat\r\nConnection: upgrade, x-request-id\r\n");
    assert_eq!((response.status, is_generated(id(&response))), (101, true), "{response:?}");
    wait_until("it is logged", || log.text().contains(id(&response)));
}

#[test]
fn ids_work_over_http2() {
    let (log, upstream) = (LogFile::new(), Upstream::returning("hello"));
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, "", upstream.at), ""));
    let url = format!("http://{}/", gateway.at);
    let mut curl = std::process::Command::new("curl");
    curl.args(["-sS", "-D", "-", "-o", "/dev/null", "--http2-prior-knowledge", "-H", "Host: shop"]);
    let returned = curl.args(["-H", "X-Request-Id: mine", &url]).output().unwrap();
    let head = String::from_utf8(returned.stdout).unwrap();
    let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap_or_else(|| panic!("{head}"));
    assert!(head.starts_with("HTTP/2 200") && is_generated(id), "{head}");
    assert_eq!(ids_sent_upstream(&upstream), [id]);
    assert_eq!(logged_ids(&log, 1), [id]);
}

/// Without a log no ID is generated, and received IDs are forwarded unchanged.
#[test]
fn without_a_log_ids_are_passed_through() {
    let upstream = Upstream::returning("hello");
    let log = LogFile::new();
    let gateway =
        TestGateway::from_yaml(&gateway_yaml(&fields(&log, "", upstream.at).replace(&log.setting("json"), ""), ""));
    assert_eq!(get_with(gateway.at, "X-Request-Id: mine\r\n").header("x-request-id"), None);
    assert_eq!(ids_sent_upstream(&upstream), ["mine"]);
}

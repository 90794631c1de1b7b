//! Ids by which a request is found again: here, at the server and at the client.

use std::net::SocketAddr;

use http::Response;

use super::file::LogFile;
use super::support::file::gateway;
use super::support::raw::{Answer, Client};
use super::support::scripted::Scripted;
use super::support::upstream::Upstream;
use super::support::{Served, until};

fn fields(log: &LogFile, trusted: &str, upstream: SocketAddr) -> String {
    format!(
        "{}\ntrusted_proxies: [{trusted}]\nupstreams: {{ shop: \"http://{upstream}\" }}\n\
         routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]",
        log.setting("json")
    )
}

fn ask(at: SocketAddr, lines: &str) -> Answer {
    let mut client = Client::connect(at);
    client.send(format!("GET / HTTP/1.1\r\nHost: shop\r\n{lines}\r\n"));
    client.answer().unwrap()
}

fn id(answer: &Answer) -> &str {
    let all: Vec<_> = answer.headers.iter().filter(|(name, _)| name == "x-request-id").collect();
    assert_eq!(all.len(), 1, "{answer:?}");
    &all[0].1
}

/// The ids that the server was sent, all of each request.
fn sent(upstream: &Upstream) -> Vec<String> {
    let ids = |request: &http::Request<bytes::Bytes>| {
        let all: Vec<_> = request.headers().get_all("x-request-id").iter().map(|id| id.to_str().unwrap()).collect();
        all.join("|")
    };
    upstream.seen.lock().iter().map(ids).collect()
}

fn noted(log: &LogFile, count: usize) -> Vec<String> {
    log.objects(count).iter().map(|line| line["request_id"].as_str().unwrap().to_owned()).collect()
}

fn is_made(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[test]
fn server_client_and_log_are_told_the_same() {
    let (log, upstream) = (LogFile::new(), Upstream::saying("hello"));
    let served = Served::of(&gateway(&fields(&log, "", upstream.at), ""));
    let told: Vec<String> = (0..5).map(|_| id(&ask(served.at, "")).to_owned()).collect();
    assert!(told.iter().all(|id| is_made(id)), "{told:?}");
    assert_eq!(told.iter().collect::<std::collections::HashSet<_>>().len(), 5, "{told:?}");
    assert_eq!(sent(&upstream), told);
    assert_eq!(noted(&log, 5), told);
}

/// What the gateway itself answers has an id as well: it is what people quote when they ask why.
#[test]
fn a_refusal_has_an_id_too() {
    let (log, upstream) = (LogFile::new(), Upstream::saying("hello"));
    let rules = "rules: [{ name: one, limits: [1/1h] }]";
    let served = Served::of(&gateway(&fields(&log, "", upstream.at), rules));
    let mut client = Client::connect(served.at);
    let answers = [(); 3].map(|()| {
        client.send("GET / HTTP/1.1\r\nHost: shop\r\nX-Request-Id: mine\r\n\r\n");
        client.answer().unwrap()
    });
    assert_eq!([answers[0].status, answers[1].status, answers[2].status], [200, 429, 429]);
    client.send("TRACE / HTTP/1.1\r\nHost: shop\r\n\r\n");
    let bad = client.answer().unwrap();
    assert_eq!(bad.status, 501);
    let told: Vec<String> = answers.iter().chain([&bad]).map(|answer| id(answer).to_owned()).collect();
    assert!(told.iter().all(|id| is_made(id)), "{told:?}");
    assert_eq!(noted(&log, 4), told);
}

#[test]
fn only_a_trusted_proxy_says_what_a_request_is_called() {
    for (trusted, taken) in [("127.0.0.0/8", true), ("10.0.0.0/8", false), ("", false)] {
        let (log, upstream) = (LogFile::new(), Upstream::saying("hello"));
        let served = Served::of(&gateway(&fields(&log, trusted, upstream.at), ""));
        let told = id(&ask(served.at, "X-Request-Id: edge-1.a/b+c=:~_\r\n")).to_owned();
        assert_eq!(told == "edge-1.a/b+c=:~_", taken, "{trusted}: {told}");
        assert!(taken || is_made(&told), "{told}");
        assert_eq!(sent(&upstream), [told.as_str()]);
        assert_eq!(noted(&log, 1), [told]);
    }
}

#[test]
fn what_cannot_be_an_id_is_replaced_whoever_sends_it() {
    let (log, upstream) = (LogFile::new(), Upstream::saying("hello"));
    let served = Served::of(&gateway(&fields(&log, "127.0.0.0/8", upstream.at), ""));
    let long = "a".repeat(129);
    let bad = ["", "a b", "a\"b", "a,b", "\u{e9}", "<script>", &long];
    let told: Vec<String> =
        bad.iter().map(|given| id(&ask(served.at, &format!("X-Request-Id: {given}\r\n"))).to_owned()).collect();
    assert!(told.iter().all(|id| is_made(id)), "{told:?}");
    assert_eq!(sent(&upstream), told);
    assert_eq!(noted(&log, bad.len()), told);
    assert_eq!(id(&ask(served.at, &format!("X-Request-Id: {}\r\n", &long[1..]))), &long[1..]);
    // Of two, the first.
    assert_eq!(id(&ask(served.at, "X-Request-Id: one\r\nX-Request-Id: two\r\n")), "one");
    assert_eq!(sent(&upstream).last().unwrap(), "one");
}

/// `Connection` names headers that go no further; the gateway's own are not the other side's to name.
#[test]
fn nobody_takes_the_id_off_by_naming_it() {
    let log = LogFile::new();
    let upstream = Upstream::new(|_| async {
        let answer = Response::builder().header("connection", "x-request-id").header("x-request-id", "the-server's");
        answer.body(bytes::Bytes::from_static(b"hello")).unwrap()
    });
    let served = Served::of(&gateway(&fields(&log, "", upstream.at), ""));
    let lines = ["", "Connection: X-Request-Id\r\n", "X-Request-Id: a\r\nConnection: close, x-request-id\r\n"];
    let told: Vec<String> = lines.iter().map(|lines| id(&ask(served.at, lines)).to_owned()).collect();
    assert!(told.iter().all(|id| is_made(id)), "{told:?}");
    assert_eq!(sent(&upstream), told);
    assert_eq!(noted(&log, lines.len()), told);
}

#[test]
fn nor_from_a_request_for_another_protocol() {
    let log = LogFile::new();
    let server = Scripted::new(|caller| {
        if caller.request() {
            caller.send("HTTP/1.1 101 Switching\r\nUpgrade: chat\r\nConnection: upgrade, x-request-id\r\n\r\n");
        }
    });
    let served = Served::of(&gateway(&fields(&log, "", server.at), ""));
    let answer = ask(served.at, "Upgrade: chat\r\nConnection: upgrade, x-request-id\r\n");
    assert_eq!((answer.status, is_made(id(&answer))), (101, true), "{answer:?}");
    until("it is noted", || log.text().contains(id(&answer)));
}

#[test]
fn over_http2_it_is_the_same() {
    let (log, upstream) = (LogFile::new(), Upstream::saying("hello"));
    let served = Served::of(&gateway(&fields(&log, "", upstream.at), ""));
    let url = format!("http://{}/", served.at);
    let mut curl = std::process::Command::new("curl");
    curl.args(["-sS", "-D", "-", "-o", "/dev/null", "--http2-prior-knowledge", "-H", "Host: shop"]);
    let told = curl.args(["-H", "X-Request-Id: mine", &url]).output().unwrap();
    let head = String::from_utf8(told.stdout).unwrap();
    let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap_or_else(|| panic!("{head}"));
    assert!(head.starts_with("HTTP/2 200") && is_made(id), "{head}");
    assert_eq!(sent(&upstream), [id]);
    assert_eq!(noted(&log, 1), [id]);
}

/// Without a log nothing is made up, and what others say passes as it is.
#[test]
fn without_a_log_ids_pass() {
    let upstream = Upstream::saying("hello");
    let log = LogFile::new();
    let served = Served::of(&gateway(&fields(&log, "", upstream.at).replace(&log.setting("json"), ""), ""));
    assert_eq!(ask(served.at, "X-Request-Id: mine\r\n").header("x-request-id"), None);
    assert_eq!(sent(&upstream), ["mine"]);
}

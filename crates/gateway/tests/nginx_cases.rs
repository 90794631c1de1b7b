//! The real nginx and the gateway side by side: the same limits, the same arrivals, the same answers at the
//! same time.
//!
//! The gateway's rules are made of nginx's own configuration. Time is real here, and machines are busy: where
//! the two differ, the whole comparison is made again, up to three times, before it counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use support::nginx::Nginx;
use support::raw::Client;
use support::scripted::{Latch, Scripted};
use support::upstream::Upstream;
use support::{Served, until};

/// How far apart answers may be.
const NEAR: Duration = Duration::from_millis(15);

/// When requests come: six at once, and some later.
const ARRIVALS: [u64; 9] = [0, 0, 0, 0, 0, 0, 300, 800, 2_400];

/// The gateway as nginx's configuration has it, on another port.
fn ours(nginx: &Nginx) -> Served {
    let imported = sluicegate_config::nginx::convert("nginx.conf", &nginx.text).unwrap();
    assert_eq!(imported.not_carried(), 0, "{:?}", imported.remarks);
    Served::of(&imported.yaml.replace(&format!("\"{}\"", nginx.at), "\"127.0.0.1:0\""))
}

/// Sends requests at these moments, each on a connection of its own, and tells how each fared: its status, and
/// how long it took.
fn fare(at: SocketAddr, begin: Instant) -> Vec<(u16, Duration)> {
    let clients: Vec<Client> = ARRIVALS.iter().map(|_| Client::connect(at)).collect();
    let mut reading = Vec::new();
    for (mut client, arrival) in clients.into_iter().zip(ARRIVALS) {
        let moment = begin + Duration::from_millis(arrival);
        std::thread::sleep(moment.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        reading.push(std::thread::spawn(move || (client.answer().unwrap().status, sent.elapsed())));
    }
    let mut fared: Vec<_> = reading.into_iter().map(|it| it.join().unwrap()).collect();
    // Which of those that come at once is first is up to the threads.
    fared[..6].sort();
    fared
}

/// Why the two differ, if they do.
fn difference(ours: &[(u16, Duration)], theirs: &[(u16, Duration)]) -> Option<String> {
    let is_same =
        |(our, their): (&(u16, Duration), &(u16, Duration))| our.0 == their.0 && our.1.abs_diff(their.1) < NEAR;
    let same = ours.iter().zip(theirs).all(is_same);
    (!same).then(|| format!("ours:\n{ours:?}\nnginx:\n{theirs:?}"))
}

/// Compares both under these parameters of `limit_req`, and tells how ours fared.
fn compare(parameters: &str) -> Vec<(u16, Duration)> {
    let mut told = String::new();
    for _ in 0..3 {
        let upstream = Upstream::saying("hello");
        let nginx = Nginx::with(&format!(
            "limit_req_zone $binary_remote_addr zone=one:1m rate=2r/s;\n\
             server {{ listen LISTEN; location / {{ limit_req zone=one {parameters}; proxy_pass http://{}; }} }}",
            upstream.at
        ));
        let gateway = ours(&nginx);
        let begin = Instant::now() + Duration::from_millis(100);
        let (there, here) = (nginx.at, gateway.at);
        let theirs = std::thread::spawn(move || fare(there, begin));
        let ours = fare(here, begin);
        match difference(&ours, &theirs.join().unwrap()) {
            None => return ours,
            Some(how) => {
                eprintln!("once more: {how}");
                told = how;
            }
        }
    }
    panic!("three times they differed with `{parameters}`: {told}");
}

fn statuses(fared: &[(u16, Duration)]) -> Vec<u16> {
    fared.iter().map(|(status, _)| *status).collect()
}

#[test]
fn a_strict_rate_as_in_nginx() {
    let fared = compare("");
    let (at_once, later) = fared.split_at(6);
    assert_eq!(at_once.iter().filter(|(status, _)| *status == 200).count(), 1);
    assert_eq!(statuses(later), [503, 200, 200]);
}

#[test]
fn a_queued_burst_as_in_nginx() {
    let fared = compare("burst=4");
    let (at_once, later) = fared.split_at(6);
    assert_eq!(at_once.iter().filter(|(status, _)| *status == 200).count(), 5);
    assert_eq!(statuses(later), [503, 200, 200]);
    // Half a second apart.
    let mut waits: Vec<Duration> = at_once.iter().filter(|(status, _)| *status == 200).map(|it| it.1).collect();
    waits.sort();
    for (number, wait) in (0_u32..).zip(waits) {
        assert!(wait.abs_diff(number * Duration::from_millis(500)) < 20 * NEAR, "{number}: {wait:?}");
    }
}

#[test]
fn a_burst_at_once_as_in_nginx() {
    let fared = compare("burst=4 nodelay");
    let (at_once, later) = fared.split_at(6);
    assert_eq!(at_once.iter().filter(|(status, _)| *status == 200).count(), 5);
    assert_eq!(statuses(later), [503, 200, 200]);
}

#[test]
fn a_burst_half_at_once_as_in_nginx() {
    let fared = compare("burst=4 delay=2");
    let (at_once, later) = fared.split_at(6);
    assert_eq!(at_once.iter().filter(|(status, _)| *status == 200).count(), 5);
    assert_eq!(statuses(later), [503, 200, 200]);
}

#[test]
fn connections_under_way_as_in_nginx() {
    let latch = Latch::default();
    let upstream = {
        let latch = latch.clone();
        Scripted::new(move |caller| {
            while caller.request() {
                latch.wait();
                caller.answer("hello");
            }
        })
    };
    let nginx = Nginx::with(&format!(
        "limit_conn_zone $binary_remote_addr zone=c:1m;\n\
         server {{ listen LISTEN; location / {{ limit_conn c 2; proxy_pass http://{}; }} }}",
        upstream.at
    ));
    let gateway = ours(&nginx);
    let mut begun: Vec<Vec<Client>> = Vec::new();
    for (nth, at) in [nginx.at, gateway.at].into_iter().enumerate() {
        let mut two: Vec<Client> = (0..2).map(|_| Client::connect(at)).collect();
        two.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n"));
        until("two are under way", || upstream.requests().len() == 2 * (nth + 1));
        for _ in 0..3 {
            assert_eq!(Client::connect(at).get("/").status, 503);
        }
        begun.push(two);
    }
    latch.open();
    for client in begun.iter_mut().flatten() {
        assert_eq!(client.answer().unwrap().status, 200);
    }
    for at in [nginx.at, gateway.at] {
        // nginx gives a place back a moment after the answer.
        until("there is room again", || Client::connect(at).get("/").status == 200);
    }
}

#[test]
fn a_clients_bytes_are_bounded_on_however_many_connections() {
    const RATE: usize = 100 << 10;
    let upstream = Upstream::new(|_| async { http::Response::new(bytes::Bytes::from(vec![b'x'; 100_000])) });
    let nginx = Nginx::with(&format!(
        "server {{ listen LISTEN; location / {{ limit_rate 100k; proxy_pass http://{}; }} }}",
        upstream.at
    ));
    let gateway = ours(&nginx);
    let at = gateway.at;
    let begun = Instant::now();
    let reading: Vec<_> = (0..2).map(|_| std::thread::spawn(move || Client::connect(at).get("/").body.len())).collect();
    let read: usize = reading.into_iter().map(|it| it.join().unwrap()).sum();
    let took = begun.elapsed();
    assert_eq!(read, 200_000);
    // A second's worth at once, the rest at the pace. nginx would need half of it, as it counts each apart.
    let least = Duration::from_secs_f64((read - RATE) as f64 / RATE as f64);
    assert!(took >= least, "{took:?} < {least:?}");
}

/// Everything that an import carries over, asked for in turn: no answer depends on time here.
#[test]
fn an_imported_file_answers_as_nginx_does() {
    let servers = ["one", "two"].map(Upstream::saying);
    let nginx = Nginx::with(&format!(
        "geo $limited {{ default 1; 127.0.0.2/32 0; }}
         map $limited $address {{ 0 ''; 1 $binary_remote_addr; }}
         map $http_x_plan $plan {{ default $binary_remote_addr; paid ''; }}
         limit_req_zone $address zone=by_geo:1m rate=1r/m;
         limit_req_zone $plan zone=by_plan:1m rate=1r/m;
         limit_req_zone $binary_remote_addr zone=plain:1m rate=1r/m;
         limit_req_zone $http_x_key zone=by_key:1m rate=1r/m;
         upstream shop {{ server {}; server {}; }}
         server {{
           listen LISTEN;
           server_name shop.example;
           location /geo/ {{ limit_req zone=by_geo; limit_req_status 429; proxy_pass http://shop; }}
           location /plan/ {{ limit_req zone=by_plan nodelay burst=1; proxy_pass http://shop; }}
           location /key/ {{ limit_req zone=by_key; limit_req_status 420; proxy_pass http://shop; }}
           location /trial/ {{ limit_req zone=plain; limit_req_dry_run on; proxy_pass http://shop; }}
           location = /exact {{ return 204; }}
           location /gone {{ return 410; }}
           location /told {{ return 200 'as you were told'; }}
           location /moved {{ return 301 https://elsewhere.example/x; }}
           location /found {{ return 302 /told; }}
         }}
         server {{ listen LISTEN; server_name bank.example; location / {{ return 403; }} }}",
        servers[0].at, servers[1].at
    ));
    let gateway = ours(&nginx);
    let ask = |at: SocketAddr, last: u8, path: &str, host: &str, line: &str| {
        let mut client = Client::connect_from([127, 0, 0, last], at);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{line}\r\n"));
        let answer = client.answer().unwrap();
        let text = if answer.status == 200 { answer.text() } else { String::new() };
        (answer.status, answer.header("location").map(str::to_owned), text)
    };
    let mut seen = Vec::new();
    for (last, path, host, line) in [
        (1, "/geo/a", "shop.example", ""),
        (1, "/geo/b", "shop.example", ""),
        (2, "/geo/a", "shop.example", ""),
        (2, "/geo/b", "shop.example", ""),
        (3, "/geo/a", "shop.example", ""),
        (3, "/geo/a", "shop.example", ""),
        (1, "/plan/a", "shop.example", ""),
        (1, "/plan/a", "shop.example", "X-Plan: free\r\n"),
        (1, "/plan/a", "shop.example", ""),
        (1, "/plan/a", "shop.example", "X-Plan: paid\r\n"),
        (1, "/plan/a", "shop.example", "X-Plan: paid\r\n"),
        (1, "/key/a", "shop.example", "X-Key: a\r\n"),
        (2, "/key/a", "shop.example", "X-Key: a\r\n"),
        (1, "/key/a", "shop.example", "X-Key: b\r\n"),
        (1, "/key/a", "shop.example", ""),
        (1, "/key/a", "shop.example", ""),
        (1, "/trial/a", "shop.example", ""),
        (1, "/trial/a", "shop.example", ""),
        (1, "/exact", "shop.example", ""),
        (1, "/gone", "shop.example", ""),
        (1, "/told", "shop.example", ""),
        (1, "/moved", "shop.example", ""),
        (1, "/found", "shop.example", ""),
        (1, "/geo/a", "bank.example", ""),
        (1, "/told", "BANK.example", ""),
    ] {
        let theirs = ask(nginx.at, last, path, host, line);
        let mut ours = ask(gateway.at, last, path, host, line);
        // Whose turn it is depends on who was asked before.
        let is_server = |text: &str| text == "one" || text == "two";
        if is_server(&theirs.2) && is_server(&ours.2) {
            ours.2.clone_from(&theirs.2);
        }
        assert_eq!((ours.0, &ours.2), (theirs.0, &theirs.2), "{last} {path} {host} {line}");
        // nginx writes out in full where a path leads.
        let leads = theirs.1.map(|to| to.replace(&format!("http://shop.example:{}", nginx.at.port()), ""));
        assert_eq!(ours.1, leads, "{path}");
        seen.push(ours.0);
    }
    let expected = [
        200, 429, 200, 200, 200, 429, 200, 200, 503, 200, 200, 200, 420, 200, 200, 200, 200, 200, 204, 410, 200, 301,
        302, 403, 403,
    ];
    assert_eq!(seen, expected);
}

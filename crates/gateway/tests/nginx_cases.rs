//! Comparison with the real nginx: the same limits and arrivals give the same responses at the same time.
//!
//! The gateway's rules are imported from the nginx configuration. The tests use real time on machines under
//! load: if the two differ, the whole comparison is repeated up to three times before it fails.

use crate::support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use support::nginx::Nginx;
use support::raw::Client;
use support::scripted::{Latch, ScriptedServer};
use support::upstream::Upstream;
use support::{TestGateway, wait_until};

/// Tolerated difference between response times.
const TOLERANCE: Duration = Duration::from_millis(15);

/// Arrival times in milliseconds: six at once, and some later.
const ARRIVALS: [u64; 9] = [0, 0, 0, 0, 0, 0, 300, 800, 2_400];

/// The gateway with the imported nginx configuration, on another port.
fn ours(nginx: &Nginx) -> TestGateway {
    let imported = sluicegate_import::nginx::convert("nginx.conf", &nginx.text).unwrap();
    assert_eq!(imported.unsupported_count(), 0, "{:?}", imported.notes);
    TestGateway::from_yaml(&imported.yaml.replace(&format!("\"{}\"", nginx.at), "\"127.0.0.1:0\""))
}

/// Sends requests at these times, each on its own connection; returns the status and duration of each.
fn send_arrivals(at: SocketAddr, begin: Instant) -> Vec<(u16, Duration)> {
    let clients: Vec<Client> = ARRIVALS.iter().map(|_| Client::connect(at)).collect();
    let mut reading = Vec::new();
    for (mut client, arrival) in clients.into_iter().zip(ARRIVALS) {
        let moment = begin + Duration::from_millis(arrival);
        std::thread::sleep(moment.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        reading.push(std::thread::spawn(move || (client.read_response().unwrap().status, sent.elapsed())));
    }
    let mut fared: Vec<_> = reading.into_iter().map(|it| it.join().unwrap()).collect();
    // The order of simultaneous requests depends on the threads.
    fared[..6].sort();
    fared
}

/// Describes the difference, if any.
fn difference(ours: &[(u16, Duration)], theirs: &[(u16, Duration)]) -> Option<String> {
    let is_same =
        |(our, their): (&(u16, Duration), &(u16, Duration))| our.0 == their.0 && our.1.abs_diff(their.1) < TOLERANCE;
    let same = ours.iter().zip(theirs).all(is_same);
    (!same).then(|| format!("ours:\n{ours:?}\nnginx:\n{theirs:?}"))
}

/// Compares both with these parameters of `limit_req`; returns the results of the gateway.
fn compare(parameters: &str) -> Vec<(u16, Duration)> {
    let mut last_difference = String::new();
    for _ in 0..3 {
        let upstream = Upstream::returning("hello");
        let nginx = Nginx::with(&format!(
            "limit_req_zone $binary_remote_addr zone=one:1m rate=2r/s;\n\
             server {{ listen LISTEN; location / {{ limit_req zone=one {parameters}; proxy_pass http://{}; }} }}",
            upstream.at
        ));
        let gateway = ours(&nginx);
        let begin = Instant::now() + Duration::from_millis(100);
        let (there, here) = (nginx.at, gateway.at);
        let theirs = std::thread::spawn(move || send_arrivals(there, begin));
        let ours = send_arrivals(here, begin);
        match difference(&ours, &theirs.join().unwrap()) {
            None => return ours,
            Some(how) => {
                eprintln!("once more: {how}");
                last_difference = how;
            }
        }
    }
    panic!("they differed three times with `{parameters}`: {last_difference}");
}

fn statuses(results: &[(u16, Duration)]) -> Vec<u16> {
    results.iter().map(|(status, _)| *status).collect()
}

#[test]
fn strict_rate_matches_nginx() {
    let fared = compare("");
    let (at_once, later) = fared.split_at(6);
    assert_eq!(at_once.iter().filter(|(status, _)| *status == 200).count(), 1);
    assert_eq!(statuses(later), [503, 200, 200]);
}

#[test]
fn queued_burst_matches_nginx() {
    let fared = compare("burst=4");
    let (at_once, later) = fared.split_at(6);
    assert_eq!(at_once.iter().filter(|(status, _)| *status == 200).count(), 5);
    assert_eq!(statuses(later), [503, 200, 200]);
    // Half a second apart.
    let mut waits: Vec<Duration> = at_once.iter().filter(|(status, _)| *status == 200).map(|it| it.1).collect();
    waits.sort();
    for (number, wait) in (0_u32..).zip(waits) {
        assert!(wait.abs_diff(number * Duration::from_millis(500)) < 20 * TOLERANCE, "{number}: {wait:?}");
    }
}

#[test]
fn nodelay_burst_matches_nginx() {
    let fared = compare("burst=4 nodelay");
    let (at_once, later) = fared.split_at(6);
    assert_eq!(at_once.iter().filter(|(status, _)| *status == 200).count(), 5);
    assert_eq!(statuses(later), [503, 200, 200]);
}

#[test]
fn partial_delay_burst_matches_nginx() {
    let fared = compare("burst=4 delay=2");
    let (at_once, later) = fared.split_at(6);
    assert_eq!(at_once.iter().filter(|(status, _)| *status == 200).count(), 5);
    assert_eq!(statuses(later), [503, 200, 200]);
}

#[test]
fn limit_conn_matches_nginx() {
    let latch = Latch::default();
    let upstream = {
        let latch = latch.clone();
        ScriptedServer::new(move |connection| {
            while connection.request() {
                latch.wait();
                connection.respond("hello");
            }
        })
    };
    let nginx = Nginx::with(&format!(
        "limit_conn_zone $binary_remote_addr zone=c:1m;\n\
         server {{ listen LISTEN; location / {{ limit_conn c 2; proxy_pass http://{}; }} }}",
        upstream.at
    ));
    let gateway = ours(&nginx);
    let mut start: Vec<Vec<Client>> = Vec::new();
    for (index, at) in [nginx.at, gateway.at].into_iter().enumerate() {
        let mut two: Vec<Client> = (0..2).map(|_| Client::connect(at)).collect();
        two.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n"));
        wait_until("two are in flight", || upstream.requests().len() == 2 * (index + 1));
        for _ in 0..3 {
            assert_eq!(Client::connect(at).get("/").status, 503);
        }
        start.push(two);
    }
    latch.open();
    for client in start.iter_mut().flatten() {
        assert_eq!(client.read_response().unwrap().status, 200);
    }
    for at in [nginx.at, gateway.at] {
        // nginx releases the connection slot a moment after the response.
        wait_until("there is room again", || Client::connect(at).get("/").status == 200);
    }
}

#[test]
fn bandwidth_of_a_client_is_bounded_over_all_connections() {
    const RATE: usize = 100 << 10;
    let upstream = Upstream::new(|_| async { http::Response::new(bytes::Bytes::from(vec![b'x'; 100_000])) });
    let nginx = Nginx::with(&format!(
        "server {{ listen LISTEN; location / {{ limit_rate 100k; proxy_pass http://{}; }} }}",
        upstream.at
    ));
    let gateway = ours(&nginx);
    let at = gateway.at;
    let start = Instant::now();
    let reading: Vec<_> = (0..2).map(|_| std::thread::spawn(move || Client::connect(at).get("/").body.len())).collect();
    let read: usize = reading.into_iter().map(|it| it.join().unwrap()).sum();
    let elapsed = start.elapsed();
    assert_eq!(read, 200_000);
    // One second's worth at once, the remainder at the rate. nginx would need half the time, because it limits
    // each connection separately.
    let min = Duration::from_secs_f64((read - RATE) as f64 / RATE as f64);
    assert!(elapsed >= min, "{elapsed:?} < {min:?}");
}

/// Everything that an import carries over, requested in turn: no response depends on time here.
#[test]
fn an_imported_file_behaves_like_nginx() {
    let servers = ["one", "two"].map(Upstream::returning);
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
           location /text {{ return 200 'fixed text'; }}
           location /moved {{ return 301 https://elsewhere.example/x; }}
           location /found {{ return 302 /text; }}
         }}
         server {{ listen LISTEN; server_name bank.example; location / {{ return 403; }} }}",
        servers[0].at, servers[1].at
    ));
    let gateway = ours(&nginx);
    let send = |at: SocketAddr, last: u8, path: &str, host: &str, line: &str| {
        let mut client = Client::connect_from([127, 0, 0, last], at);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{line}\r\n"));
        let response = client.read_response().unwrap();
        let text = if response.status == 200 { response.text() } else { String::new() };
        (response.status, response.header("location").map(str::to_owned), text)
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
        (1, "/text", "shop.example", ""),
        (1, "/moved", "shop.example", ""),
        (1, "/found", "shop.example", ""),
        (1, "/geo/a", "bank.example", ""),
        (1, "/text", "BANK.example", ""),
    ] {
        let theirs = send(nginx.at, last, path, host, line);
        let mut ours = send(gateway.at, last, path, host, line);
        // Round robin depends on earlier requests.
        let is_server = |text: &str| text == "one" || text == "two";
        if is_server(&theirs.2) && is_server(&ours.2) {
            ours.2.clone_from(&theirs.2);
        }
        assert_eq!((ours.0, &ours.2), (theirs.0, &theirs.2), "{last} {path} {host} {line}");
        // nginx sends absolute redirect URLs.
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

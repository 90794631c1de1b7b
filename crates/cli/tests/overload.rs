//! The built program in front of a server with a known capacity, under real overload.
//!
//! The server processes one request at a time with a fixed service time, so its capacity is known; further
//! requests wait inside it, as in a thread-per-request server. Results are compared with the capacity in wide
//! bands: worker, gateway, load and one thread per request share the cores with everything else on the machine,
//! and any delay of the worker looks like a slower server. So this test checks that the parts work together,
//! refuse, and report the reason. `make bench-overload` measures the quality on an idle machine, and the tests of
//! `crates/adaptive` simulate it exactly in virtual time.

#![cfg(unix)]

use crate::pages::page;
use crate::program;
use crate::stall_monitor;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use page::{blocks, read};
use program::{Program, TEST_TIMEOUT, wait_until};
use stall_monitor::retry_on_stall;

/// Service time of a request.
const SERVICE_TIME: Duration = Duration::from_millis(5);
/// Capacity per second.
const CAPACITY: f64 = 200.0;

/// Serializes the tests: two busy servers would leave no CPU for anything else.
static SERIAL: Mutex<()> = Mutex::new(());

/// A server with one thread per connection, all sharing one worker.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let worker = Arc::new(Mutex::new(()));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let worker = Arc::clone(&worker);
            thread::spawn(move || serve(stream, &worker));
        }
    });
    address
}

fn serve(mut stream: TcpStream, worker: &Mutex<()>) {
    let mut received = Vec::new();
    let mut part = [0; 4096];
    loop {
        while let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            received.drain(..end + 4);
            {
                let _busy = worker.lock();
                let start = Instant::now();
                while start.elapsed() < SERVICE_TIME {
                    std::hint::spin_loop();
                }
            }
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
        match stream.read(&mut part) {
            Ok(count) if count > 0 => received.extend_from_slice(&part[..count]),
            _ => return,
        }
    }
}

fn gateway(upstream: SocketAddr, rules: &str) -> Program {
    Program::start(&format!(
        "server: {{ http: \"127.0.0.1:0\" }}\nadmin: {{ listen: \"127.0.0.1:0\" }}\ngateway:\n  listen: 127.0.0.1:0\n  \
         upstreams: {{ shop: [\"http://{upstream}\"] }}\n  routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]\n{rules}"
    ))
}

fn address_after(program: &Program, before: &str) -> SocketAddr {
    wait_until("the address is logged", || program.log().contains(before));
    let log = program.log();
    let rest = log.split(before).nth(1).unwrap();
    rest.split(|letter: char| letter == '/' || letter.is_whitespace()).next().unwrap().parse().unwrap()
}

/// Response with its send time, duration, status and body.
struct TimedResponse {
    sent: Duration,
    took: Duration,
    status: u16,
    text: String,
}

fn send_request(address: SocketAddr, class: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    write!(stream, "GET /work HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nX-Class: {class}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (text[9..12].parse().unwrap_or_else(|_| panic!("{text}")), text)
}

/// Sends requests on schedule (open loop); every `vip_of`th has the highest class.
fn load(address: SocketAddr, per_second: f64, seconds: f64, vip_of: usize) -> Vec<(bool, TimedResponse)> {
    let start = Instant::now();
    let sending = (0..(per_second * seconds) as usize).map(|index| {
        let sent = Duration::from_secs_f64(index as f64 / per_second);
        thread::sleep(sent.saturating_sub(start.elapsed()));
        let is_vip = index % vip_of == 0;
        thread::spawn(move || {
            let (status, text) = send_request(address, if is_vip { "vip" } else { "other" });
            (is_vip, TimedResponse { sent, took: start.elapsed() - sent, status, text })
        })
    });
    let sending: Vec<_> = sending.collect();
    sending.into_iter().map(|request| request.join().unwrap()).collect()
}

fn good_latencies_after(responses: &[(bool, TimedResponse)], from: Duration) -> Vec<Duration> {
    let good = responses.iter().filter(|(_, response)| response.sent >= from && response.status == 200);
    let mut times: Vec<Duration> = good.map(|(_, response)| response.took).collect();
    times.sort_unstable();
    times
}

#[test]
fn triple_overload_is_shed_and_the_remaining_requests_are_fast() {
    let _alone = SERIAL.lock();
    retry_on_stall(triple_overload);
}

fn triple_overload() {
    let program = gateway(
        server(),
        "rules:\n  - { name: protect, adaptive: auto }\n  - { name: staff, when: \"header['x-class'] == 'vip'\", \
         priority: vip, limits: [100000/s] }\n",
    );
    let address = address_after(&program, "listening at ");
    // The controller first measures the unloaded latency.
    let calm = load(address, CAPACITY / 2.0, 3.0, 10);
    let refused = calm.iter().filter(|(_, response)| response.status != 200).count();
    assert!(refused * 50 <= calm.len(), "{refused} of {} refused without need", calm.len());

    let responses = load(address, CAPACITY * 3.0, 6.0, 10);
    let settled = Duration::from_secs(3);
    let times = good_latencies_after(&responses, settled);
    let goodput = times.len() as f64 / 3.0;
    assert!(goodput >= CAPACITY * 0.6, "{goodput}/s of {CAPACITY}/s");
    let p95 = times[times.len() * 95 / 100];
    assert!(p95 < Duration::from_millis(500), "p95 is {p95:?}");
    // Without protection, the last requests would wait as long as the overload has lasted.
    let (_, refused) =
        responses.iter().find(|(_, response)| response.status == 503).expect("some requests are refused");
    assert!(refused.text.to_lowercase().contains("retry-after: "), "{}", refused.text);
    assert!(refused.text.contains("limited by overload protection 'protect' (concurrency limit "), "{}", refused.text);
    let vips: Vec<_> = responses.iter().filter(|(is_vip, response)| *is_vip && response.sent >= settled).collect();
    let served = vips.iter().filter(|(_, response)| response.status == 200).count();
    assert!(served * 100 >= vips.len() * 95, "{served} of {} of the highest class", vips.len());
    let (_, shown) = admin(&program, "/v1/adaptive");
    assert!(shown.contains("\"name\":\"protect\"") && shown.contains("\"cpu\":"), "{shown}");
    let (_, metrics) = admin(&program, "/metrics");
    for family in [
        "sluicegate_adaptive_concurrency_limit{rule=\"protect\"} ",
        "sluicegate_adaptive_state{",
        "sluicegate_host_load{",
    ] {
        assert!(metrics.contains(family), "{family}: {metrics}");
    }
}

fn admin(program: &Program, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address_after(program, "dashboard at http://")).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (text[9..12].parse().unwrap(), text)
}

/// The example of the rule file page, with numbers that this server reaches.
#[test]
fn combined_conditions_apply_the_ceiling_and_are_named() {
    let _alone = SERIAL.lock();
    retry_on_stall(combined_conditions);
}

fn combined_conditions() {
    let rules = "rules:\n  - name: overload\n    adaptive: { when: { avg_rt: \"> 50ms\", in_flight: \"> 20\" }, limit: \
                 100/s }\n";
    let program = gateway(server(), rules);
    let address = address_after(&program, "listening at ");
    let calm = load(address, 50.0, 2.0, 10);
    assert!(calm.iter().all(|(_, response)| response.status == 200));
    let responses = load(address, CAPACITY * 2.0, 6.0, 10);
    let (_, refused) = responses.iter().find(|(_, response)| response.status == 503).expect("the ceiling applies");
    assert!(refused.text.contains("limited by overload protection 'overload' (avg_rt "), "{}", refused.text);
    assert!(refused.text.contains("in_flight ") && refused.text.contains("> 20"), "{}", refused.text);
    assert_matches_documented_problem(refused);
    wait_until("the ceiling is removed", || admin(&program, "/v1/adaptive").1.contains("\"state\":\"closed\""));
    assert!(program.log().contains("overload state changed"), "{}", program.log());
}

/// The documented response, except for the readings.
fn assert_matches_documented_problem(refused: &TimedResponse) {
    let shown = blocks(&read("docs/adaptive.md")).into_iter().find(|block| block.kind == "json").unwrap().text;
    let actual = refused.text.split_once("\r\n\r\n").unwrap().1;
    let [shown, actual] = [&shown[..], actual].map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap());
    let fields = |document: &serde_json::Value| document.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&actual), fields(&shown));
    for field in ["type", "title", "status"] {
        assert_eq!(actual[field], shown[field], "{field}");
    }
    let around = |document: &serde_json::Value| {
        let detail = document["detail"].as_str().unwrap();
        let (before, rest) = detail.split_once('(').unwrap();
        let after = rest
            .rsplit_once(": at most ")
            .unwrap()
            .1
            .trim_end_matches(|it: char| it.is_ascii_digit() || " s".contains(it));
        (before.to_owned(), after.to_owned())
    };
    assert_eq!(around(&actual), around(&shown));
}

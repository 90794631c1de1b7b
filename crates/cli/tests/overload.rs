//! The built program before a server that can do so much and no more, under real overload.
//!
//! The server does one piece of work at a time, for a fixed time each, so that what it can do per second is known; all
//! others wait in it for as long as it takes, as they do in servers with a thread for each request. What is measured is
//! compared with that, in wide bands: the worker, the gateway, the load and a thread for every request share whatever cores
//! there are with all that runs besides, and every millisecond that the worker is not run looks like a weaker server. So this
//! holds that the parts work together, refuse and say why; how well they do is measured by `make bench-overload` on a
//! machine that is left alone, and played exactly in virtual time by the gates of `crates/adaptive`.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "pages/page.rs"]
mod page;
mod program;
mod witness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use page::{blocks, read};
use program::{GUARD, Program, until};
use witness::undisturbed;

/// How long the server works on a request.
const WORK: Duration = Duration::from_millis(5);
/// What it can do per second.
const CAPACITY: f64 = 200.0;

/// Two servers at work at once would leave nothing for anybody else.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A server with a thread for each connection, all of which share one worker.
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
    let mut asked = Vec::new();
    let mut part = [0; 4096];
    loop {
        while let Some(end) = asked.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            asked.drain(..end + 4);
            {
                let _at_work = worker.lock();
                let begun = Instant::now();
                while begun.elapsed() < WORK {
                    std::hint::spin_loop();
                }
            }
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
        match stream.read(&mut part) {
            Ok(count) if count > 0 => asked.extend_from_slice(&part[..count]),
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

fn told(program: &Program, before: &str) -> SocketAddr {
    until("it has told where it is", || program.log().contains(before));
    let log = program.log();
    let rest = log.split(before).nth(1).unwrap();
    rest.split(|letter: char| letter == '/' || letter.is_whitespace()).next().unwrap().parse().unwrap()
}

/// What came of a request: when it was to be sent, how long it took, the status, and what was said.
struct Answer {
    sent: Duration,
    took: Duration,
    status: u16,
    text: String,
}

fn ask(address: SocketAddr, class: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(GUARD)).unwrap();
    write!(stream, "GET /work HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nX-Class: {class}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (text[9..12].parse().unwrap_or_else(|_| panic!("{text}")), text)
}

/// Sends requests at their times, whether others were answered or not: every `vip_of`th is of the highest class.
fn load(address: SocketAddr, per_second: f64, seconds: f64, vip_of: usize) -> Vec<(bool, Answer)> {
    let begun = Instant::now();
    let sending = (0..(per_second * seconds) as usize).map(|nth| {
        let sent = Duration::from_secs_f64(nth as f64 / per_second);
        thread::sleep(sent.saturating_sub(begun.elapsed()));
        let is_vip = nth % vip_of == 0;
        thread::spawn(move || {
            let (status, text) = ask(address, if is_vip { "vip" } else { "other" });
            (is_vip, Answer { sent, took: begun.elapsed() - sent, status, text })
        })
    });
    let sending: Vec<_> = sending.collect();
    sending.into_iter().map(|request| request.join().unwrap()).collect()
}

fn well_after(answers: &[(bool, Answer)], from: Duration) -> Vec<Duration> {
    let well = answers.iter().filter(|(_, answer)| answer.sent >= from && answer.status == 200);
    let mut times: Vec<Duration> = well.map(|(_, answer)| answer.took).collect();
    times.sort_unstable();
    times
}

#[test]
fn three_times_what_it_can_do_is_held_back_and_the_rest_is_served_in_time() {
    let _alone = ONE_AT_A_TIME.lock();
    undisturbed(three_times_what_it_can_do);
}

fn three_times_what_it_can_do() {
    let program = gateway(
        server(),
        "rules:\n  - { name: protect, adaptive: auto }\n  - { name: staff, when: \"header['x-class'] == 'vip'\", \
         priority: vip, limits: [100000/s] }\n",
    );
    let address = told(&program, "listening at ");
    // At first it learns what is usual.
    let calm = load(address, CAPACITY / 2.0, 3.0, 10);
    let refused = calm.iter().filter(|(_, answer)| answer.status != 200).count();
    assert!(refused * 50 <= calm.len(), "{refused} of {} refused without need", calm.len());

    let answers = load(address, CAPACITY * 3.0, 6.0, 10);
    let settled = Duration::from_secs(3);
    let times = well_after(&answers, settled);
    let goodput = times.len() as f64 / 3.0;
    assert!(goodput >= CAPACITY * 0.6, "{goodput}/s of {CAPACITY}/s");
    let late = times[times.len() * 95 / 100];
    assert!(late < Duration::from_millis(500), "95 in 100 within {late:?} only");
    // Without protection, those who came last would wait for as long as the overload has lasted.
    let (_, refused) = answers.iter().find(|(_, answer)| answer.status == 503).expect("some must be held back");
    assert!(refused.text.to_lowercase().contains("retry-after: "), "{}", refused.text);
    assert!(refused.text.contains("'protect' holds requests back (places "), "{}", refused.text);
    let vips: Vec<_> = answers.iter().filter(|(is_vip, answer)| *is_vip && answer.sent >= settled).collect();
    let served = vips.iter().filter(|(_, answer)| answer.status == 200).count();
    assert!(served * 100 >= vips.len() * 95, "{served} of {} of the highest class", vips.len());
    let (_, shown) = admin(&program, "/v1/adaptive");
    assert!(shown.contains("\"name\":\"protect\"") && shown.contains("\"cpu\":"), "{shown}");
    let (_, metrics) = admin(&program, "/metrics");
    for family in
        ["sluicegate_adaptive_places{rule=\"protect\"} ", "sluicegate_adaptive_state{", "sluicegate_machine_load{"]
    {
        assert!(metrics.contains(family), "{family}: {metrics}");
    }
}

fn admin(program: &Program, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(told(program, "dashboard at http://")).unwrap();
    stream.set_read_timeout(Some(GUARD)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (text[9..12].parse().unwrap(), text)
}

/// The example of the rule file's page, on numbers that this server reaches.
#[test]
fn conditions_that_hold_together_bring_the_ceiling_and_are_named() {
    let _alone = ONE_AT_A_TIME.lock();
    undisturbed(conditions_that_hold_together);
}

fn conditions_that_hold_together() {
    let rules = "rules:\n  - name: overload\n    adaptive: { when: { avg_rt: \"> 50ms\", in_flight: \"> 20\" }, limit: \
                 100/s }\n";
    let program = gateway(server(), rules);
    let address = told(&program, "listening at ");
    let calm = load(address, 50.0, 2.0, 10);
    assert!(calm.iter().all(|(_, answer)| answer.status == 200));
    let answers = load(address, CAPACITY * 2.0, 6.0, 10);
    let (_, refused) = answers.iter().find(|(_, answer)| answer.status == 503).expect("the ceiling must come");
    assert!(refused.text.contains("'overload' holds requests back (avg_rt "), "{}", refused.text);
    assert!(refused.text.contains("in_flight ") && refused.text.contains("> 20"), "{}", refused.text);
    is_the_document_of_the_page(refused);
    until("it recovers by itself", || admin(&program, "/v1/adaptive").1.contains("\"state\":\"closed\""));
    assert!(program.log().contains("strain"), "{}", program.log());
}

/// What the page shows, but for the readings.
fn is_the_document_of_the_page(refused: &Answer) {
    let shown = blocks(&read("docs/adaptive.md")).into_iter().find(|block| block.kind == "json").unwrap().text;
    let told = refused.text.split_once("\r\n\r\n").unwrap().1;
    let [shown, told] = [&shown[..], told].map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap());
    let fields = |document: &serde_json::Value| document.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&told), fields(&shown));
    for field in ["type", "title", "status"] {
        assert_eq!(told[field], shown[field], "{field}");
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
    assert_eq!(around(&told), around(&shown));
}

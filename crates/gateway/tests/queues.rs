//! Standing in line: for a rule's turn, and for a place at the front door.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::clock::ManualClock;
use support::file::gateway;
use support::raw::Client;
use support::scripted::Scripted;
use support::upstream::Upstream;
use support::{GUARD, Served, before, until};

const NANOSECOND: Duration = Duration::from_nanos(1);

/// A server that answers one request for each word it is sent here.
fn one_by_one() -> (Scripted, Sender<()>) {
    let (go, may_go) = channel();
    let may_go = Mutex::new(may_go);
    let server = Scripted::new(move |caller| {
        while caller.request() && may_go.lock().recv_timeout(GUARD).is_ok() {
            caller.answer("done");
        }
    });
    (server, go)
}

/// One at a time, and a line before it.
fn one_at_a_time(server: &Scripted, queue: &str) -> (Served, ManualClock) {
    let clock = ManualClock::new();
    let then = "then: { status: 503, body: later }";
    let rules = format!(
        "rules: [{{ name: one, limits: [{{ concurrency: 1 }}], on_limit: {{ queue: {{ {queue} }}, {then} }} }}]"
    );
    (Served::with_clock(&before(&[server.at], &rules), clock.clone()), clock)
}

fn waiting(served: &Served) -> usize {
    served.running().sluice().counts()[0].waiting
}

/// Asks, and is in line or under way.
fn ask(served: &Served, path: &str) -> Client {
    let mut client = Client::connect(served.at);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n"));
    client
}

#[test]
fn who_waits_in_vain_is_told_at_the_deadline() {
    let (server, go) = one_by_one();
    let (served, clock) = one_at_a_time(&server, "max_wait: 2s");
    let mut first = ask(&served, "/1");
    until("the first is under way", || server.requests().len() == 1);
    let mut second = ask(&served, "/2");
    until("the second waits", || waiting(&served) == 1);
    clock.advance(Duration::from_secs(1));
    let mut third = ask(&served, "/3");
    until("the third waits", || waiting(&served) == 2);
    // The second's time is up before the third's.
    clock.advance(Duration::from_secs(1) - NANOSECOND);
    assert_eq!(waiting(&served), 2);
    clock.advance(NANOSECOND);
    let told = second.answer().unwrap();
    assert_eq!((told.status, told.text().as_str()), (503, "later"));
    assert_eq!(waiting(&served), 1);
    go.send(()).unwrap();
    assert_eq!(first.answer().unwrap().status, 200);
    until("the third is under way", || server.requests().len() == 2);
    go.send(()).unwrap();
    assert_eq!(third.answer().unwrap().status, 200);
    assert!(server.requests().iter().all(|line| !line.contains("/2")), "who was told so was not sent on");
}

#[test]
fn a_line_is_no_longer_than_it_may_be_and_who_came_first_is_first() {
    let (server, go) = one_by_one();
    let (served, _clock) = one_at_a_time(&server, "max_wait: 50s, max_waiting: 3");
    let mut clients = vec![ask(&served, "/0")];
    until("the first is under way", || server.requests().len() == 1);
    for number in 1..=3 {
        clients.push(ask(&served, &format!("/{number}")));
        until("one more waits", || waiting(&served) == number);
    }
    for _ in 0..3 {
        let told = ask(&served, "/more").answer().unwrap();
        assert_eq!((told.status, told.text().as_str()), (503, "later"));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        until("its turn has come", || server.requests().len() == number + 1);
        assert!(server.requests()[number].contains(&format!("/{number} ")), "{:?}", server.requests());
        go.send(()).unwrap();
        assert_eq!(client.answer().unwrap().status, 200);
    }
    until("nobody waits", || waiting(&served) == 0);
    go.send(()).unwrap();
    assert_eq!(ask(&served, "/again").answer().unwrap().status, 200);
}

/// A server that fails gives the place to the next in line, as one that answers does.
#[test]
fn a_failure_is_the_next_ones_turn() {
    let (server, _) = one_by_one();
    let (served, _clock) = one_at_a_time(&server, "max_wait: 50s");
    // Nobody sends a word any more: every request ends its connection.
    let mut clients: Vec<Client> = (0..4).map(|number| ask(&served, &format!("/{number}"))).collect();
    for client in &mut clients {
        assert_eq!(client.answer().unwrap().status, 502);
    }
    until("nobody waits", || waiting(&served) == 0);
}

#[test]
fn who_waits_at_the_front_door_in_vain_is_told_so() {
    let upstream = Upstream::saying("hello");
    let route = format!("upstreams: {{ shop: \"http://{}\" }}\nroutes: [{{ path: /, upstream: shop }}]", upstream.at);
    let clock = ManualClock::new();
    let fields = format!("connections: {{ max: 1, queue: 2 }}\ntimeouts: {{ idle: 60s }}\n{route}");
    let served = Served::with_clock(&gateway(&fields, ""), clock.clone());
    let mut first = Client::connect(served.at);
    assert_eq!(first.get("/").status, 200);
    let mut second = ask(&served, "/");
    let counts = || served.running().vitals().door().counts();
    until("it waits", || counts().queued == 1);
    clock.advance(Duration::from_secs(10) - NANOSECOND);
    assert_eq!(counts().queued, 1);
    clock.advance(NANOSECOND);
    assert_eq!(second.answer().unwrap().status, 503);
    assert!(second.is_closed());
    until("nobody waits", || counts().queued == 0);
    assert_eq!(first.get("/").status, 200, "who is in stays in");
    assert_eq!(upstream.requests(), 2);
}

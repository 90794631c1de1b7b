//! Queues: of a rule, and of the listener's connection limit.

use crate::support;

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::clock::ManualClock;
use support::file::gateway_yaml;
use support::raw::Client;
use support::scripted::ScriptedServer;
use support::upstream::Upstream;
use support::{TEST_TIMEOUT, TestGateway, proxy_yaml, wait_until};

const NANOSECOND: Duration = Duration::from_nanos(1);

/// A server that responds to one request for each message.
fn one_by_one() -> (ScriptedServer, Sender<()>) {
    let (go, may_go) = channel();
    let may_go = Mutex::new(may_go);
    let server = ScriptedServer::new(move |connection| {
        while connection.request() && may_go.lock().recv_timeout(TEST_TIMEOUT).is_ok() {
            connection.respond("done");
        }
    });
    (server, go)
}

/// A concurrency limit of one with a queue.
fn one_at_a_time(server: &ScriptedServer, queue: &str) -> (TestGateway, ManualClock) {
    let clock = ManualClock::new();
    let then = "then: { status: 503, body: later }";
    let rules = format!(
        "rules: [{{ name: one, limits: [{{ concurrency: 1 }}], on_limit: {{ queue: {{ {queue} }}, {then} }} }}]"
    );
    (TestGateway::with_clock(&proxy_yaml(&[server.at], &rules), clock.clone()), clock)
}

fn waiting(gateway: &TestGateway) -> usize {
    gateway.running().sluice().counts()[0].waiting
}

/// Sends a request, which is then queued or in flight.
fn send_get(gateway: &TestGateway, path: &str) -> Client {
    let mut client = Client::connect(gateway.at);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n"));
    client
}

#[test]
fn a_queue_timeout_is_refused_at_its_deadline() {
    let (server, go) = one_by_one();
    let (gateway, clock) = one_at_a_time(&server, "max_wait: 2s");
    let mut first = send_get(&gateway, "/1");
    wait_until("the first is in flight", || server.requests().len() == 1);
    let mut second = send_get(&gateway, "/2");
    wait_until("the second is queued", || waiting(&gateway) == 1);
    clock.advance(Duration::from_secs(1));
    let mut third = send_get(&gateway, "/3");
    wait_until("the third is queued", || waiting(&gateway) == 2);
    // The second request times out before the third.
    clock.advance(Duration::from_secs(1) - NANOSECOND);
    assert_eq!(waiting(&gateway), 2);
    clock.advance(NANOSECOND);
    let refused = second.read_response().unwrap();
    assert_eq!((refused.status, refused.text().as_str()), (503, "later"));
    assert_eq!(waiting(&gateway), 1);
    go.send(()).unwrap();
    assert_eq!(first.read_response().unwrap().status, 200);
    wait_until("the third is in flight", || server.requests().len() == 2);
    go.send(()).unwrap();
    assert_eq!(third.read_response().unwrap().status, 200);
    assert!(server.requests().iter().all(|line| !line.contains("/2")), "a refused request was not forwarded");
}

#[test]
fn the_queue_is_bounded_and_first_in_first_out() {
    let (server, go) = one_by_one();
    let (gateway, _clock) = one_at_a_time(&server, "max_wait: 50s, max_waiting: 3");
    let mut clients = vec![send_get(&gateway, "/0")];
    wait_until("the first is in flight", || server.requests().len() == 1);
    for number in 1..=3 {
        clients.push(send_get(&gateway, &format!("/{number}")));
        wait_until("one more is queued", || waiting(&gateway) == number);
    }
    for _ in 0..3 {
        let refused = send_get(&gateway, "/more").read_response().unwrap();
        assert_eq!((refused.status, refused.text().as_str()), (503, "later"));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        wait_until("the next request is admitted", || server.requests().len() == number + 1);
        assert!(server.requests()[number].contains(&format!("/{number} ")), "{:?}", server.requests());
        go.send(()).unwrap();
        assert_eq!(client.read_response().unwrap().status, 200);
    }
    wait_until("no request waits", || waiting(&gateway) == 0);
    go.send(()).unwrap();
    assert_eq!(send_get(&gateway, "/again").read_response().unwrap().status, 200);
}

/// A failed request admits the next queued one, like a successful one.
#[test]
fn a_failed_request_admits_the_next() {
    let (server, _) = one_by_one();
    let (gateway, _clock) = one_at_a_time(&server, "max_wait: 50s");
    // No more messages are sent: every request ends its connection.
    let mut clients: Vec<Client> = (0..4).map(|number| send_get(&gateway, &format!("/{number}"))).collect();
    for client in &mut clients {
        assert_eq!(client.read_response().unwrap().status, 502);
    }
    wait_until("no request waits", || waiting(&gateway) == 0);
}

#[test]
fn a_connection_queue_timeout_gets_a_refusal() {
    let upstream = Upstream::returning("hello");
    let route = format!("upstreams: {{ shop: \"http://{}\" }}\nroutes: [{{ path: /, upstream: shop }}]", upstream.at);
    let clock = ManualClock::new();
    let fields = format!("connections: {{ max: 1, queue: 2 }}\ntimeouts: {{ idle: 60s }}\n{route}");
    let gateway = TestGateway::with_clock(&gateway_yaml(&fields, ""), clock.clone());
    let mut first = Client::connect(gateway.at);
    assert_eq!(first.get("/").status, 200);
    let mut second = send_get(&gateway, "/");
    let counts = || gateway.running().stats().listener().counts();
    wait_until("the request waits", || counts().queued == 1);
    clock.advance(Duration::from_secs(10) - NANOSECOND);
    assert_eq!(counts().queued, 1);
    clock.advance(NANOSECOND);
    assert_eq!(second.read_response().unwrap().status, 503);
    assert!(second.is_closed());
    wait_until("no request waits", || counts().queued == 0);
    assert_eq!(first.get("/").status, 200, "an admitted connection stays open");
    assert_eq!(upstream.requests(), 2);
}

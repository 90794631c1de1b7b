//! Load balancing over several servers, as seen by the servers.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_gateway::Health;
use support::file::gateway_yaml;
use support::raw::Client;
use support::scripted::{Latch, ScriptedServer};
use support::{TestGateway, wait_until};

/// Rule file of a gateway in front of these servers, with further upstream settings.
fn file(servers: &[&ScriptedServer], more: &str) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"http://{}\"", server.at)).collect();
    let upstream = format!("upstreams: {{ shop: {{ servers: [{}], {more} }} }}", urls.join(", "));
    gateway_yaml(&format!("{upstream}\nroutes: [{{ path: \"/{{*rest}}\", upstream: shop }}]"), "")
}

fn immediate(text: &'static str) -> ScriptedServer {
    ScriptedServer::new(move |connection| connection.respond_all(text))
}

/// A server that responds once the latch is open.
fn latched(text: &'static str) -> (ScriptedServer, Latch) {
    let latch = Latch::default();
    let waits = latch.clone();
    let server = ScriptedServer::new(move |connection| {
        while connection.request() {
            waits.wait();
            connection.respond(text);
        }
    });
    (server, latch)
}

/// A server that the test can switch off: it then behaves as if it were unreachable.
fn switchable(text: &'static str) -> (ScriptedServer, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(true));
    let mood = Arc::clone(&is_well);
    let server = ScriptedServer::new(move |connection| {
        while connection.request() && mood.load(Ordering::SeqCst) {
            connection.respond(text);
        }
    });
    (server, is_well)
}

/// The bodies of this many responses, one after the other; they identify the servers.
fn bodies(client: &mut Client, count: usize) -> String {
    (0..count).map(|_| client.get("/").text()).collect()
}

/// Number of client requests a server received.
fn request_count(server: &ScriptedServer) -> usize {
    server.requests().iter().filter(|line| !line.contains("/health")).count()
}

#[test]
fn round_robin_rotates_over_servers() {
    let servers = ["a", "b", "c"].map(immediate);
    let gateway = TestGateway::from_yaml(&file(&servers.each_ref(), ""));
    let mut client = Client::connect(gateway.at);
    assert_eq!(bodies(&mut client, 9), "abcabcabc");
    // One rotation for all clients and threads.
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(gateway.at)).collect();
    let round: String = (0..18).map(|index| bodies(&mut clients[index % 6], 1)).collect();
    assert_eq!(round, "abc".repeat(6));
    assert_eq!(servers.each_ref().map(request_count), [9; 3]);
}

/// Round robin would leave half of them with the slow server.
#[test]
fn least_in_flight_avoids_the_slow_server() {
    let ((slow, latch), fast) = (latched("s"), immediate("f"));
    let gateway = TestGateway::from_yaml(&file(&[&slow, &fast], "balance: least_in_flight"));
    let mut stuck = Client::connect(gateway.at);
    stuck.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("the slow server has the request", || request_count(&slow) == 1);
    let mut client = Client::connect(gateway.at);
    assert_eq!(bodies(&mut client, 20), "f".repeat(20));
    assert_eq!((request_count(&slow), request_count(&fast)), (1, 20));
    latch.open();
    assert_eq!(stuck.read_response().unwrap().text(), "s");
    // Without a slow server the requests rotate.
    wait_until("nothing is in flight", || gateway.running().stats().upstreams()[0].servers[0].in_flight == 0);
    let even = bodies(&mut client, 20);
    assert_eq!((even.matches('s').count(), even.matches('f').count()), (10, 10), "{even}");
}

#[test]
fn least_in_flight_fills_servers_evenly() {
    let ((one, of_one), (two, of_two), (three, of_three)) = (latched("1"), latched("2"), latched("3"));
    let gateway = TestGateway::from_yaml(&file(&[&one, &two, &three], "balance: least_in_flight"));
    let mut clients: Vec<Client> = Vec::new();
    let mut fetch = |count: usize| {
        for _ in 0..count {
            let sent = request_count(&one) + request_count(&two) + request_count(&three);
            let mut client = Client::connect(gateway.at);
            client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
            wait_until("a server has the request", || {
                request_count(&one) + request_count(&two) + request_count(&three) == sent + 1
            });
            clients.push(client);
        }
    };
    fetch(9);
    assert_eq!([&one, &two, &three].map(request_count), [3; 3]);
    // One server finishes its requests: it gets the next one.
    of_two.open();
    wait_until("one server is idle", || gateway.running().stats().upstreams()[0].servers[1].in_flight == 0);
    fetch(1);
    assert_eq!([&one, &two, &three].map(request_count), [3, 4, 3]);
    [of_one, of_three].iter().for_each(Latch::open);
    let texts: String = clients.iter_mut().map(|client| client.read_response().unwrap().text()).collect();
    assert_eq!(["1", "2", "3"].map(|text| texts.matches(text).count()), [3, 4, 3], "{texts}");
}

#[test]
fn an_unhealthy_server_is_skipped_until_it_recovers() {
    for balance in ["round_robin", "least_in_flight"] {
        let is_well = Arc::new(AtomicBool::new(true));
        let sick = {
            let is_well = Arc::clone(&is_well);
            ScriptedServer::new(move |connection| {
                while connection.request() {
                    let status = if is_well.load(Ordering::SeqCst) { "200 OK" } else { "503 Sick" };
                    connection.send(format!("HTTP/1.1 {status}\r\nContent-Length: 1\r\n\r\na"));
                }
            })
        };
        let well = immediate("b");
        let clock = ManualClock::new();
        let health = "health: { path: /health, interval: 1s, failures: 2, successes: 3 }";
        let more = format!("balance: {balance}, {health}");
        let gateway = TestGateway::with_clock(&file(&[&sick, &well], &more), clock.clone());
        let is_out = || matches!(gateway.running().stats().upstreams()[0].servers[0].health, Health::Unhealthy { .. });
        let pass = |expected: bool| {
            wait_until("the health check detects it", || {
                clock.advance(Duration::from_millis(100));
                std::thread::sleep(Duration::from_millis(1));
                is_out() == expected
            });
        };
        // Health checks have connections of their own; a client connection would exceed its idle timeout meanwhile.
        let fetch = |count: usize| bodies(&mut Client::connect(gateway.at), count);
        assert_eq!(fetch(6), "ababab", "{balance}");
        is_well.store(false, Ordering::SeqCst);
        pass(true);
        let before = request_count(&sick);
        assert_eq!(fetch(6), "bbbbbb", "{balance}");
        assert_eq!(request_count(&sick), before);
        is_well.store(true, Ordering::SeqCst);
        pass(false);
        let back = fetch(6);
        assert_eq!((back.matches('a').count(), back.matches('b').count()), (3, 3), "{balance}: {back}");
    }
}

/// Outlier ejection needs no configuration: after three consecutive failures a server is ejected, longer each
/// time, and returns after one successful probe. Clients do not notice.
#[test]
fn a_failing_server_is_ejected_and_returns() {
    let (failing, is_well) = switchable("a");
    let well = immediate("b");
    let clock = ManualClock::new();
    let of_one_thread = file(&[&failing, &well], "").replace("threads: 2", "threads: 1");
    let gateway = TestGateway::with_clock(&of_one_thread, clock.clone());
    let fetch = |count: usize| bodies(&mut Client::connect(gateway.at), count);
    assert_eq!(fetch(4), "abab");
    is_well.store(false, Ordering::SeqCst);
    let before = request_count(&failing);
    assert_eq!(fetch(12), "b".repeat(12));
    // A reused connection that breaks is not a failure: that request was retried on a new one.
    assert_eq!(request_count(&failing) - before, 1 + 3);
    assert_eq!(fetch(12), "b".repeat(12));
    assert_eq!(request_count(&failing) - before, 1 + 3, "an ejected server gets no requests");
    for rest in [1, 2, 4] {
        let before = request_count(&failing);
        clock.advance(Duration::from_secs(rest) - Duration::from_nanos(1));
        assert_eq!(fetch(3), "bbb");
        assert_eq!(request_count(&failing), before, "{rest} s have not passed");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(fetch(3), "bbb");
        assert_eq!(request_count(&failing), before + 1, "one probe after {rest} s");
    }
    is_well.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(8));
    assert!(fetch(1) == "a", "the probe comes before other servers");
    let back = fetch(6);
    assert_eq!((back.matches('a').count(), back.matches('b').count()), (3, 3), "{back}");
}

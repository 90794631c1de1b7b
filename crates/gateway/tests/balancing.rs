//! Who of several servers gets a request, as the servers see it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_gateway::Health;
use support::file::gateway;
use support::raw::Client;
use support::scripted::{Latch, Scripted};
use support::{Served, until};

/// A gateway before these servers, of which it is said what else.
fn file(servers: &[&Scripted], more: &str) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"http://{}\"", server.at)).collect();
    let upstream = format!("upstreams: {{ shop: {{ servers: [{}], {more} }} }}", urls.join(", "));
    gateway(&format!("{upstream}\nroutes: [{{ path: \"/{{*rest}}\", upstream: shop }}]"), "")
}

fn at_once(text: &'static str) -> Scripted {
    Scripted::new(move |caller| caller.answer_all(text))
}

/// A server that answers only once the latch is open.
fn at_last(text: &'static str) -> (Scripted, Latch) {
    let latch = Latch::default();
    let waits = latch.clone();
    let server = Scripted::new(move |caller| {
        while caller.request() {
            waits.wait();
            caller.answer(text);
        }
    });
    (server, latch)
}

/// A server that is well or not, as the test says: if not, it is as if it were not there.
fn moody(text: &'static str) -> (Scripted, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(true));
    let mood = Arc::clone(&is_well);
    let server = Scripted::new(move |caller| {
        while caller.request() && mood.load(Ordering::SeqCst) {
            caller.answer(text);
        }
    });
    (server, is_well)
}

/// Who answers so many requests, one after the other.
fn answers(client: &mut Client, count: usize) -> String {
    (0..count).map(|_| client.get("/").text()).collect()
}

/// How many requests of clients a server has been sent.
fn sent(server: &Scripted) -> usize {
    server.requests().iter().filter(|line| !line.contains("/health")).count()
}

#[test]
fn round_robin_gives_each_its_turn() {
    let servers = ["a", "b", "c"].map(at_once);
    let served = Served::of(&file(&servers.each_ref(), ""));
    let mut client = Client::connect(served.at);
    assert_eq!(answers(&mut client, 9), "abcabcabc");
    // It is one round for all clients and threads.
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(served.at)).collect();
    let round: String = (0..18).map(|nth| answers(&mut clients[nth % 6], 1)).collect();
    assert_eq!(round, "abc".repeat(6));
    assert_eq!(servers.each_ref().map(sent), [9; 3]);
}

/// Round robin would leave half of them with the slow one.
#[test]
fn least_in_flight_leaves_the_slow_one_alone() {
    let ((slow, latch), fast) = (at_last("s"), at_once("f"));
    let served = Served::of(&file(&[&slow, &fast], "balance: least_in_flight"));
    let mut stuck = Client::connect(served.at);
    stuck.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("the slow one has it", || sent(&slow) == 1);
    let mut client = Client::connect(served.at);
    assert_eq!(answers(&mut client, 20), "f".repeat(20));
    assert_eq!((sent(&slow), sent(&fast)), (1, 20));
    latch.open();
    assert_eq!(stuck.answer().unwrap().text(), "s");
    // Where nobody is slow, each has its turn.
    until("nothing is in flight", || served.running().vitals().upstreams()[0].servers[0].in_flight == 0);
    let even = answers(&mut client, 20);
    assert_eq!((even.matches('s').count(), even.matches('f').count()), (10, 10), "{even}");
}

#[test]
fn least_in_flight_fills_servers_evenly() {
    let ((one, of_one), (two, of_two), (three, of_three)) = (at_last("1"), at_last("2"), at_last("3"));
    let served = Served::of(&file(&[&one, &two, &three], "balance: least_in_flight"));
    let mut clients: Vec<Client> = Vec::new();
    let mut ask = |count: usize| {
        for _ in 0..count {
            let under_way = sent(&one) + sent(&two) + sent(&three);
            let mut client = Client::connect(served.at);
            client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
            until("a server has it", || sent(&one) + sent(&two) + sent(&three) == under_way + 1);
            clients.push(client);
        }
    };
    ask(9);
    assert_eq!([&one, &two, &three].map(sent), [3; 3]);
    // One gets rid of its load: the next is its own.
    of_two.open();
    until("one has nothing to do", || served.running().vitals().upstreams()[0].servers[1].in_flight == 0);
    ask(1);
    assert_eq!([&one, &two, &three].map(sent), [3, 4, 3]);
    [of_one, of_three].iter().for_each(Latch::open);
    let texts: String = clients.iter_mut().map(|client| client.answer().unwrap().text()).collect();
    assert_eq!(["1", "2", "3"].map(|text| texts.matches(text).count()), [3, 4, 3], "{texts}");
}

#[test]
fn who_is_not_well_leaves_the_round_and_returns() {
    for balance in ["round_robin", "least_in_flight"] {
        let is_well = Arc::new(AtomicBool::new(true));
        let sick = {
            let is_well = Arc::clone(&is_well);
            Scripted::new(move |caller| {
                while caller.request() {
                    let status = if is_well.load(Ordering::SeqCst) { "200 OK" } else { "503 Sick" };
                    caller.send(format!("HTTP/1.1 {status}\r\nContent-Length: 1\r\n\r\na"));
                }
            })
        };
        let well = at_once("b");
        let clock = ManualClock::new();
        let health = "health: { path: /health, every: 1s, failures: 2, successes: 3 }";
        let more = format!("balance: {balance}, {health}");
        let served = Served::with_clock(&file(&[&sick, &well], &more), clock.clone());
        let is_out = || matches!(served.running().vitals().upstreams()[0].servers[0].health, Health::Out { .. });
        let pass = |expected: bool| {
            until("health checks find out", || {
                clock.advance(Duration::from_millis(100));
                std::thread::sleep(Duration::from_millis(1));
                is_out() == expected
            });
        };
        // Checks have connections of their own, and a client's would be idle for too long meanwhile.
        let ask = |count: usize| answers(&mut Client::connect(served.at), count);
        assert_eq!(ask(6), "ababab", "{balance}");
        is_well.store(false, Ordering::SeqCst);
        pass(true);
        let before = sent(&sick);
        assert_eq!(ask(6), "bbbbbb", "{balance}");
        assert_eq!(sent(&sick), before);
        is_well.store(true, Ordering::SeqCst);
        pass(false);
        let back = ask(6);
        assert_eq!((back.matches('a').count(), back.matches('b').count()), (3, 3), "{balance}: {back}");
    }
}

/// Nobody has to say that servers are to be checked: who fails three times in a row rests, longer each time, and comes
/// back by one request that may find it well. Its clients do not notice.
#[test]
fn who_fails_rests_and_returns() {
    let (failing, is_well) = moody("a");
    let well = at_once("b");
    let clock = ManualClock::new();
    let of_one_thread = file(&[&failing, &well], "").replace("threads: 2", "threads: 1");
    let served = Served::with_clock(&of_one_thread, clock.clone());
    let ask = |count: usize| answers(&mut Client::connect(served.at), count);
    assert_eq!(ask(4), "abab");
    is_well.store(false, Ordering::SeqCst);
    let before = sent(&failing);
    assert_eq!(ask(12), "b".repeat(12));
    // A kept connection that breaks is nobody's failure: that one was tried once more on a new one.
    assert_eq!(sent(&failing) - before, 1 + 3);
    assert_eq!(ask(12), "b".repeat(12));
    assert_eq!(sent(&failing) - before, 1 + 3, "who rests is not asked");
    for rest in [1, 2, 4] {
        let before = sent(&failing);
        clock.advance(Duration::from_secs(rest) - Duration::from_nanos(1));
        assert_eq!(ask(3), "bbb");
        assert_eq!(sent(&failing), before, "{rest} s are not over");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(ask(3), "bbb");
        assert_eq!(sent(&failing), before + 1, "one tries after {rest} s");
    }
    is_well.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(8));
    assert!(ask(1) == "a", "its turn comes before that of others");
    let back = ask(6);
    assert_eq!((back.matches('a').count(), back.matches('b').count()), (3, 3), "{back}");
}

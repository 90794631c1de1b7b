//! Connections of which nothing is expected: they sleep, and nobody notices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use sluicegate_engine::clock::ManualClock;
use support::raw::Client;
use support::upstream::Upstream;
use support::{Served, before, until};

const CLIENTS: usize = 20;

fn upstream() -> Upstream {
    Upstream::new(|_| async { Response::new(Bytes::from_static(b"hello")) })
}

/// A gateway whose clients have asked once, and sleep.
fn asleep(upstream: &Upstream) -> (ManualClock, Served, Vec<Client>) {
    let clock = ManualClock::new();
    let served = Served::with_clock(&before(&[upstream.at], ""), clock.clone());
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(served.at)).collect();
    clients.iter_mut().for_each(ask);
    fall_asleep(&clock, &served);
    (clock, served, clients)
}

fn ask(client: &mut Client) {
    assert_eq!(client.get("/").text(), "hello");
}

fn fall_asleep(clock: &ManualClock, served: &Served) {
    until("they sleep", || {
        clock.advance(Duration::from_millis(500));
        served.running().vitals().door().counts().resting == CLIENTS
    });
}

#[test]
fn who_has_slept_is_served_as_before() {
    let upstream = upstream();
    let (clock, served, mut clients) = asleep(&upstream);
    for _ in 0..3 {
        assert_eq!(served.running().vitals().door().counts().open, CLIENTS);
        clients.iter_mut().for_each(ask);
        clients.iter_mut().for_each(ask);
        assert_eq!(served.running().vitals().door().counts().resting, 0);
        fall_asleep(&clock, &served);
    }
    // A head that comes in pieces, the first of which wakes it.
    let client = &mut clients[0];
    client.send("GET / HT");
    until("it wakes", || served.running().vitals().door().counts().resting == CLIENTS - 1);
    client.send("TP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().unwrap().text(), "hello");
    assert_eq!(upstream.requests(), 7 * CLIENTS + 1);
}

#[test]
fn who_sleeps_for_too_long_is_let_go() {
    let upstream = upstream();
    let (clock, served, mut clients) = asleep(&upstream);
    until("they are let go", || {
        clock.advance(Duration::from_secs(1));
        served.running().vitals().door().counts().idle_closed == CLIENTS as u64
    });
    assert!(clients.iter_mut().all(Client::is_closed));
    until("their places are free", || served.running().vitals().door().counts().open == 0);
    assert_eq!(served.running().vitals().door().counts().resting, 0);
}

#[test]
fn who_leaves_asleep_gives_its_place_back() {
    let upstream = upstream();
    let (_clock, served, clients) = asleep(&upstream);
    drop(clients);
    until("their places are free", || served.running().vitals().door().counts().open == 0);
    assert_eq!(served.running().vitals().door().counts().resting, 0);
}

#[test]
fn when_it_stops_those_asleep_may_ask_once_more() {
    let upstream = upstream();
    let (clock, served, mut clients) = asleep(&upstream);
    let stopping = thread::spawn(move || served.stop());
    for client in &mut clients[..CLIENTS / 2] {
        let answer = client.get("/");
        if answer.header("connection").is_none() {
            // It has not heard yet.
            continue;
        }
        assert_eq!((answer.text().as_str(), answer.header("connection")), ("hello", Some("close")));
        assert!(client.is_closed());
    }
    until("all have gone", || {
        clock.advance(Duration::from_millis(100));
        stopping.is_finished()
    });
    let report = stopping.join().unwrap();
    assert_eq!((report.finished, report.aborted), (CLIENTS, 0));
    assert!(clients[CLIENTS / 2..].iter_mut().all(Client::is_closed));
}

//! Parking of idle connections, without any effect on clients.

use crate::support;

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use sluicegate_engine::clock::ManualClock;
use support::raw::Client;
use support::upstream::Upstream;
use support::{TestGateway, proxy_yaml, wait_until};

const CLIENTS: usize = 20;

fn upstream() -> Upstream {
    Upstream::new(|_| async { Response::new(Bytes::from_static(b"hello")) })
}

/// A gateway with clients that have sent one request and are parked.
fn with_parked_clients(upstream: &Upstream) -> (ManualClock, TestGateway, Vec<Client>) {
    let clock = ManualClock::new();
    let gateway = TestGateway::with_clock(&proxy_yaml(&[upstream.at], ""), clock.clone());
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(gateway.at)).collect();
    clients.iter_mut().for_each(get_ok);
    wait_until_parked(&clock, &gateway);
    (clock, gateway, clients)
}

fn get_ok(client: &mut Client) {
    assert_eq!(client.get("/").text(), "hello");
}

fn wait_until_parked(clock: &ManualClock, gateway: &TestGateway) {
    wait_until("they sleep", || {
        clock.advance(Duration::from_millis(500));
        gateway.running().stats().listener().counts().parked == CLIENTS
    });
}

#[test]
fn a_parked_connection_is_served_again() {
    let upstream = upstream();
    let (clock, gateway, mut clients) = with_parked_clients(&upstream);
    for _ in 0..3 {
        assert_eq!(gateway.running().stats().listener().counts().open, CLIENTS);
        clients.iter_mut().for_each(get_ok);
        clients.iter_mut().for_each(get_ok);
        assert_eq!(gateway.running().stats().listener().counts().parked, 0);
        wait_until_parked(&clock, &gateway);
    }
    // A head in several pieces; the first one resumes the connection.
    let client = &mut clients[0];
    client.send("GET / HT");
    wait_until("it wakes", || gateway.running().stats().listener().counts().parked == CLIENTS - 1);
    client.send("TP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.read_response().unwrap().text(), "hello");
    assert_eq!(upstream.requests(), 7 * CLIENTS + 1);
}

#[test]
fn a_parked_connection_times_out() {
    let upstream = upstream();
    let (clock, gateway, mut clients) = with_parked_clients(&upstream);
    wait_until("they are disconnected", || {
        clock.advance(Duration::from_secs(1));
        gateway.running().stats().listener().counts().idle_timeouts == CLIENTS as u64
    });
    assert!(clients.iter_mut().all(Client::is_closed));
    wait_until("their slots are free", || gateway.running().stats().listener().counts().open == 0);
    assert_eq!(gateway.running().stats().listener().counts().parked, 0);
}

#[test]
fn a_parked_connection_releases_its_permit_on_disconnect() {
    let upstream = upstream();
    let (_clock, gateway, clients) = with_parked_clients(&upstream);
    drop(clients);
    wait_until("their slots are free", || gateway.running().stats().listener().counts().open == 0);
    assert_eq!(gateway.running().stats().listener().counts().parked, 0);
}

#[test]
fn parked_connections_get_one_more_request_at_shutdown() {
    let upstream = upstream();
    let (clock, gateway, mut clients) = with_parked_clients(&upstream);
    let stopping = thread::spawn(move || gateway.stop());
    for client in &mut clients[..CLIENTS / 2] {
        let response = client.get("/");
        if response.header("connection").is_none() {
            // The shutdown has not reached this connection yet.
            continue;
        }
        assert_eq!((response.text().as_str(), response.header("connection")), ("hello", Some("close")));
        assert!(client.is_closed());
    }
    wait_until("all are closed", || {
        clock.advance(Duration::from_millis(100));
        stopping.is_finished()
    });
    let report = stopping.join().unwrap();
    assert_eq!((report.finished, report.aborted), (CLIENTS, 0));
    assert!(clients[CLIENTS / 2..].iter_mut().all(Client::is_closed));
}

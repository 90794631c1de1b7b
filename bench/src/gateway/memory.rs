//! What it takes to remember a million clients: `memory-1m`.
//!
//! All of them are limited when the memory is looked at: each has made the one request it may make in a
//! minute. Nothing is sent on, because only the limit's memory is looked for.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Instant;

use super::NGINX;
use super::client::Client;
use super::program::Program;
use super::sides::{self, Limit, Setting};
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const CLIENTS: u32 = 1_000_000;
/// Connections they come by, through the proxy that names them.
const CONNECTIONS: u32 = 8;
/// Requests sent ahead of their answers.
const PIPELINED: u32 = 100;
/// Clients that are asked whether they are limited.
const SAMPLE: u32 = 10_000;
/// The first ones may come again after a minute.
const MOST_SECONDS: f64 = 55.0;

pub(crate) fn million(scale: Scale) -> Vec<Row> {
    let clients = scale.size(CLIENTS);
    let setting = Setting { clients, named: true, ..Setting::few(Limit::PerMinute) };
    let upstream = sides::upstream();
    let ours = resident_mebibytes(&sides::ours(setting, &upstream), clients);
    let theirs = resident_mebibytes(&sides::nginx(setting, &upstream), clients);
    vec![Row { case: "memory-1m", peer: NGINX, unit: Unit::Mebibytes, ours, theirs, goal: Goal::ratio(0.5) }]
}

fn resident_mebibytes(side: &Program, clients: u32) -> f64 {
    let started = Instant::now();
    let each = clients / CONNECTIONS;
    thread::scope(|scope| {
        for nth in 0..CONNECTIONS {
            scope.spawn(move || come(side, nth * each..(nth + 1) * each, 1, 200));
        }
    });
    let resident = side.resident_bytes();
    come(side, 0..clients, clients / SAMPLE, 429);
    let seconds = started.elapsed().as_secs_f64();
    assert!(seconds < MOST_SECONDS, "{} took {seconds:.0} s: this machine is too busy", side.name());
    let said = side.said();
    assert!(!said.contains("could not allocate"), "{} has no room for all: {said}", side.name());
    resident / f64::from(1 << 20)
}

/// One request of every `step`th of these clients, each of which must be answered so.
fn come(side: &Program, clients: std::ops::Range<u32>, step: u32, status: u16) {
    let mut connection = Client::connect(side.port());
    let mut requests = Vec::new();
    let mut sent = 0;
    let last = clients.end;
    for client in clients.step_by(step as usize) {
        let name = Ipv4Addr::from_bits(0x0a00_0000 + client);
        requests.extend_from_slice(b"GET /own HTTP/1.1\r\nHost: bench.test\r\nX-Forwarded-For: ");
        requests.extend_from_slice(name.to_string().as_bytes());
        requests.extend_from_slice(b"\r\n\r\n");
        sent += 1;
        if sent == PIPELINED || client + step >= last {
            connection.send(&requests);
            requests.clear();
            for _ in 0..std::mem::take(&mut sent) {
                assert_eq!(connection.status(), status, "{}: one of the clients up to {name}", side.name());
            }
        }
    }
}

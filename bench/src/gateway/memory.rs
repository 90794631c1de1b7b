//! What it takes to remember a million clients: `memory-1m`.
//!
//! All of them are limited when the memory is looked at: each has made the one request it may make in a
//! minute. Nothing is sent on, because only the limit's memory is looked for.
//!
//! nginx has room for as many as there are. Our table, filled to the brim, still lets nobody in again too
//! soon, but takes three newcomers in ten thousand for one who was. So it has half as much room again, and
//! then it is about two in a million.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::thread;
use std::time::Instant;

use super::NGINX;
use super::sides::{self, Limit, Setting};
use crate::programs::client::Client;
use crate::programs::program::Program;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const CLIENTS: u32 = 1_000_000;
/// Newcomers that may be refused.
const MISTAKES: u32 = 10;
/// Connections they come by, through the proxy that names them.
const CONNECTIONS: u32 = 8;
/// Requests sent ahead of their answers.
const PIPELINED: usize = 100;
/// Clients that are asked whether they are limited.
const SAMPLE: u32 = 10_000;
/// The first ones may come again after a minute.
const MOST_SECONDS: f64 = 55.0;

pub(crate) fn million(scale: Scale) -> Vec<Row> {
    let clients = scale.size(CLIENTS);
    let theirs = Setting { clients, named: true, ..Setting::few(Limit::PerMinute) };
    let ours = Setting { clients: clients + clients / 2, ..theirs };
    let upstream = sides::upstream();
    let ours = resident_mebibytes(&sides::ours(ours, &upstream), clients);
    let theirs = resident_mebibytes(&sides::nginx(theirs, &upstream), clients);
    vec![Row { case: "memory-1m", peer: NGINX, unit: Unit::Mebibytes, ours, theirs, goal: Goal::ratio(0.5) }]
}

fn resident_mebibytes(side: &Program, clients: u32) -> f64 {
    let started = Instant::now();
    let each = clients / CONNECTIONS;
    let mistakes: u32 = thread::scope(|scope| {
        let come = |nth| scope.spawn(move || refused(side, nth * each..(nth + 1) * each, 1));
        let coming: Vec<_> = (0..CONNECTIONS).map(come).collect();
        coming.into_iter().map(|thread| thread.join().expect("all are answered")).sum()
    });
    assert!(mistakes <= MISTAKES, "{} refused {mistakes} of {clients} that are new", side.name());
    let resident = side.resident_bytes();
    let again = refused(side, 0..clients, clients / SAMPLE);
    let seconds = started.elapsed().as_secs_f64();
    assert!(seconds < MOST_SECONDS, "{} took {seconds:.0} s: this machine is too busy", side.name());
    assert!(again == SAMPLE, "{} has forgotten {} of {SAMPLE}", side.name(), SAMPLE - again);
    let said = side.said();
    assert!(!said.contains("could not allocate"), "{} has no room for all: {said}", side.name());
    resident / f64::from(1 << 20)
}

/// How many are refused when every `step`th of these clients comes once.
fn refused(side: &Program, clients: Range<u32>, step: u32) -> u32 {
    let mut connection = Client::connect(side.port());
    let clients: Vec<_> = clients.step_by(step as usize).map(|nth| Ipv4Addr::from_bits(0x0a00_0000 + nth)).collect();
    let mut refused = 0;
    for some in clients.chunks(PIPELINED) {
        let requests: String = some.iter().map(request).collect();
        connection.send(requests.as_bytes());
        for _ in some {
            match connection.status() {
                200 => {}
                429 => refused += 1,
                status => panic!("{} answers with {status}", side.name()),
            }
        }
    }
    refused
}

fn request(client: &Ipv4Addr) -> String {
    format!("GET /own HTTP/1.1\r\nHost: bench.test\r\nX-Forwarded-For: {client}\r\n\r\n")
}

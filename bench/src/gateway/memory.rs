//! Memory for a million limited clients: `memory-1m`.
//!
//! Every client has used its one request per minute when the memory is measured. No request is proxied, because only
//! the memory of the limit is of interest.
//!
//! The zone of nginx has the capacity for exactly this number of clients. A full table of Sluicegate never admits a
//! client too early, but takes about three new clients in ten thousand for known ones. With 50 % more capacity, as
//! here, it is about two in a million.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::thread;
use std::time::Instant;

use super::NGINX;
use super::contenders::{self, BenchLimit, ContenderConfig};
use crate::programs::client::Client;
use crate::programs::program::Program;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const CLIENTS: u32 = 1_000_000;
/// Maximum number of new clients that may be refused.
const MAX_FALSE_REFUSALS: u32 = 10;
/// Connections from the trusted proxy.
const CONNECTIONS: u32 = 8;
/// Pipelined requests per connection.
const PIPELINED: usize = 100;
/// Number of clients whose limit is verified.
const SAMPLE: u32 = 10_000;
/// Maximum duration: the first clients are admitted again after a minute.
const MAX_FILL_SECONDS: f64 = 55.0;

pub(crate) fn million(scale: Scale) -> Vec<Row> {
    let clients = scale.size(CLIENTS);
    let their_config =
        ContenderConfig { clients, by_forwarded_for: true, ..ContenderConfig::with_few_clients(BenchLimit::PerMinute) };
    let our_config = ContenderConfig { clients: clients + clients / 2, ..their_config };
    let upstream = contenders::upstream();
    let ours = resident_mebibytes(&contenders::ours(our_config, &upstream), clients);
    let theirs = resident_mebibytes(&contenders::nginx(their_config, &upstream), clients);
    vec![Row { case: "memory-1m", peer: NGINX, unit: Unit::Mebibytes, ours, theirs, goal: Goal::ratio(0.5) }]
}

fn resident_mebibytes(contender: &Program, clients: u32) -> f64 {
    let started = Instant::now();
    let each = clients / CONNECTIONS;
    let false_refusals: u32 = thread::scope(|scope| {
        let send = |index| scope.spawn(move || count_refused(contender, index * each..(index + 1) * each, 1));
        let threads: Vec<_> = (0..CONNECTIONS).map(send).collect();
        threads.into_iter().map(|thread| thread.join().expect("every request gets a response")).sum()
    });
    assert!(
        false_refusals <= MAX_FALSE_REFUSALS,
        "{} refused {false_refusals} of {clients} new clients",
        contender.name()
    );
    let resident = contender.resident_bytes();
    let refused = count_refused(contender, 0..clients, clients / SAMPLE);
    let seconds = started.elapsed().as_secs_f64();
    assert!(seconds < MAX_FILL_SECONDS, "{} took {seconds:.0} s: the machine is too busy", contender.name());
    assert!(refused == SAMPLE, "{} admitted {} of {SAMPLE} limited clients", contender.name(), SAMPLE - refused);
    let output = contender.output();
    assert!(!output.contains("could not allocate"), "{} has too little memory: {output}", contender.name());
    resident / f64::from(1 << 20)
}

/// Sends one request for every `step`th client and returns the number of refusals.
fn count_refused(contender: &Program, clients: Range<u32>, step: u32) -> u32 {
    let mut connection = Client::connect(contender.port());
    let clients: Vec<_> =
        clients.step_by(step as usize).map(|index| Ipv4Addr::from_bits(0x0a00_0000 + index)).collect();
    let mut refused = 0;
    for batch in clients.chunks(PIPELINED) {
        let requests: String = batch.iter().map(request).collect();
        connection.send(requests.as_bytes());
        for _ in batch {
            match connection.status() {
                200 => {}
                429 => refused += 1,
                status => panic!("{}: status {status}", contender.name()),
            }
        }
    }
    refused
}

fn request(client: &Ipv4Addr) -> String {
    format!("GET /own HTTP/1.1\r\nHost: bench.test\r\nX-Forwarded-For: {client}\r\n\r\n")
}

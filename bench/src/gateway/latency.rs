//! How long answers take where there is no hurry: `p99-half-load`.
//!
//! Requests come by the clock, at half of what nginx can do at most: 64 connections, each with a plan of its
//! own, made beforehand. A time is counted from when the request was due, not from when it could be sent, so a
//! side that lags is charged for all it delays. A thread for each connection, because a thread's sleep is
//! exact to some 50 microseconds and an async timer's only to a millisecond.

use std::thread;
use std::time::{Duration, Instant};

use super::NGINX;
use super::sides::{self, Limit, Setting};
use crate::programs::client::{Client, get};
use crate::programs::program::Program;
use crate::programs::rounds::median_of;
use crate::programs::wrk;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const CONNECTIONS: u32 = 64;

pub(crate) fn half_load(scale: Scale) -> Vec<Row> {
    let upstream = sides::upstream();
    let setting = Setting::few(Limit::Plenty);
    let (ours, nginx) = (sides::ours(setting, &upstream), sides::nginx(setting, &upstream));
    for side in [&ours, &nginx] {
        sides::prove_it_proxies(side);
        wrk::get(side, "/small", 1);
    }
    let (rounds, seconds) = if scale.quick { (1, 1) } else { (5, 3) };
    let per_second = wrk::get(&nginx, "/small", seconds).per_second / 2.0;
    let lasting = Duration::from_secs(seconds.into());
    let measure = |side| p99_micros(side, per_second, lasting);
    let [ours, theirs] = median_of(rounds, [&ours, &nginx], |side| measure(side));
    vec![Row { case: "p99-half-load", peer: NGINX, unit: Unit::Micros, ours, theirs, goal: Goal::ratio(1.2) }]
}

fn p99_micros(side: &Program, per_second: f64, lasting: Duration) -> f64 {
    let every = Duration::from_secs_f64(f64::from(CONNECTIONS) / per_second);
    // Later than the threads need to begin.
    let start = Instant::now() + Duration::from_millis(200);
    let connections: Vec<_> = (0..CONNECTIONS)
        .map(|nth| {
            let client = Client::connect(side.port());
            let first = start + every * nth / CONNECTIONS;
            thread::spawn(move || by_the_clock(client, first, every, lasting))
        })
        .collect();
    let times = connections.into_iter().flat_map(|thread| thread.join().expect("all are let in"));
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times[times.len() * 99 / 100].as_secs_f64() * 1e6
}

/// One connection's times, each from when a request was due until its answer was there.
fn by_the_clock(mut client: Client, first: Instant, every: Duration, lasting: Duration) -> Vec<Duration> {
    let request = get("/small");
    let count = lasting.div_duration_f64(every) as u32;
    let plan = (0..count).map(|nth| first + every * nth);
    plan.map(|due| {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        client.send(&request);
        assert_eq!(client.status(), 200, "all are let in");
        due.elapsed()
    })
    .collect()
}

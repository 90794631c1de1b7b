//! Requests that come by the clock, whatever becomes of those before them.
//!
//! Each connection has a plan of its own, made beforehand. A time is counted from when the request was due, not from
//! when it could be sent, so a side that lags is charged for all it delays. A thread for each connection, because a
//! thread's sleep is exact to some 50 microseconds and an async timer's only to a millisecond.

use std::thread;
use std::time::{Duration, Instant};

use super::client::{Client, get};

/// How long the threads may need to begin.
const BEGINNING: Duration = Duration::from_millis(200);

/// Who asks, how often, and for what.
#[derive(Clone, Copy)]
pub(crate) struct OpenLoop {
    pub(crate) connections: u32,
    /// Over all connections.
    pub(crate) per_second: f64,
    pub(crate) path: &'static str,
    pub(crate) lasting: Duration,
}

impl OpenLoop {
    /// How long the answers of a program took, in order of their length. All must be 200.
    pub(crate) fn times(self, port: u16) -> Vec<Duration> {
        let every = Duration::from_secs_f64(f64::from(self.connections) / self.per_second);
        let start = Instant::now() + BEGINNING;
        let connections: Vec<_> = (0..self.connections)
            .map(|nth| {
                let client = Client::connect(port);
                let first = start + every * nth / self.connections;
                thread::spawn(move || self.by_the_clock(client, first, every))
            })
            .collect();
        let times = connections.into_iter().flat_map(|thread| thread.join().expect("all are let in"));
        let mut times: Vec<Duration> = times.collect();
        times.sort_unstable();
        times
    }

    /// One connection's times.
    fn by_the_clock(self, mut client: Client, first: Instant, every: Duration) -> Vec<Duration> {
        let request = get(self.path);
        let count = self.lasting.div_duration_f64(every) as u32;
        let plan = (0..count).map(|nth| first + every * nth);
        plan.map(|due| {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            client.send(&request);
            assert_eq!(client.status(), 200, "all are let in");
            due.elapsed()
        })
        .collect()
    }
}

//! Requests that come by the clock, whatever becomes of those before them.
//!
//! Connections take turns, each with one request at a time: what is due while its connection still waits for an answer is
//! sent after it. A time is counted from when the request was due, not from when it could be sent, so a side that lags is
//! charged for all it delays.
//!
//! One thread does it all: a thread for each connection would switch tasks twice for every request, on the processors of
//! those that are measured.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::thread::set_current_timer_slack;

use super::client::{Client, get};

/// How long after the connections are made it begins.
const BEGINNING: Duration = Duration::from_millis(200);

/// How long nothing may come at all. Only a guard against hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// By how much the system may oversleep: it takes 50 microseconds where nobody says otherwise.
const SLACK: Option<NonZeroU64> = NonZeroU64::new(1);

/// Who asks, how often, and for what.
#[derive(Clone, Copy)]
pub(crate) struct OpenLoop {
    pub(crate) connections: u32,
    /// Over all connections.
    pub(crate) per_second: f64,
    pub(crate) path: &'static str,
    pub(crate) lasting: Duration,
}

/// A connection, and how many of its requests were due, sent and answered.
struct Line {
    client: Client,
    due: u32,
    sent: u32,
    answered: u32,
}

impl OpenLoop {
    /// How long the answers of a program took, in order of their length. All must be 200.
    pub(crate) fn times(self, port: u16) -> Vec<Duration> {
        set_current_timer_slack(SLACK).expect("a thread may ask for exact sleep");
        let request = get(self.path);
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC).expect("something to watch sockets with");
        let mut lines: Vec<Line> = (0..self.connections)
            .map(|nth| {
                let client = Client::connect(port);
                let name = epoll::EventData::new_u64(nth.into());
                epoll::add(&watch, client.socket(), name, epoll::EventFlags::IN).expect("a socket is watched");
                Line { client, due: 0, sent: 0, answered: 0 }
            })
            .collect();
        let all = (self.lasting.as_secs_f64() * self.per_second) as u32;
        let start = Instant::now() + BEGINNING;
        let due_at = |nth: u32| start + Duration::from_secs_f64(f64::from(nth) / self.per_second);
        let (mut due, mut times) = (0, Vec::with_capacity(all as usize));
        let mut events = Vec::with_capacity(lines.len());
        while times.len() < all as usize {
            while due < all && due_at(due) <= Instant::now() {
                let line = &mut lines[(due % self.connections) as usize];
                line.due += 1;
                line.send_what_is_due(&request);
                due += 1;
            }
            let until = if due < all { due_at(due).saturating_duration_since(Instant::now()) } else { PATIENCE };
            let until = Timespec::try_from(until).expect("a short time");
            events.clear();
            epoll::wait(&watch, spare_capacity(&mut events), Some(&until)).expect("sockets are watched");
            assert!(due < all || !events.is_empty(), "an answer in time");
            for event in &events {
                let nth = event.data.u64() as u32;
                let line = &mut lines[nth as usize];
                if let Some(status) = line.client.status_if_whole() {
                    assert_eq!(status, 200, "all are let in");
                    times.push(due_at(line.answered * self.connections + nth).elapsed());
                    line.answered += 1;
                    line.send_what_is_due(&request);
                }
            }
        }
        times.sort_unstable();
        times
    }
}

impl Line {
    /// Sends the next request, if it is due and the one before it is answered.
    fn send_what_is_due(&mut self, request: &[u8]) {
        if self.sent < self.due && self.sent == self.answered {
            self.client.send(request);
            self.sent += 1;
        }
    }
}

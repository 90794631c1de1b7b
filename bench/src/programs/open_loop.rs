//! Open-loop load generator: requests follow a fixed schedule, independent of the responses.
//!
//! Requests are distributed over the connections round-robin. Each connection has one request in flight; a request that
//! becomes due earlier is sent after the pending response. Response times count from the scheduled start, not from the
//! actual send, so they include all delays caused by a slow program (no coordinated omission).
//!
//! One thread serves all connections: a thread per connection would cause two context switches per request on the cores
//! of the measured program.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::thread::set_current_timer_slack;

use super::client::{Client, get};

/// Delay between the connections and the first request.
const START_DELAY: Duration = Duration::from_millis(200);

/// Maximum time without any response; prevents a hanging run.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Timer slack in nanoseconds; the kernel's default is 50 microseconds.
const TIMER_SLACK: Option<NonZeroU64> = NonZeroU64::new(1);

/// Load parameters.
#[derive(Clone, Copy)]
pub(crate) struct OpenLoop {
    pub(crate) connections: u32,
    /// Requests per second over all connections.
    pub(crate) per_second: f64,
    pub(crate) path: &'static str,
    pub(crate) duration: Duration,
}

/// Connection with the number of requests due, sent and completed.
struct LoopConnection {
    client: Client,
    due: u32,
    sent: u32,
    completed: u32,
}

impl OpenLoop {
    /// Runs the load and returns the sorted response times. Panics on a status other than 200.
    pub(crate) fn times(self, port: u16) -> Vec<Duration> {
        set_current_timer_slack(TIMER_SLACK).expect("timer slack is set");
        let request = get(self.path);
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll instance");
        let mut connections: Vec<LoopConnection> = (0..self.connections)
            .map(|index| {
                let client = Client::connect(port);
                let data = epoll::EventData::new_u64(index.into());
                epoll::add(&poller, client.socket(), data, epoll::EventFlags::IN).expect("socket is added to epoll");
                LoopConnection { client, due: 0, sent: 0, completed: 0 }
            })
            .collect();
        let total = (self.duration.as_secs_f64() * self.per_second) as u32;
        let start = Instant::now() + START_DELAY;
        let due_at = |index: u32| start + Duration::from_secs_f64(f64::from(index) / self.per_second);
        let (mut due, mut times) = (0, Vec::with_capacity(total as usize));
        let mut events = Vec::with_capacity(connections.len());
        while times.len() < total as usize {
            while due < total && due_at(due) <= Instant::now() {
                let connection = &mut connections[(due % self.connections) as usize];
                connection.due += 1;
                connection.send_if_due(&request);
                due += 1;
            }
            let timeout =
                if due < total { due_at(due).saturating_duration_since(Instant::now()) } else { IDLE_TIMEOUT };
            let timeout = Timespec::try_from(timeout).expect("timeout fits a timespec");
            events.clear();
            epoll::wait(&poller, spare_capacity(&mut events), Some(&timeout)).expect("epoll_wait succeeds");
            assert!(due < total || !events.is_empty(), "no response within the timeout");
            for event in &events {
                let index = event.data.u64() as u32;
                let connection = &mut connections[index as usize];
                if let Some(status) = connection.client.status_if_complete() {
                    assert_eq!(status, 200, "every request is admitted");
                    times.push(due_at(connection.completed * self.connections + index).elapsed());
                    connection.completed += 1;
                    connection.send_if_due(&request);
                }
            }
        }
        times.sort_unstable();
        times
    }
}

impl LoopConnection {
    /// Sends the next request if it is due and the previous one is complete.
    fn send_if_due(&mut self, request: &[u8]) {
        if self.sent < self.due && self.sent == self.completed {
            self.client.send(request);
            self.sent += 1;
        }
    }
}

//! Open-loop load with Poisson arrivals, and the results of all requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::programs::client::Client;

/// Maximum number of requests in flight; further requests are sent late, and the delay counts as response time.
const MAX_IN_FLIGHT: usize = 400;
/// One in this many requests has the highest priority: at five times the capacity, about two fifths of the capacity.
const HIGH_PRIORITY_EVERY: usize = 12;
/// Responses after this time do not count as goodput.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval over which goodput is evaluated.
const SPAN: Duration = Duration::from_millis(500);

/// Scheduled start times of the requests, relative to the start of the run.
pub(super) struct Arrivals(Vec<Duration>);

/// Result of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestResult {
    Served,
    Shed,
}

struct RequestSample {
    due: Duration,
    took: Duration,
    result: RequestResult,
    is_high_priority: bool,
}

/// Results of one run.
pub(super) struct ArrivalRun {
    samples: Vec<RequestSample>,
    duration: Duration,
}

/// Results of several rounds at one rate, without the warm-up.
#[derive(Default)]
pub(super) struct PooledSamples {
    samples: Vec<RequestSample>,
    duration: Duration,
}

impl Arrivals {
    /// Arrivals at a constant mean rate; the round seeds the random numbers.
    pub(super) fn steady(per_second: f64, duration: Duration, round: u64) -> Self {
        Self::poisson([(per_second, duration), (per_second, Duration::ZERO)], round)
    }

    /// Arrivals at one rate, then at another.
    pub(super) fn stepped(first: (f64, Duration), then: (f64, Duration)) -> Self {
        Self::poisson([first, then], 0)
    }

    fn poisson([(first, first_duration), (then, then_duration)]: [(f64, Duration); 2], round: u64) -> Self {
        // A fixed seed gives the same arrivals in every run.
        let mut random = 0x5eed_u64 + round;
        let mut gap = |rate: f64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let share = ((random >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            Duration::from_secs_f64(-share.ln() / rate)
        };
        let (mut schedule, mut at) = (Vec::new(), Duration::ZERO);
        loop {
            at += gap(if at < first_duration { first } else { then });
            if at >= first_duration + then_duration {
                return Self(schedule);
            }
            schedule.push(at);
        }
    }

    pub(super) fn run(self, port: u16) -> ArrivalRun {
        let schedule = Arc::new(self.0);
        let duration = schedule.last().copied().unwrap_or_default();
        let next = Arc::new(AtomicUsize::new(0));
        let start = Instant::now() + Duration::from_millis(500);
        let threads: Vec<_> = (0..MAX_IN_FLIGHT)
            .map(|_| {
                let (schedule, next) = (Arc::clone(&schedule), Arc::clone(&next));
                let builder = thread::Builder::new().stack_size(128 * 1024);
                builder.spawn(move || send_scheduled(port, start, &schedule, &next)).expect("thread starts")
            })
            .collect();
        let samples = threads.into_iter().flat_map(|thread| thread.join().expect("load thread ends")).collect();
        ArrivalRun { samples, duration }
    }
}

/// Sends the next scheduled request until none is left.
fn send_scheduled(port: u16, start: Instant, schedule: &[Duration], next: &AtomicUsize) -> Vec<RequestSample> {
    let mut client = Client::connect(port);
    let requests = ["other", "vip"]
        .map(|class| format!("GET / HTTP/1.1\r\nHost: bench.test\r\nX-Class: {class}\r\n\r\n").into_bytes());
    let mut samples = Vec::new();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(&due) = schedule.get(index) else { return samples };
        thread::sleep((start + due).saturating_duration_since(Instant::now()));
        let is_high_priority = index.is_multiple_of(HIGH_PRIORITY_EVERY);
        client.send(&requests[usize::from(is_high_priority)]);
        let result = match client.status() {
            200 => RequestResult::Served,
            503 => RequestResult::Shed,
            other => panic!("status {other}"),
        };
        samples.push(RequestSample { due, took: start.elapsed().saturating_sub(due), result, is_high_priority });
    }
}

fn is_in_time(sample: &RequestSample) -> bool {
    sample.result == RequestResult::Served && sample.took <= CLIENT_TIMEOUT
}

impl PooledSamples {
    /// Adds the samples of another round from the given time on.
    pub(super) fn add(&mut self, run: ArrivalRun, from: Duration) {
        self.samples.extend(run.samples.into_iter().filter(|sample| sample.due >= from));
        self.duration += run.duration - from;
    }

    fn per_second(&self, filter: impl Fn(&RequestSample) -> bool) -> f64 {
        self.samples.iter().filter(|sample| filter(sample)).count() as f64 / self.duration.as_secs_f64()
    }

    /// Responses per second within the client timeout.
    pub(super) fn goodput(&self) -> f64 {
        self.per_second(is_in_time)
    }

    /// p99 response time of served requests, in microseconds.
    pub(super) fn p99(&self) -> f64 {
        let served = self.samples.iter().filter(|sample| sample.result == RequestResult::Served);
        let mut times: Vec<Duration> = served.map(|sample| sample.took).collect();
        times.sort_unstable();
        times.get(times.len() * 99 / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
    }

    /// Share of all requests with this result.
    pub(super) fn share(&self, result: RequestResult) -> f64 {
        self.samples.iter().filter(|sample| sample.result == result).count() as f64 / self.samples.len().max(1) as f64
    }

    /// Requests of the highest priority per second: served in time, and sent.
    pub(super) fn high_priority_rates(&self) -> (f64, f64) {
        (
            self.per_second(|sample| sample.is_high_priority && is_in_time(sample)),
            self.per_second(|sample| sample.is_high_priority),
        )
    }
}

impl ArrivalRun {
    /// Time after `from` until goodput stays at or above `per_second` in every span.
    pub(super) fn settled_after(&self, from: Duration, per_second: f64) -> Duration {
        let spans = ((self.duration - from).as_secs_f64() / SPAN.as_secs_f64()) as u32;
        let enough = |span: &u32| {
            let (begin, end) = (from + SPAN * *span, from + SPAN * (*span + 1));
            let good =
                self.samples.iter().filter(|sample| (begin..end).contains(&sample.due) && is_in_time(sample)).count();
            // Tolerance for random variation: two standard deviations.
            good as f64 + 2.0 * (good as f64).sqrt() >= per_second * SPAN.as_secs_f64()
        };
        let last_bad = (0..spans).rev().find(|span| !enough(span));
        SPAN * last_bad.map_or(0, |span| span + 1)
    }

    /// Time after `from` until the last request is shed.
    pub(super) fn last_shed_after(&self, from: Duration) -> Duration {
        let shed = self.samples.iter().filter(|sample| sample.due >= from && sample.result == RequestResult::Shed);
        shed.map(|sample| sample.due - from).max().unwrap_or_default()
    }
}

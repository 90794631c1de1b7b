//! Simulation of one burst of requests against one limiter, in virtual time.
//!
//! The requests are always the same ([`arrivals`]): ten just before a full second of the clock and ten just after
//! it, then one second with twice the allowed rate. Every picture therefore shows the behaviour at
//! a window boundary, and the result of a steady overload.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{AcquireError, Limit, LimitError, Limiter, Permit, Verdict};

/// Duration of the simulation, in milliseconds.
pub const DURATION_MS: u64 = 4_500;

/// Arrival times of the requests, in milliseconds.
pub fn arrivals() -> Vec<u64> {
    let before = (0..10).map(|n| 900 + n * 10);
    let after = (0..10).map(|n| 1_000 + n * 10);
    let steady = (0..20).map(|n| 2_500 + n * 50);
    before.chain(after).chain(steady).collect()
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalResult {
    /// Admitted on arrival.
    Passed,
    /// Admitted from the queue at this millisecond.
    Waited(u64),
    /// Refused.
    Refused,
}

/// A request with its arrival time and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalTrace {
    /// Arrival time, in milliseconds.
    pub arrived_ms: u64,
    /// Result of the request.
    pub result: ArrivalResult,
}

impl ArrivalTrace {
    /// Time of admission in milliseconds, if it was admitted.
    pub fn started_ms(&self) -> Option<u64> {
        match self.result {
            ArrivalResult::Passed => Some(self.arrived_ms),
            ArrivalResult::Waited(until) => Some(until),
            ArrivalResult::Refused => None,
        }
    }
}

/// Options of the simulated requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestOptions {
    /// Maximum time in the queue; `None` for no queueing.
    pub max_wait: Option<Duration>,
    /// Time that a request holds its permit.
    pub hold_time: Duration,
}

type PendingPermit = Pin<Box<dyn Future<Output = Result<Permit, AcquireError>>>>;

/// Simulates the [`arrivals`] against a limiter with this limit; returns the traces in order of arrival.
///
/// # Errors
///
/// If no limiter can be built with the limit.
pub fn simulate(limit: Limit, options: RequestOptions) -> Result<Vec<ArrivalTrace>, LimitError> {
    let clock = ManualClock::new();
    let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build()?;
    let (start, step) = (clock.now(), Duration::from_millis(1));
    let mut traces: Vec<ArrivalTrace> = Vec::new();
    let mut queue: Vec<(usize, PendingPermit)> = Vec::new();
    let mut in_flight: Vec<(u64, Permit)> = Vec::new();
    let mut pending = arrivals().into_iter().peekable();
    for now in 0..=DURATION_MS {
        clock.set(start + step * u32::try_from(now).unwrap_or(u32::MAX));
        in_flight.retain(|(until, _)| *until > now);
        queue.retain_mut(|(index, waiting)| {
            let Poll::Ready(permit) = poll(waiting) else { return true };
            let result = if permit.is_ok() { ArrivalResult::Waited(now) } else { ArrivalResult::Refused };
            traces[*index].result = result;
            false
        });
        while pending.next_if_eq(&now).is_some() {
            let result = match options.max_wait {
                Some(max_wait) => {
                    let mut waiting: PendingPermit = Box::pin(limiter.acquire().within(max_wait).into_future());
                    match poll(&mut waiting) {
                        Poll::Ready(Ok(_)) => ArrivalResult::Passed,
                        Poll::Ready(Err(_)) => ArrivalResult::Refused,
                        Poll::Pending => {
                            queue.push((traces.len(), waiting));
                            ArrivalResult::Refused // replaced when the wait ends
                        }
                    }
                }
                None if options.hold_time.is_zero() => match limiter.check().verdict {
                    Verdict::Allowed => ArrivalResult::Passed,
                    Verdict::Wait(pause) => ArrivalResult::Waited(now + milliseconds(pause)),
                    Verdict::Denied { .. } | Verdict::Never => ArrivalResult::Refused,
                },
                None => match limiter.enter(1) {
                    Ok(permit) => {
                        in_flight.push((now + milliseconds(options.hold_time), permit));
                        ArrivalResult::Passed
                    }
                    Err(_) => ArrivalResult::Refused,
                },
            };
            traces.push(ArrivalTrace { arrived_ms: now, result });
        }
    }
    Ok(traces)
}

fn poll(waiting: &mut PendingPermit) -> Poll<Result<Permit, AcquireError>> {
    waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_engine::Rate;
    use sluicegate_engine::algorithm::Alignment;

    const SECOND: Duration = Duration::from_secs(1);

    fn max_in_any_second(traces: &[ArrivalTrace]) -> usize {
        let started: Vec<u64> = traces.iter().filter_map(ArrivalTrace::started_ms).collect();
        let within = |from: u64| started.iter().filter(|at| (from..from + 1_000).contains(*at)).count();
        started.iter().map(|at| within(*at)).max().unwrap_or(0)
    }

    #[test]
    fn only_the_fixed_window_admits_twenty_across_its_boundary() {
        let fixed = Limit::fixed_window(10, SECOND, Alignment::Epoch).unwrap();
        assert_eq!(max_in_any_second(&simulate(fixed, RequestOptions::default()).unwrap()), 20);
        for limit in [Limit::sliding_window(10, SECOND, 10).unwrap(), Limit::sliding_log(10, SECOND).unwrap()] {
            assert_eq!(max_in_any_second(&simulate(limit, RequestOptions::default()).unwrap()), 10);
        }
    }

    #[test]
    fn queued_requests_are_admitted_later_or_refused_immediately() {
        let bucket = Limit::token_bucket(Rate::per_second(10).unwrap(), 10).unwrap();
        let options = RequestOptions { max_wait: Some(SECOND / 2), ..RequestOptions::default() };
        let traces = simulate(bucket, options).unwrap();
        let waits: Vec<u64> = traces
            .iter()
            .filter_map(|it| match it.result {
                ArrivalResult::Waited(until) => Some(until - it.arrived_ms),
                ArrivalResult::Passed | ArrivalResult::Refused => None,
            })
            .collect();
        assert!(!waits.is_empty() && waits.iter().all(|wait| *wait <= 500), "{waits:?}");
    }
}

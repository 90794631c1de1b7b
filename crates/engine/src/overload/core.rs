//! State machine of an overload gate, without waiting, waking or locking.

use std::time::Duration;

use super::meter::{GateMeter, Interval, Throughput};
use super::queue::{GateQueue, JoinResult, QueueBounds};
use super::rate::{RateWindow, VariableRate};
use crate::rule::Priority;
use crate::time::Timestamp;

/// Limits of a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateLimits {
    /// Maximum number of requests in flight.
    pub max_in_flight: Option<usize>,
    /// Maximum rate of admitted requests.
    pub rate: Option<VariableRate>,
    /// Bounds of the wait queue.
    pub queue: QueueBounds,
}

impl GateLimits {
    /// No limits: every request is admitted.
    pub const OPEN: Self = Self {
        max_in_flight: None,
        rate: None,
        queue: QueueBounds { max_wait: Duration::ZERO, target: Duration::ZERO, max_waiting: 0 },
    };
}

/// Result of an attempt to admit a request.
#[derive(Debug, PartialEq)]
pub enum AdmitResult<T> {
    /// Admitted.
    Enter,
    /// Queued. An evicted request of a lower class has to be notified.
    Wait {
        /// Ticket for leaving the queue.
        ticket: u64,
        /// Request evicted from the full queue.
        evicted: Option<T>,
    },
    /// Refused. If the rate limit alone decides, with the time until a retry.
    Refused(Option<Duration>),
}

/// Result of a wait in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// Admitted after this wait.
    Admitted(Duration),
    /// Dropped from the queue.
    Dropped,
}

/// State of a gate. `T` is the handle of a waiting request.
///
/// Call [`try_admit`](Self::try_admit) for each request and [`finish`](Self::finish) at the end of each
/// admitted one. Call [`admit_waiting`](Self::admit_waiting) after every change that may free a slot.
pub struct GateCore<T> {
    limits: GateLimits,
    in_flight: usize,
    queue: GateQueue<T>,
    rate: RateWindow,
    meter: GateMeter,
}

impl<T> GateCore<T> {
    /// Open gate with no requests in flight.
    pub fn new(now: Timestamp) -> Self {
        let rate = RateWindow::new(Duration::from_secs(1));
        Self { limits: GateLimits::OPEN, in_flight: 0, queue: GateQueue::new(), rate, meter: GateMeter::new(now) }
    }

    /// Current limits.
    pub const fn limits(&self) -> &GateLimits {
        &self.limits
    }

    /// Number of requests in flight.
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Number of queued requests.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn is_full(&self) -> bool {
        self.limits.max_in_flight.is_some_and(|max| self.in_flight >= max)
    }

    fn record_in_flight(&mut self, now: Timestamp) {
        let full = self.is_full();
        self.meter.record_in_flight(now, self.in_flight, full);
    }

    /// Sets the limits. Call [`admit_waiting`](Self::admit_waiting) afterwards: there may be more slots.
    pub fn set_limits(&mut self, now: Timestamp, limits: GateLimits) {
        self.record_in_flight(now);
        if let Some(rate) = &limits.rate
            && !self.rate.has_window(rate.window)
        {
            self.rate = RateWindow::new(rate.window);
        }
        self.limits = limits;
    }

    /// Tries to admit a request. `waiter` is stored if it is queued; `None`: it does not wait.
    pub fn try_admit(&mut self, now: Timestamp, class: Priority, waiter: Option<T>) -> AdmitResult<T> {
        self.meter.record_arrival(now);
        if let Err(wait) = self.pass_rate(now, class) {
            self.meter.record_refusal(now);
            return AdmitResult::Refused(Some(wait));
        }
        if !self.is_full() && !self.queue.has_waiting_from(class) {
            self.enter(now);
            return AdmitResult::Enter;
        }
        let joined = waiter.map(|waiter| self.queue.join(now, class, &self.limits.queue, waiter));
        match joined {
            Some(JoinResult::Queued { ticket, evicted }) => {
                if evicted.is_some() {
                    self.meter.record_refusal(now);
                }
                AdmitResult::Wait { ticket, evicted }
            }
            Some(JoinResult::Full(_)) | None => {
                self.meter.record_refusal(now);
                AdmitResult::Refused(None)
            }
        }
    }

    /// Tries to admit a request without a completion report. It occupies no slot; only the rate limits it.
    pub fn try_admit_untimed(&mut self, now: Timestamp, class: Priority) -> Result<(), Duration> {
        self.meter.record_arrival(now);
        let passed = self.pass_rate(now, class);
        if passed.is_err() {
            self.meter.record_refusal(now);
        }
        passed
    }

    /// Result that [`GateCore::try_admit`] would return for a request that does not wait. Changes nothing.
    pub fn peek(&self, now: Timestamp, class: Priority) -> Result<(), Option<Duration>> {
        if let Some(rate) = self.limits.rate {
            self.rate.peek(now, class, rate).map_err(Some)?;
        }
        if self.is_full() || self.queue.has_waiting_from(class) { Err(None) } else { Ok(()) }
    }

    /// Admits a request regardless of the limits, for shadow mode.
    pub fn enter(&mut self, now: Timestamp) {
        self.record_in_flight(now);
        self.in_flight += 1;
    }

    fn pass_rate(&mut self, now: Timestamp, class: Priority) -> Result<(), Duration> {
        match self.limits.rate {
            Some(rate) => self.rate.enter(now, class, rate),
            None => Ok(()),
        }
    }

    /// Ends an admitted request. `succeeded`: its response time is a valid measurement of the service. Call
    /// [`admit_waiting`](Self::admit_waiting) afterwards.
    pub fn finish(&mut self, now: Timestamp, response_time: Duration, succeeded: bool) {
        self.release(now);
        self.meter.record_completion(now, response_time, succeeded);
    }

    /// Releases an admitted request without a measurement. Call [`admit_waiting`](Self::admit_waiting) afterwards.
    pub fn release(&mut self, now: Timestamp) {
        self.record_in_flight(now);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Removes a request from the queue. Returns true if it was still queued; otherwise its result is already
    /// decided.
    pub fn leave(&mut self, now: Timestamp, ticket: u64) -> bool {
        let waited = self.queue.leave(ticket);
        if waited {
            self.meter.record_refusal(now);
        }
        waited
    }

    /// Drops expired requests from the queue and admits as many others as there are free slots.
    pub fn admit_waiting(&mut self, now: Timestamp, mut each: impl FnMut(T, WaitResult)) {
        if self.queue.len() == 0 {
            return;
        }
        let mut dropped = 0;
        self.queue.drop_expired(now, &self.limits.queue, |waiter| {
            dropped += 1;
            each(waiter, WaitResult::Dropped);
        });
        (0..dropped).for_each(|_| self.meter.record_refusal(now));
        while !self.is_full()
            && let Some((waiter, waited)) = self.queue.next(now, &self.limits.queue)
        {
            self.enter(now);
            each(waiter, WaitResult::Admitted(waited));
        }
    }

    /// Measurements of the last second, and current numbers.
    pub fn throughput(&self, now: Timestamp) -> Throughput {
        Throughput { in_flight: self.in_flight, waiting: self.queue.len(), ..self.meter.throughput(now) }
    }

    /// Measurements of the current interval.
    pub fn peek_interval(&mut self, now: Timestamp) -> Interval {
        self.record_in_flight(now);
        self.meter.peek_interval(now)
    }

    /// Ends the current interval and starts the next.
    pub fn take_interval(&mut self, now: Timestamp) -> Interval {
        self.record_in_flight(now);
        self.meter.take_interval(now)
    }
}

//! `adaptive: auto` in a program that checks before its work and records the completion. Simulates a server with four
//! workers on a manual clock.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate::adaptive::controller::{ControlLoop, TICK_INTERVAL};
use sluicegate::adaptive::signals::HostSignals;
use sluicegate::clock::ManualClock;
use sluicegate::overload::{Completion, Gate};
use sluicegate::rule::{Adaptive, Auto, Request, Rule};
use sluicegate::sluice::{Admission, Cause};
use sluicegate::{Outcome, Sluice};

const STEP: Duration = Duration::from_millis(1);
const WORKERS: usize = 4;
/// Service time of a request in steps: four workers complete 400 requests per second.
const SERVICE_STEPS: u32 = 10;

/// The simulated program.
struct SimulatedServer {
    clock: ManualClock,
    sluice: Sluice,
    gate: Gate,
    control_loop: ControlLoop,
    /// Requests in the queue.
    queued: Vec<Pin<Box<Admission>>>,
    /// Admitted requests that wait for a worker, with the time of admission.
    admitted: VecDeque<(Outcome, u64)>,
    /// Requests in service, with the time of admission and the remaining steps.
    in_service: Vec<(Outcome, u64, u32)>,
    now: u64,
    stats: RunStats,
}

/// Statistics since the last call of `run`.
#[derive(Default)]
struct RunStats {
    completed: u32,
    refused: u32,
    /// Time from admission to completion, in steps.
    times: Vec<u64>,
    /// Concurrency limit at each tick.
    limits: Vec<usize>,
    reason: String,
}

impl SimulatedServer {
    fn new() -> Self {
        let clock = ManualClock::new();
        let protect = Rule { adaptive: Some(Adaptive::Auto(Auto::default())), ..Rule::new("protect", []) };
        let sluice = Sluice::builder().rule(protect).clock(clock.clone()).build().unwrap();
        let gate = sluice.gates().remove(0).1;
        let control_loop = ControlLoop::new(&sluice, HostSignals::with_root("/there/is/no/such/folder"));
        let (queued, admitted, in_service) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { clock, sluice, gate, control_loop, queued, admitted, in_service, now: 0, stats: RunStats::default() }
    }

    /// Works for so many seconds while so many requests come in each; `fails`: they end at once, and badly.
    fn run(&mut self, seconds: u64, per_second: u64, fails: bool) -> RunStats {
        for _ in 0..seconds * 1_000 {
            if u128::from(self.now).is_multiple_of(TICK_INTERVAL.as_millis()) {
                assert!(self.control_loop.tick());
                self.stats.limits.push(self.gate.limits().max_in_flight.expect("auto sets a concurrency limit"));
            }
            for _ in self.now * per_second / 1_000..(self.now + 1) * per_second / 1_000 {
                self.queued.push(Box::pin(self.sluice.admit(&Request::new("GET", "/"))));
            }
            self.poll_queued();
            self.advance_workers(fails);
            self.clock.advance(STEP);
            self.now += 1;
        }
        std::mem::take(&mut self.stats)
    }

    fn poll_queued(&mut self) {
        let mut queued = std::mem::take(&mut self.queued);
        queued.retain_mut(|admission| {
            let Poll::Ready(outcome) = admission.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                return true;
            };
            if outcome.is_admitted() {
                self.admitted.push_back((outcome, self.now));
            } else {
                assert_eq!(outcome.cause(), Cause::Overload(0));
                self.stats.refused += 1;
                self.stats.reason.clone_from(&outcome.overload_notice().expect("a refusal has a notice").reason);
            }
            false
        });
        self.queued = queued;
    }

    fn advance_workers(&mut self, fails: bool) {
        while self.in_service.len() < WORKERS
            && let Some((outcome, since)) = self.admitted.pop_front()
        {
            self.in_service.push((outcome, since, SERVICE_STEPS));
        }
        let (now, stats) = (self.now, &mut self.stats);
        self.in_service.retain_mut(|(outcome, since, left)| {
            *left -= 1;
            let is_over = *left == 0 || fails;
            if is_over {
                outcome.record(if fails { Completion::Failed } else { Completion::Ok });
                stats.completed += 1;
                stats.times.push(now + 1 - *since);
            }
            !is_over
        });
    }
}

impl RunStats {
    /// Median of the concurrency limit; experiments lower it for short times.
    fn median_limit(&mut self) -> usize {
        self.limits.sort_unstable();
        self.limits[self.limits.len() / 2]
    }
}

#[test]
fn double_load_is_shed_and_admitted_requests_stay_fast() {
    let mut program = SimulatedServer::new();
    program.run(10, 800, false);
    let mut stats = program.run(10, 800, false);
    // 8,000 requests arrive; the server can complete 4,000.
    assert!(stats.completed >= 3_800, "{} completed", stats.completed);
    assert!((3_900..=4_200).contains(&stats.refused), "{} refused", stats.refused);
    stats.times.sort_unstable();
    let p99 = stats.times[stats.times.len() * 99 / 100];
    assert!(p99 <= 60, "p99 is {p99} ms; without queueing it would be {SERVICE_STEPS} ms");
    let limit = stats.median_limit();
    assert!((WORKERS..=5 * WORKERS).contains(&limit), "concurrency limit {limit}");
    assert!(stats.reason.starts_with("concurrency limit ") && stats.reason.contains(" average "), "{}", stats.reason);
    // The load drops: no request is refused any more.
    program.run(2, 200, false);
    let calm = program.run(10, 200, false);
    assert_eq!((calm.refused, calm.completed), (0, 2_000));
}

#[test]
fn failures_lower_the_concurrency_limit() {
    let mut program = SimulatedServer::new();
    let before = program.run(20, 360, false).median_limit();
    program.run(2, 800, true);
    let during = program.run(2, 800, true).median_limit();
    assert!(during < before, "limit {before} before, {during} after two seconds of failures");
}

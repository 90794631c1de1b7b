//! Simulated service with processor sharing behind a real gate, in simulated time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use sluicegate_adaptive::control_law::{Adjustment, ControlLaw, HostInfo, Observation};
use sluicegate_adaptive::readings::Readings;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::{Clock, ClockHandle, ManualClock};
use sluicegate_engine::overload::{Gate, GatePermit, Throughput};
use sluicegate_engine::rule::{Priority, Signal};
use sluicegate_testkit::random::SplitMix64;

const STEP: Duration = Duration::from_millis(1);
const STEPS_PER_TICK: u64 = 250;

/// The service. Every request takes `cost` core seconds; requests in flight share the cores evenly, at most
/// one core each.
pub(crate) struct SimulatedService {
    pub(crate) clock: ManualClock,
    pub(crate) gate: Gate,
    pub(crate) cores: f64,
    /// Core seconds per request.
    pub(crate) cost: f64,
    /// Arrivals per second.
    pub(crate) offered: f64,
    /// Cores used by other processes.
    pub(crate) other_cores: f64,
    in_flight: BinaryHeap<Reverse<Job>>,
    /// Service attained so far by a request present from the start.
    attained: f64,
    random: SplitMix64,
    next: f64,
    pub(crate) cpu_seconds: f64,
    used_before: f64,
    cpu: Option<f64>,
    steps: u64,
    pub(crate) completed: u64,
    pub(crate) refused: u64,
    /// CPU use of the last tick, without smoothing.
    pub(crate) cpu_of_tick: f64,
}

struct Job {
    done_at: f64,
    permit: GatePermit,
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Job {}
impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Job {
    fn cmp(&self, other: &Self) -> Ordering {
        self.done_at.total_cmp(&other.done_at)
    }
}

impl SimulatedService {
    pub(crate) fn new(cores: f64, cost: f64, seed: u64) -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_000));
        Self {
            gate: Gate::new(ClockHandle::new(clock.clone())),
            clock,
            cores,
            cost,
            offered: 0.0,
            other_cores: 0.0,
            in_flight: BinaryHeap::new(),
            attained: 0.0,
            random: SplitMix64::new(seed),
            next: 0.0,
            cpu_seconds: 0.0,
            used_before: 0.0,
            cpu: None,
            steps: 0,
            completed: 0,
            refused: 0,
            cpu_of_tick: 0.0,
        }
    }

    fn step(&mut self) {
        self.clock.advance(STEP);
        let seconds = STEP.as_secs_f64();
        self.next -= seconds * self.offered;
        while self.next <= 0.0 {
            self.next += self.random.exponential();
            // Half of the work is constant, half is random.
            let work = self.cost * (0.5 + 0.5 * self.random.exponential());
            match self.gate.try_enter(Priority::Normal) {
                Ok(permit) => self.in_flight.push(Reverse(Job { done_at: self.attained + work, permit })),
                Err(_) => self.refused += 1,
            }
        }
        let cores = (self.cores - self.other_cores).max(0.0);
        let mut remaining = seconds;
        while remaining > 0.0
            && let Some(Reverse(first)) = self.in_flight.peek()
        {
            let each = (cores / self.in_flight.len() as f64).min(1.0);
            let required = (first.done_at - self.attained) / each;
            let spent = required.min(remaining);
            self.attained += spent * each;
            self.cpu_seconds += spent * each * self.in_flight.len() as f64;
            remaining -= spent;
            if required <= spent {
                if let Some(Reverse(job)) = self.in_flight.pop() {
                    drop(job.permit);
                }
                self.completed += 1;
            }
        }
        self.steps += 1;
    }

    /// Advances by 250 ms and runs the law; `extra_signals` sets further signals.
    pub(crate) fn tick(
        &mut self,
        law: &mut dyn ControlLaw,
        extra_signals: &[(Signal, f64)],
    ) -> (Adjustment, Throughput) {
        (0..STEPS_PER_TICK).for_each(|_| self.step());
        let tick = STEPS_PER_TICK as f64 * STEP.as_secs_f64();
        let used = self.cpu_seconds - self.used_before + self.other_cores * tick;
        self.used_before = self.cpu_seconds;
        self.cpu_of_tick = used / tick / self.cores;
        // Smoothed as in production: a moving average over half a second.
        let weight = 1.0 - (-tick / 0.5).exp();
        self.cpu = Some(self.cpu.map_or(self.cpu_of_tick, |cpu| cpu + (self.cpu_of_tick - cpu) * weight));
        let throughput = self.gate.throughput();
        let mut readings = Readings::UNKNOWN.with_requests(&throughput);
        readings.set(Signal::Cpu, self.cpu);
        extra_signals.iter().for_each(|(signal, value)| readings.set(*signal, Some(*value)));
        let host = HostInfo { cores: Some(self.cores), cpu_seconds: Some(self.cpu_seconds) };
        let mut gate = self.gate.clone();
        let adjustment = law.step(&Observation { now: self.now(), throughput, readings: &readings, host }, &mut gate);
        self.gate.set_limits(adjustment.limits);
        self.gate.set_notice(adjustment.notice.clone());
        (adjustment, throughput)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}

//! Sluicegate's gate with its control law, in front of a simulated server.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use sluicegate_adaptive::concurrency::AutoConcurrency;
use sluicegate_adaptive::control_law::{ControlLaw, HostInfo, IntervalSource, Observation};
use sluicegate_adaptive::readings::Readings;
use sluicegate_engine::Timestamp;
use sluicegate_engine::overload::{AdmitResult, GateCore, Interval, WaitResult};
use sluicegate_engine::rule::{Auto, Priority};
use sluicegate_testkit::overload::{AdmissionPolicy, Class, PolicyDecision};

/// The gate and its control law.
pub(crate) struct SimulatedGate {
    core: GateCore<u32>,
    law: AutoConcurrency,
    /// Tickets of waiting requests, current and past.
    tickets: HashMap<u32, u64>,
    decisions: VecDeque<(u32, bool)>,
}

/// Converts simulation time; the gate's clock does not start at zero.
fn timestamp(now: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000_000 + now)
}

struct IntervalsAt<'a>(&'a mut GateCore<u32>, Timestamp);

impl IntervalSource for IntervalsAt<'_> {
    fn peek(&mut self) -> Interval {
        self.0.peek_interval(self.1)
    }

    fn take(&mut self) -> Interval {
        self.0.take_interval(self.1)
    }
}

impl SimulatedGate {
    /// Creates a rule with these bounds; the seed is for the jitter of the law.
    pub(crate) fn new(spec: Auto, seed: u64) -> Self {
        let law = AutoConcurrency::with_seed(spec, seed);
        let mut gate =
            Self { core: GateCore::new(timestamp(0)), law, tickets: HashMap::new(), decisions: VecDeque::new() };
        gate.step(0);
        gate
    }

    fn step(&mut self, now: u64) {
        let at = timestamp(now);
        let observation = Observation {
            now: at,
            throughput: self.core.throughput(at),
            readings: &Readings::UNKNOWN,
            host: HostInfo::default(),
        };
        let adjustment = self.law.step(&observation, &mut IntervalsAt(&mut self.core, at));
        self.core.set_limits(at, adjustment.limits);
        self.dispatch(now);
    }

    fn dispatch(&mut self, now: u64) {
        let decisions = &mut self.decisions;
        self.core.admit_waiting(timestamp(now), |id, result| {
            decisions.push_back((id, matches!(result, WaitResult::Admitted(_))));
        });
    }
}

impl AdmissionPolicy for SimulatedGate {
    fn on_arrival(&mut self, now: u64, id: u32, class: Class) -> PolicyDecision {
        let class = match class {
            Class::Background => Priority::Background,
            Class::Normal => Priority::Normal,
            Class::Vip => Priority::Vip,
        };
        match self.core.try_admit(timestamp(now), class, Some(id)) {
            AdmitResult::Enter => PolicyDecision::Admit,
            AdmitResult::Refused(_) => PolicyDecision::Refuse,
            AdmitResult::Wait { ticket, evicted } => {
                self.decisions.extend(evicted.map(|id| (id, false)));
                let max_wait = self.core.limits().queue.max_wait;
                let until = now + max_wait.as_nanos() as u64 + 1;
                self.tickets.insert(id, ticket);
                PolicyDecision::Wait { until }
            }
        }
    }

    fn on_complete(&mut self, now: u64, _: u32, elapsed: u64, in_time: bool) {
        self.core.finish(timestamp(now), Duration::from_nanos(elapsed), in_time);
        self.dispatch(now);
    }

    fn on_wait_timeout(&mut self, now: u64, id: u32) -> bool {
        self.tickets.remove(&id).is_some_and(|ticket| self.core.leave(timestamp(now), ticket))
    }

    fn next_released(&mut self) -> Option<(u32, bool)> {
        self.decisions.pop_front()
    }

    fn on_tick(&mut self, now: u64, _: f64) {
        self.step(now);
    }

    fn limit(&self) -> Option<f64> {
        self.core.limits().max_in_flight.map(|limit| limit as f64)
    }
}

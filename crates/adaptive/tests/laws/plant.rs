//! A service that shares its cores among all requests inside, behind a real gate, in simulated time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use sluicegate_adaptive::law::{Law, MachineFacts, Seen, Turn};
use sluicegate_adaptive::readings::Readings;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::{Clock, ClockHandle, ManualClock};
use sluicegate_engine::gate::{Gate, Pass, Passing};
use sluicegate_engine::rule::{Priority, Signal};

const STEP: Duration = Duration::from_millis(1);
const STEPS_PER_TICK: u64 = 250;

/// The service. Every request takes `cost` of a core; those inside share the cores evenly, one core each at most.
pub(crate) struct Plant {
    pub(crate) clock: ManualClock,
    pub(crate) gate: Gate,
    pub(crate) cores: f64,
    /// Seconds of a core that a request takes.
    pub(crate) cost: f64,
    /// Requests per second that come.
    pub(crate) offered: f64,
    /// Cores that somebody else uses.
    pub(crate) others: f64,
    inside: BinaryHeap<Reverse<Job>>,
    /// What a request that was there from the start would have got.
    attained: f64,
    random: u64,
    next: f64,
    pub(crate) cpu_seconds: f64,
    used_before: f64,
    cpu: Option<f64>,
    steps: u64,
    pub(crate) answered: u64,
    pub(crate) refused: u64,
    /// Of the last tick, without smoothing.
    pub(crate) cpu_of_tick: f64,
}

struct Job {
    done_at: f64,
    pass: Pass,
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

impl Plant {
    pub(crate) fn new(cores: f64, cost: f64, seed: u64) -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_000));
        Self {
            gate: Gate::new(ClockHandle::new(clock.clone())),
            clock,
            cores,
            cost,
            offered: 0.0,
            others: 0.0,
            inside: BinaryHeap::new(),
            attained: 0.0,
            random: seed,
            next: 0.0,
            cpu_seconds: 0.0,
            used_before: 0.0,
            cpu: None,
            steps: 0,
            answered: 0,
            refused: 0,
            cpu_of_tick: 0.0,
        }
    }

    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.chance()).ln()
    }

    fn step(&mut self) {
        self.clock.advance(STEP);
        let seconds = STEP.as_secs_f64();
        self.next -= seconds * self.offered;
        while self.next <= 0.0 {
            self.next += self.exponential();
            // Half of what a request takes is the same for all, half is chance.
            let work = self.cost * (0.5 + 0.5 * self.exponential());
            match self.gate.try_enter(Priority::Normal) {
                Ok(pass) => self.inside.push(Reverse(Job { done_at: self.attained + work, pass })),
                Err(_) => self.refused += 1,
            }
        }
        let cores = (self.cores - self.others).max(0.0);
        let mut left = seconds;
        while left > 0.0
            && let Some(Reverse(first)) = self.inside.peek()
        {
            let each = (cores / self.inside.len() as f64).min(1.0);
            let needs = (first.done_at - self.attained) / each;
            let spent = needs.min(left);
            self.attained += spent * each;
            self.cpu_seconds += spent * each * self.inside.len() as f64;
            left -= spent;
            if needs <= spent {
                if let Some(Reverse(job)) = self.inside.pop() {
                    drop(job.pass);
                }
                self.answered += 1;
            }
        }
        self.steps += 1;
    }

    /// Lets a quarter of a second pass and asks the law; `also` sets further signals.
    pub(crate) fn tick(&mut self, law: &mut dyn Law, also: &[(Signal, f64)]) -> (Turn, Passing) {
        (0..STEPS_PER_TICK).for_each(|_| self.step());
        let tick = STEPS_PER_TICK as f64 * STEP.as_secs_f64();
        let used = self.cpu_seconds - self.used_before + self.others * tick;
        self.used_before = self.cpu_seconds;
        self.cpu_of_tick = used / tick / self.cores;
        // As the machine is read: a moving average over half a second.
        let weight = 1.0 - (-tick / 0.5).exp();
        self.cpu = Some(self.cpu.map_or(self.cpu_of_tick, |cpu| cpu + (self.cpu_of_tick - cpu) * weight));
        let passing = self.gate.passing();
        let mut readings = Readings::UNKNOWN.with_requests(&passing);
        readings.set(Signal::Cpu, self.cpu);
        also.iter().for_each(|(signal, value)| readings.set(*signal, Some(*value)));
        let machine = MachineFacts { cores: Some(self.cores), cpu_seconds: Some(self.cpu_seconds) };
        let mut gate = self.gate.clone();
        let turn = law.turn(&Seen { now: self.now(), passing, readings: &readings, machine }, &mut gate);
        self.gate.order(turn.orders);
        self.gate.post(turn.notice.clone());
        (turn, passing)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn inside(&self) -> usize {
        self.inside.len()
    }
}

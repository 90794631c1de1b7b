//! A rate that keeps the CPU from being used up.
//!
//! What a request costs is measured: CPU time used, divided by requests done. So the rate that fills the CPU up to the
//! target is known at once, `cores x target / cost`, and need not be felt for, step by step, while the CPU is full.
//! What that leaves, because costs differ and others use the CPU too, a small correction makes up for: it moves
//! slowly towards the target, and never beyond a half or a quarter more.
//!
//! **What piled up** before it acted is known too: more are inside than that rate would leave there at the times of
//! calmer moments, while the CPU is full. They are worked off within a second or two, by letting in less, down to a
//! fifth, instead of at the full CPU for as long as that takes. Meanwhile the correction rests, or it would learn from a
//! mess of the past.
//!
//! **When it acts.** While more than `above` of the CPU is used, or hardly a moment passes in which no work waits for
//! a CPU, or a quota runs out in one period of four. At once, if a tick was full and more arrives than all cores can do:
//! every moment of waiting for surer signs piles up work for several. It ends when it has refused nobody for a second and none of that
//! is so: then it made no difference. Or when much less than the target is used for two seconds: then it only
//! refused lumps.
//!
//! **CPU that others use** is taken off what there is, but half of the target always remains: whoever takes all that
//! is there would otherwise be given all of it.
//!
//! **Without counts of cores or CPU time** the present is scaled: what is answered now, times target by used.
//!
//! ```
//! use sluicegate_adaptive::{cpu::CpuLaw, law::{Law, MachineFacts, Seen}, readings::Readings};
//! use sluicegate_engine::{Timestamp, gate::{Gate, Passing}, rule::{CpuGuard, Signal}};
//!
//! let mut law = CpuLaw::new(CpuGuard { target: 0.8, above: 0.85 });
//! let mut readings = Readings::UNKNOWN;
//! readings.set(Signal::Cpu, Some(1.0));
//! let passing = Passing { arrivals: 500.0, answers: 100.0, ..Passing::default() };
//! let (now, machine) = (Timestamp::ZERO, MachineFacts::default());
//! let turn = law.turn(&Seen { now, passing, readings: &readings, machine }, &mut Gate::default());
//! assert_eq!(turn.notice.reason, "cpu 100% > 85%: at most 80 per 1s");
//! ```

mod cost;

use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::gate::{Height, Lap, Notice, Orders, Passing};
use sluicegate_engine::rule::{CpuGuard, Signal, SignalUnit};

use crate::law::{Laps, Law, MachineFacts, Seen, Turn};
use crate::readings::Readings;
use crate::words;
use cost::{Costs, Tick, Told};

const SIGNALS: [Signal; 3] = [Signal::Cpu, Signal::CpuPressure, Signal::CpuThrottled];

/// The share of time in which work waited for a CPU that means strain, and the one that means its end. High: with
/// two cores, somebody waits half of the time at three quarters of use already.
const PRESSED: (f64, f64) = (0.9, 0.7);
/// The share of periods in which the quota ran out, likewise.
const THROTTLED: (f64, f64) = (0.25, 0.1);
/// How quickly the correction moves: by so much per second if the CPU is off by all of it.
const GAIN: f64 = 0.2;
/// The correction stays within these.
const LEAST_TRIM: f64 = 0.5;
const MOST_TRIM: f64 = 1.25;
/// How far off the target the CPU is taken to be while it is short for other reasons.
const SHORT: f64 = 0.1;
/// The part of the target that others cannot take away.
const LEAST_SHARE: f64 = 0.5;
/// The part of the rate that is let in at least while what piled up is worked off.
const LEAST_WHILE_DRAINING: f64 = 0.2;
/// Less than this part of a second's rate comes and goes by chance, and has not piled up.
const BY_CHANCE: f64 = 0.2;
/// How much a calm tick weighs in the times of calm moments.
const CALM_WEIGHT: f64 = 0.1;
/// So far below the target, and for so long, the guard is not needed whatever it refuses.
const WELL_BELOW: f64 = 0.15;
const WELL_BELOW_FOR: Duration = Duration::from_secs(2);
/// A reading that has stayed the same for so long is one.
const UNCHANGED: Duration = Duration::from_secs(1);

/// The law of a [`CpuGuard`].
#[derive(Debug)]
pub struct CpuLaw {
    rule: CpuGuard,
    costs: Costs,
    last: Option<(Timestamp, f64)>,
    trim: f64,
    state: State,
    /// The response time while there is CPU to spare, in seconds.
    calm_time: Option<f64>,
    /// The cores used in the last tick.
    used: Option<f64>,
}

/// A rate and what it was worked out from.
#[derive(Clone, Copy, Debug)]
struct Worked {
    per_second: f64,
    /// Requests inside that piled up, in parts of a second's rate.
    piled_up: f64,
    from: Option<(Told, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing holds.
    Closed,
    /// A rate holds; `below`: since when much less than the target has been used.
    Limited { below: Option<Timestamp> },
}

/// What the signals say.
#[derive(Clone, Copy, Debug)]
struct Signs {
    cpu: Option<f64>,
    pressure: Option<f64>,
    throttled: Option<f64>,
}

impl Signs {
    fn of(readings: &Readings) -> Self {
        Self {
            cpu: readings.get(Signal::Cpu),
            pressure: readings.get(Signal::CpuPressure),
            throttled: readings.get(Signal::CpuThrottled),
        }
    }

    /// Work waits for a CPU or a quota runs out; `entering`: by the higher values.
    fn is_short(&self, entering: bool) -> bool {
        let beyond = |reading: Option<f64>, (enter, exit): (f64, f64)| {
            reading.is_some_and(|reading| reading > if entering { enter } else { exit })
        };
        beyond(self.pressure, PRESSED) || beyond(self.throttled, THROTTLED)
    }
}

impl CpuLaw {
    /// The law of this guard.
    pub fn new(rule: CpuGuard) -> Self {
        Self { rule, costs: Costs::default(), last: None, trim: 1.0, state: State::Closed, calm_time: None, used: None }
    }

    /// Whether the time that was used has been read anew. Where nothing is used it stays the same.
    fn is_news(&self, seen: &Seen<'_>) -> bool {
        let Some((at, seconds)) = self.last else { return true };
        seen.machine.cpu_seconds != Some(seconds) || seen.now - at >= UNCHANGED
    }

    /// Notes what was used and done since the last reading. Answers how long that was, in seconds.
    fn note(&mut self, seen: &Seen<'_>, cpu: Option<f64>, lap: &Lap) -> f64 {
        let Seen { now, machine, passing, .. } = *seen;
        let last = self.last;
        self.used = None;
        self.last = machine.cpu_seconds.map(|seconds| (now, seconds));
        let lasted = lap.lasted.as_secs_f64();
        let (Some((before, used_before)), Some(used)) = (last, machine.cpu_seconds) else { return lasted };
        let seconds = (now - before).as_secs_f64();
        if seconds <= 0.0 || used < used_before {
            return lasted;
        }
        let finished = lap.answered + lap.failed;
        // Of requests that nobody tells the end of, those that were let in are all that is known. They are never inside.
        let untimed = finished == 0 && passing.in_flight == 0;
        let done = if untimed { lap.arrived.saturating_sub(lap.refused) } else { finished };
        let used = used - used_before;
        self.used = Some(used / seconds);
        let all = cpu.zip(machine.cores).map(|(share, cores)| share * cores);
        let others = all.map_or(0.0, |all| all - used / seconds);
        let tick = Tick { lasted: seconds, cpu: used, done: done as f64, others };
        self.costs.note(tick, passing.in_flight as f64);
        seconds
    }

    /// Whether the last tick was full, and more arrives than all cores can do.
    fn is_overrun(&self, machine: MachineFacts, passing: &Passing) -> bool {
        let (Some(used), Some(cores), Some(told)) = (self.used, machine.cores, self.costs.told()) else { return false };
        used > self.rule.above * cores && passing.arrivals * told.cost > cores
    }

    fn next_state(&self, seen: &Seen<'_>, signs: Signs) -> State {
        let Seen { now, passing, machine, .. } = *seen;
        let above = signs.cpu.is_some_and(|cpu| cpu > self.rule.above);
        match self.state {
            State::Closed if above || signs.is_short(true) || self.is_overrun(machine, &passing) => {
                State::Limited { below: None }
            }
            State::Closed => State::Closed,
            State::Limited { below } => {
                let well_below = signs.cpu.is_some_and(|cpu| cpu < self.rule.target - WELL_BELOW);
                let below = (well_below && !signs.is_short(false)).then(|| below.unwrap_or(now));
                let idle = passing.refusals <= 0.0 && !above && !signs.is_short(false);
                if idle || below.is_some_and(|since| now - since >= WELL_BELOW_FOR) {
                    State::Closed
                } else {
                    State::Limited { below }
                }
            }
        }
    }

    /// Moves the correction a little towards the target.
    fn correct(&mut self, signs: Signs, refuses: bool, seconds: f64) {
        let Some(cpu) = signs.cpu else { return };
        let mut off = self.rule.target - cpu;
        if signs.is_short(false) {
            off = off.min(-SHORT);
        }
        // What is used while nobody is refused says nothing about a rate that is too low.
        if off > 0.0 && !refuses {
            return;
        }
        self.trim = (self.trim + GAIN * off * seconds.min(1.0)).clamp(LEAST_TRIM, MOST_TRIM);
    }

    /// Remembers how long requests take while there is CPU to spare. While a rate holds, only what is shorter: some
    /// of those that are answered then had piled up.
    fn remember_calm(&mut self, signs: Signs, passing: &Passing) {
        let Some(time) = passing.average.filter(|_| signs.cpu.is_some_and(|cpu| cpu < self.rule.above)) else { return };
        let calm = self.calm_time.unwrap_or(time);
        self.calm_time = Some(match self.state {
            State::Closed => calm + (time - calm) * CALM_WEIGHT,
            State::Limited { .. } => calm.min(time),
        });
    }

    /// The rate that fills the CPU up to the target.
    fn work_out(&self, machine: MachineFacts, signs: Signs, passing: &Passing) -> Option<Worked> {
        let measured = self.costs.told().zip(machine.cores).filter(|(_, cores)| *cores > 0.0);
        let Some((told, cores)) = measured else {
            let cpu = signs.cpu.filter(|cpu| *cpu > 0.0)?;
            let per_second = passing.answers * self.rule.target / cpu * self.trim;
            return (per_second > 0.0).then_some(Worked { per_second, piled_up: 0.0, from: None });
        };
        let target = cores * self.rule.target;
        let room = (target - told.others).max(target * LEAST_SHARE);
        let per_second = room / told.cost * self.trim;
        let usual = self.calm_time.map(|time| per_second * time);
        let more = usual.map_or(0.0, |usual| (passing.in_flight as f64 - usual) / per_second);
        // Who is inside while there is CPU to spare waits for something else.
        let full = signs.cpu.is_some_and(|cpu| cpu > self.rule.above) || self.is_overrun(machine, passing);
        let piled_up = if full && more > BY_CHANCE { more } else { 0.0 };
        let per_second = per_second * (1.0 - piled_up).max(LEAST_WHILE_DRAINING);
        Some(Worked { per_second, piled_up, from: Some((told, cores)) })
    }

    fn why(&self, signs: Signs) -> String {
        let limits = [self.rule.above, PRESSED.0, THROTTLED.0];
        let values = [signs.cpu, signs.pressure, signs.throttled];
        let mut told = Vec::new();
        for ((signal, value), limit) in SIGNALS.into_iter().zip(values).zip(limits) {
            if let Some(value) = value.filter(|value| *value > limit || signal == Signal::Cpu) {
                let sign = if value > limit { format!(" > {}", signal.written(limit)) } else { String::new() };
                told.push(format!("{} {}{sign}", signal.name(), signal.written(value)));
            }
        }
        told.join(", ")
    }
}

impl Law for CpuLaw {
    fn turn(&mut self, seen: &Seen<'_>, laps: &mut dyn Laps) -> Turn {
        let Seen { passing, readings, machine, .. } = *seen;
        let signs = Signs::of(readings);
        // The machine is read less often than this is asked: what was used is only told by two readings.
        let seconds = if self.is_news(seen) { self.note(seen, signs.cpu, &laps.take()) } else { 0.0 };
        self.remember_calm(signs, &passing);
        let was = self.state;
        self.state = self.next_state(seen, signs);
        let worked = match self.state {
            State::Limited { .. } => self.work_out(machine, signs, &passing),
            State::Closed => None,
        };
        if was == State::Closed {
            // Others' work of an hour ago is no reason to begin low.
            self.trim = 1.0;
        } else if worked.is_none_or(|worked| worked.piled_up <= 0.0) {
            self.correct(signs, passing.refusals > 0.0, seconds);
        }
        let height = worked.map(|worked| Height { count: worked.per_second.max(1.0), window: Duration::from_secs(1) });
        let values = SIGNALS.map(|signal| (signal, readings.get(signal)));
        let (state, reason) = match (self.state, height, worked) {
            (State::Closed, ..) if readings.is_unreadable(Signal::Cpu) => ("closed", "cpu cannot be read".to_owned()),
            (State::Closed, ..) => ("closed", String::new()),
            (State::Limited { .. }, Some(height), Some(Worked { from: Some((told, cores)), .. })) => {
                let cost = SignalUnit::Seconds.written(told.cost);
                let of = format!("a request takes {cost} of {} cores", SignalUnit::Number.written(cores));
                ("limited", format!("{}, {of}: {}", self.why(signs), words::at_most(height)))
            }
            (State::Limited { .. }, Some(height), _) => {
                ("limited", format!("{}: {}", self.why(signs), words::at_most(height)))
            }
            // Nobody is held back by a rate that is not known.
            (State::Limited { .. }, None, _) => {
                ("learning", format!("{}, but nothing is known yet of what requests cost", self.why(signs)))
            }
        };
        let notice = Notice { state, reason, readings: values.into() };
        Turn { orders: Orders { rate: height, ..Orders::OPEN }, notice }
    }
}

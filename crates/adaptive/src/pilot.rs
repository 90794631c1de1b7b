//! Turns the gates of a sluice's rules, several times a second.
//!
//! Every tick the machine is read once, and all laws see the same readings. Laws belong to a rule's name and
//! protection: a rule that is replaced by one with the same protection goes on with what its law has learned.
//!
//! ```
//! use sluicegate_adaptive::pilot::Pilot;
//! use sluicegate_adaptive::signals::Machine;
//! use sluicegate_engine::{Sluice, rule::{Adaptive, Auto, Request, Rule}};
//!
//! let mut guard = Rule::new("guard", []);
//! guard.adaptive = Some(Adaptive::Auto(Auto { least: 1, start: 1, ..Auto::default() }));
//! let sluice = Sluice::builder().rule(guard).build()?;
//! let mut pilot = Pilot::new(&sluice, Machine::new());
//! assert!(pilot.tick());
//!
//! let inside = sluice.decide(&Request::new("GET", "/"));
//! assert!(inside.is_admitted());
//! assert!(!sluice.decide(&Request::new("GET", "/")).is_admitted());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::gate::Gate;
use sluicegate_engine::rule::{Adaptive, Rule};
use sluicegate_engine::sluice::WeakSluice;
use sluicegate_engine::{Sluice, Timestamp};

use crate::auto::AutoLaw;
use crate::conditions::Strain;
use crate::cpu::CpuLaw;
use crate::law::{Law, MachineFacts, Seen, Turn};
use crate::readings::Readings;
use crate::signals::Machine;

/// How often gates are turned.
pub const TICK: Duration = Duration::from_millis(50);
/// How often the machine is read.
pub const READ_EVERY: Duration = Duration::from_millis(250);

/// Turns gates. See the [module's head](self).
pub struct Pilot {
    sluice: WeakSluice,
    machine: Machine,
    steered: HashMap<String, Steered>,
    /// The set of rules the laws were made for.
    edition: Option<u64>,
    readings: Readings,
    facts: MachineFacts,
    read_at: Option<Timestamp>,
    shown: Arc<Mutex<Readings>>,
}

/// A gate with its law.
struct Steered {
    adaptive: Adaptive,
    gate: Gate,
    law: Box<dyn Law>,
    /// What was last said about it, to be told of changes.
    state: &'static str,
}

impl Pilot {
    /// For the rules of this sluice, whatever they will be. The sluice is not kept alive.
    pub fn new(sluice: &Sluice, machine: Machine) -> Self {
        Self {
            sluice: sluice.downgrade(),
            machine,
            steered: HashMap::new(),
            edition: None,
            readings: Readings::UNKNOWN,
            facts: MachineFacts::default(),
            read_at: None,
            shown: Arc::default(),
        }
    }

    /// Turns all gates once. Answers whether the sluice is still there.
    pub fn tick(&mut self) -> bool {
        let Some(sluice) = self.sluice.upgrade() else { return false };
        if self.edition != Some(sluice.edition()) {
            self.take_up(&sluice);
        }
        let now = sluice.clock().now();
        if self.read_at.is_none_or(|at| now - at >= READ_EVERY) {
            self.read_at = Some(now);
            self.readings = self.machine.read(now);
            self.facts = MachineFacts { cores: self.machine.cores(), cpu_seconds: self.machine.cpu_seconds() };
            *self.shown.lock() = self.readings;
        }
        for (name, steered) in &mut self.steered {
            steered.turn(name, now, &self.readings, self.facts);
        }
        true
    }

    /// Makes laws for rules that are new, and keeps those of rules that have stayed the same.
    fn take_up(&mut self, sluice: &Sluice) {
        // Asked first: if rules are replaced meanwhile, the next tick finds out.
        self.edition = Some(sluice.edition());
        let mut before = std::mem::take(&mut self.steered);
        for (Rule { name, adaptive, .. }, gate) in sluice.gates() {
            let Some(adaptive) = adaptive else { continue };
            let kept = before.remove(&name).filter(|steered| steered.adaptive == adaptive && steered.gate.is(&gate));
            let steered = kept.unwrap_or_else(|| Steered::new(adaptive, gate));
            self.steered.insert(name, steered);
        }
    }

    /// Goes on by itself, on a thread of its own, for as long as somebody keeps the sluice.
    pub fn spawn(mut self) -> io::Result<Steering> {
        let readings = Arc::clone(&self.shown);
        thread::Builder::new().name("sluicegate-adaptive".to_owned()).spawn(move || {
            while self.tick() {
                thread::sleep(self.pause());
            }
        })?;
        Ok(Steering { readings })
    }

    /// Without gates there is nothing to turn: the rules are looked at now and then.
    fn pause(&self) -> Duration {
        if self.steered.is_empty() { READ_EVERY } else { TICK }
    }
}

impl std::fmt::Debug for Pilot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pilot").field("rules", &self.steered.keys()).finish_non_exhaustive()
    }
}

impl Steered {
    fn new(adaptive: Adaptive, gate: Gate) -> Self {
        let law: Box<dyn Law> = match &adaptive {
            Adaptive::Ceiling(ceiling) => Box::new(Strain::new(ceiling.clone())),
            Adaptive::Auto(auto) => Box::new(AutoLaw::new(*auto)),
            Adaptive::Cpu(guard) => Box::new(CpuLaw::new(*guard)),
        };
        Self { adaptive, gate, law, state: "" }
    }

    fn turn(&mut self, name: &str, now: Timestamp, readings: &Readings, machine: MachineFacts) {
        let passing = self.gate.passing();
        let readings = readings.with_requests(&passing);
        let seen = Seen { now, passing, readings: &readings, machine };
        let Turn { orders, notice } = self.law.turn(&seen, &mut self.gate.clone());
        if self.state != notice.state {
            // What tunes itself changes its mind all the time.
            let (state, reason) = (notice.state, &notice.reason);
            match self.adaptive {
                Adaptive::Auto(_) => tracing::debug!(rule = name, state, reason, "places"),
                Adaptive::Ceiling(_) | Adaptive::Cpu(_) => tracing::info!(rule = name, state, reason, "strain"),
            }
            self.state = notice.state;
        }
        self.gate.order(orders);
        self.gate.post(notice);
    }
}

/// A pilot at work, to look over its shoulder. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Steering {
    readings: Arc<Mutex<Readings>>,
}

impl Steering {
    /// What was last read of the machine.
    pub fn readings(&self) -> Readings {
        *self.readings.lock()
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::clock::ManualClock;
    use sluicegate_engine::rule::{Ceiling, Comparison, Condition, Lists, Most, Signal};

    use super::*;

    /// Holds on every machine: some memory is always used.
    fn rules(count: u64) -> Vec<Rule> {
        let used = Condition::new(Signal::Memory, Comparison::Above, 0.0);
        let mut rule = Rule::new("overload", []);
        let most = Most::Rate { count, window: Duration::from_secs(1) };
        rule.adaptive = Some(Adaptive::Ceiling(Ceiling::new([used], most)));
        vec![rule]
    }

    #[test]
    fn what_was_learned_goes_on_with_the_same_protection_and_only_with_that() {
        let clock = ManualClock::new();
        let sluice = Sluice::builder().rules(rules(5)).clock(clock.clone()).build().expect("good rules");
        let mut pilot = Pilot::new(&sluice, Machine::new());
        let state = || sluice.gates()[0].1.notice().state;
        let mut tick = || {
            assert!(pilot.tick());
            state()
        };
        assert_eq!(tick(), "entering");
        clock.advance(Duration::from_secs(1));
        assert_eq!(tick(), "limited");
        sluice.replace(rules(5), Lists::default()).expect("good rules");
        assert_eq!(tick(), "limited");
        sluice.replace(rules(6), Lists::default()).expect("good rules");
        assert_eq!(tick(), "entering");
    }

    #[test]
    fn it_ends_with_the_sluice() {
        let sluice = Sluice::builder().build().expect("no rules are good rules");
        let mut pilot = Pilot::new(&sluice, Machine::new());
        assert!(pilot.tick());
        drop(sluice);
        assert!(!pilot.tick());
    }
}

//! Control loop that sets the overload gates of a sluice's rules, several times a second.
//!
//! Every tick the host is read once, and all control laws see the same readings. A control law belongs to a
//! rule's name and protection: if a rule is replaced by one with the same protection, the law keeps its state.
//!
//! ```
//! use sluicegate_adaptive::controller::ControlLoop;
//! use sluicegate_adaptive::signals::HostSignals;
//! use sluicegate_engine::{Sluice, rule::{Adaptive, Auto, Request, Rule}};
//!
//! let mut guard = Rule::new("guard", []);
//! guard.adaptive = Some(Adaptive::Auto(Auto { min: 1, start: 1, ..Auto::default() }));
//! let sluice = Sluice::builder().rule(guard).build()?;
//! let mut control_loop = ControlLoop::new(&sluice, HostSignals::new());
//! assert!(control_loop.tick());
//!
//! let in_flight = sluice.decide(&Request::new("GET", "/"));
//! assert!(in_flight.is_admitted());
//! assert!(!sluice.decide(&Request::new("GET", "/")).is_admitted());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::overload::Gate;
use sluicegate_engine::rule::{Adaptive, Rule};
use sluicegate_engine::sluice::WeakSluice;
use sluicegate_engine::{Sluice, Timestamp};

use crate::concurrency::AutoConcurrency;
use crate::conditions::ThresholdLaw;
use crate::control_law::{Adjustment, ControlLaw, HostInfo, Observation};
use crate::cpu::CpuLimiter;
use crate::readings::Readings;
use crate::signals::HostSignals;

/// Interval at which control laws run.
pub const TICK_INTERVAL: Duration = Duration::from_millis(50);
/// Interval at which the host is read.
pub const READ_INTERVAL: Duration = Duration::from_millis(250);

/// Runs the control laws. See the [module documentation](self).
pub struct ControlLoop {
    sluice: WeakSluice,
    host: HostSignals,
    controllers: HashMap<String, RuleController>,
    /// Generation of the rules that the controllers were created for.
    generation: Option<u64>,
    readings: Readings,
    host_info: HostInfo,
    read_at: Option<Timestamp>,
    published: Arc<Mutex<Readings>>,
}

/// A gate with its control law.
struct RuleController {
    adaptive: Adaptive,
    gate: Gate,
    law: Box<dyn ControlLaw>,
    /// Last reported state, to log changes.
    state: &'static str,
}

impl ControlLoop {
    /// Creates the loop for the current and future rules of this sluice. The sluice is not kept alive.
    pub fn new(sluice: &Sluice, host: HostSignals) -> Self {
        Self {
            sluice: sluice.downgrade(),
            host,
            controllers: HashMap::new(),
            generation: None,
            readings: Readings::UNKNOWN,
            host_info: HostInfo::default(),
            read_at: None,
            published: Arc::default(),
        }
    }

    /// Runs all control laws once. Returns false once the sluice has been dropped.
    pub fn tick(&mut self) -> bool {
        let Some(sluice) = self.sluice.upgrade() else { return false };
        if self.generation != Some(sluice.generation()) {
            self.update_controllers(&sluice);
        }
        let now = sluice.clock().now();
        if self.read_at.is_none_or(|at| now - at >= READ_INTERVAL) {
            self.read_at = Some(now);
            self.readings = self.host.read(now);
            self.host_info = HostInfo { cores: self.host.cores(), cpu_seconds: self.host.cpu_seconds() };
            *self.published.lock() = self.readings;
        }
        for (name, controller) in &mut self.controllers {
            controller.step(name, now, &self.readings, self.host_info);
        }
        true
    }

    /// Creates control laws for new rules, and keeps those of unchanged rules.
    fn update_controllers(&mut self, sluice: &Sluice) {
        // Read first: if rules are replaced concurrently, the next tick detects it.
        self.generation = Some(sluice.generation());
        let mut before = std::mem::take(&mut self.controllers);
        for (Rule { name, adaptive, .. }, gate) in sluice.gates() {
            let Some(adaptive) = adaptive else { continue };
            let retained = before
                .remove(&name)
                .filter(|controller| controller.adaptive == adaptive && controller.gate.ptr_eq(&gate));
            let controller = retained.unwrap_or_else(|| RuleController::new(adaptive, gate));
            self.controllers.insert(name, controller);
        }
    }

    /// Runs the loop on its own thread for as long as the sluice is alive.
    pub fn spawn(mut self) -> io::Result<ControlLoopHandle> {
        let readings = Arc::clone(&self.published);
        thread::Builder::new().name("sluicegate-adaptive".to_owned()).spawn(move || {
            while self.tick() {
                thread::sleep(self.tick_interval());
            }
        })?;
        Ok(ControlLoopHandle { readings })
    }

    /// Without gates only the rules are checked, less often.
    fn tick_interval(&self) -> Duration {
        if self.controllers.is_empty() { READ_INTERVAL } else { TICK_INTERVAL }
    }
}

impl std::fmt::Debug for ControlLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlLoop").field("rules", &self.controllers.keys()).finish_non_exhaustive()
    }
}

impl RuleController {
    fn new(adaptive: Adaptive, gate: Gate) -> Self {
        let law: Box<dyn ControlLaw> = match &adaptive {
            Adaptive::Ceiling(ceiling) => Box::new(ThresholdLaw::new(ceiling.clone())),
            Adaptive::Auto(auto) => Box::new(AutoConcurrency::new(*auto)),
            Adaptive::Cpu(guard) => Box::new(CpuLimiter::new(*guard)),
        };
        Self { adaptive, gate, law, state: "" }
    }

    fn step(&mut self, name: &str, now: Timestamp, readings: &Readings, host: HostInfo) {
        let throughput = self.gate.throughput();
        let readings = readings.with_requests(&throughput);
        let observation = Observation { now, throughput, readings: &readings, host };
        let Adjustment { limits, notice } = self.law.step(&observation, &mut self.gate.clone());
        if self.state != notice.state {
            // The self-tuning limit changes state often.
            let (state, reason) = (notice.state, &notice.reason);
            match self.adaptive {
                Adaptive::Auto(_) => tracing::debug!(rule = name, state, reason, "concurrency limit state changed"),
                Adaptive::Ceiling(_) | Adaptive::Cpu(_) => {
                    tracing::info!(rule = name, state, reason, "overload state changed");
                }
            }
            self.state = notice.state;
        }
        self.gate.set_limits(limits);
        self.gate.set_notice(notice);
    }
}

/// Handle of a running control loop. Dropping it has no effect.
#[derive(Clone, Debug)]
pub struct ControlLoopHandle {
    readings: Arc<Mutex<Readings>>,
}

impl ControlLoopHandle {
    /// Returns the last readings of the host.
    pub fn readings(&self) -> Readings {
        *self.readings.lock()
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::clock::ManualClock;
    use sluicegate_engine::rule::{Cap, Ceiling, Comparison, Condition, Lists, Signal};

    use super::*;

    /// Holds on every host: some memory is always used.
    fn rules(count: u64) -> Vec<Rule> {
        let used = Condition::new(Signal::Memory, Comparison::Above, 0.0);
        let mut rule = Rule::new("overload", []);
        let cap = Cap::Rate { count, window: Duration::from_secs(1) };
        rule.adaptive = Some(Adaptive::Ceiling(Ceiling::new([used], cap)));
        vec![rule]
    }

    #[test]
    fn state_is_retained_only_for_an_unchanged_protection() {
        let clock = ManualClock::new();
        let sluice = Sluice::builder().rules(rules(5)).clock(clock.clone()).build().expect("valid rules");
        let mut control_loop = ControlLoop::new(&sluice, HostSignals::new());
        let state = || sluice.gates()[0].1.notice().state;
        let mut tick = || {
            assert!(control_loop.tick());
            state()
        };
        assert_eq!(tick(), "entering");
        clock.advance(Duration::from_secs(1));
        assert_eq!(tick(), "limited");
        sluice.replace(rules(5), Lists::default()).expect("valid rules");
        assert_eq!(tick(), "limited");
        sluice.replace(rules(6), Lists::default()).expect("valid rules");
        assert_eq!(tick(), "entering");
    }

    #[test]
    fn tick_returns_false_after_the_sluice_is_dropped() {
        let sluice = Sluice::builder().build().expect("an empty rule set is valid");
        let mut control_loop = ControlLoop::new(&sluice, HostSignals::new());
        assert!(control_loop.tick());
        drop(sluice);
        assert!(!control_loop.tick());
    }
}

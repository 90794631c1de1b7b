//! The control law interface: observation in, gate limits out.

use sluicegate_engine::Timestamp;
use sluicegate_engine::overload::{Gate, GateLimits, Interval, OverloadNotice, Throughput};

use crate::readings::Readings;

/// Computes the limits of a gate. Called at every tick.
pub trait ControlLaw: Send {
    /// Returns the limits that apply from now on, with the reason.
    fn step(&mut self, observation: &Observation<'_>, intervals: &mut dyn IntervalSource) -> Adjustment;
}

/// Input of a control law.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// Current time.
    pub now: Timestamp,
    /// Throughput of the gate in the last second.
    pub throughput: Throughput,
    /// All signals, read at the same time.
    pub readings: &'a Readings,
    /// Further information about the host.
    pub host: HostInfo,
}

/// Host information in addition to signals; `None` if it could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostInfo {
    /// Cores this process may use.
    pub cores: Option<f64>,
    /// CPU time used so far by its cgroup, or by the process if it is in none, in seconds.
    pub cpu_seconds: Option<f64>,
}

/// Measurement intervals of a gate, as long as the control law needs.
pub trait IntervalSource {
    /// Returns the current interval so far.
    fn peek(&mut self) -> Interval;
    /// Ends the current interval and begins the next.
    fn take(&mut self) -> Interval;
}

impl IntervalSource for Gate {
    fn peek(&mut self) -> Interval {
        self.peek_interval()
    }

    fn take(&mut self) -> Interval {
        self.take_interval()
    }
}

/// Output of a control law.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjustment {
    /// Limits that apply from now on.
    pub limits: GateLimits,
    /// Reason for the limits.
    pub notice: OverloadNotice,
}

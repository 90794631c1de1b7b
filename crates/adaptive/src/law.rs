//! What turns a gate.

use sluicegate_engine::Timestamp;
use sluicegate_engine::gate::{Gate, Lap, Notice, Orders, Passing};

use crate::readings::Readings;

/// Decides what a gate is ordered to. Asked at every tick.
pub trait Law: Send {
    /// What is to hold from now on, and why.
    fn turn(&mut self, seen: &Seen<'_>, laps: &mut dyn Laps) -> Turn;
}

/// What a law is shown.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The present moment.
    pub now: Timestamp,
    /// The last second at the gate.
    pub passing: Passing,
    /// All signals, read in one go.
    pub readings: &'a Readings,
    /// What is known of the machine besides.
    pub machine: MachineFacts,
}

/// What is known of the machine besides its signals; `None`: it could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineFacts {
    /// The cores this process may use.
    pub cores: Option<f64>,
    /// The CPU time used so far by its control group, or by itself where it is in none, in seconds.
    pub cpu_seconds: Option<f64>,
}

/// What passed a gate in laps as long as its law wants them.
pub trait Laps {
    /// The lap so far.
    fn look(&mut self) -> Lap;
    /// Ends the lap and begins the next.
    fn take(&mut self) -> Lap;
}

impl Laps for Gate {
    fn look(&mut self) -> Lap {
        self.look_at_lap()
    }

    fn take(&mut self) -> Lap {
        self.take_lap()
    }
}

/// What a law answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What holds from now on.
    pub orders: Orders,
    /// Why.
    pub notice: Notice,
}

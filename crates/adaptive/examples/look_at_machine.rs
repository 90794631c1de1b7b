//! What rules that protect a process see of the machine it runs on, and what a look at it takes.
//!
//! ```text
//! cargo run --release -p sluicegate-adaptive --example look_at_machine
//! ```

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::thread;
use std::time::{Duration, Instant};

use sluicegate_adaptive::pilot::READ_EVERY;
use sluicegate_adaptive::readings::Reading;
use sluicegate_adaptive::signals::Machine;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::rule::Signal;

const LOOKS: usize = 20;

fn main() {
    let clock = ClockHandle::system();
    let mut machine = Machine::new();
    let mut took = Vec::with_capacity(LOOKS);
    let mut readings = machine.read(clock.now());
    for _ in 0..LOOKS {
        thread::sleep(READ_EVERY / 5);
        let began = Instant::now();
        readings = machine.read(clock.now());
        took.push(began.elapsed());
    }
    for signal in Signal::ALL.into_iter().filter(|signal| !signal.is_of_requests()) {
        let told = match readings.known(signal) {
            Reading::Value(value) => signal.written(value),
            Reading::NotYet => "not known yet".to_owned(),
            Reading::Unreadable => "cannot be read".to_owned(),
        };
        println!("{:14} {told}", signal.name());
    }
    if let Some(cores) = machine.cores() {
        println!("{:14} {cores}", "cores");
    }
    took.sort_unstable();
    let micros = |took: &Duration| took.as_micros();
    println!("a look takes {} us, the quickest {} us", micros(&took[LOOKS / 2]), micros(&took[0]));
}

//! Prints the host signals that adaptive rules read, and the time one reading takes.
//!
//! ```text
//! cargo run --release -p sluicegate-adaptive --example read_signals
//! ```

#![allow(clippy::print_stdout, reason = "output for the user")]

use std::thread;
use std::time::{Duration, Instant};

use sluicegate_adaptive::controller::READ_INTERVAL;
use sluicegate_adaptive::readings::Reading;
use sluicegate_adaptive::signals::HostSignals;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::rule::Signal;

const SAMPLES: usize = 20;

fn main() {
    let clock = ClockHandle::system();
    let mut host = HostSignals::new();
    let mut durations = Vec::with_capacity(SAMPLES);
    let mut readings = host.read(clock.now());
    for _ in 0..SAMPLES {
        thread::sleep(READ_INTERVAL / 5);
        let started = Instant::now();
        readings = host.read(clock.now());
        durations.push(started.elapsed());
    }
    for signal in Signal::ALL.into_iter().filter(|signal| !signal.is_per_rule()) {
        let text = match readings.reading(signal) {
            Reading::Value(value) => signal.format(value),
            Reading::NotYet => "not known yet".to_owned(),
            Reading::Unreadable => "cannot be read".to_owned(),
        };
        println!("{:14} {text}", signal.name());
    }
    if let Some(cores) = host.cores() {
        println!("{:14} {cores}", "cores");
    }
    durations.sort_unstable();
    let micros = |duration: &Duration| duration.as_micros();
    println!(
        "one reading takes {} us (median), {} us (minimum)",
        micros(&durations[SAMPLES / 2]),
        micros(&durations[0])
    );
}

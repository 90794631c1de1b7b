//! The CPU guard in a closed loop.

use sluicegate_adaptive::cpu::CpuLaw;
use sluicegate_adaptive::law::{Laps, Law, MachineFacts, Seen, Turn};
use sluicegate_adaptive::readings::{Reading, Readings};
use sluicegate_engine::Timestamp;
use sluicegate_engine::gate::{Lap, Orders, Passing};
use sluicegate_engine::rule::{CpuGuard, Signal};

use crate::plant::Plant;

/// Ten give the same, and take four times as long.
const SEEDS: u64 = 3;

/// The CPU used in every tick, and the rates that held.
fn run(plant: &mut Plant, law: &mut CpuLaw, seconds: u64) -> (Vec<f64>, Vec<Option<f64>>) {
    let mut cpu = Vec::new();
    let mut rates = Vec::new();
    for _ in 0..seconds * 4 {
        let (turn, _) = plant.tick(law, &[]);
        cpu.push(plant.cpu_of_tick);
        rates.push(turn.orders.rate.map(|rate| rate.count));
    }
    (cpu, rates)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Means over whole seconds.
fn by_second(values: &[f64]) -> Vec<f64> {
    values.chunks(4).map(mean).collect()
}

#[test]
fn overload_is_held_at_the_target_and_let_go() {
    // Within a tick, ten times as much piles up two and a half seconds of work: that is done before anything is settled.
    let overloads = [(1.1, 2), (1.2, 2), (1.3, 2), (1.5, 2), (2.0, 2), (3.0, 2), (5.0, 3), (10.0, 5)];
    let cases = (0..SEEDS).flat_map(|seed| overloads.map(|(overload, settled)| (seed, overload, settled)));
    for (seed, overload, settled) in cases {
        // Two cores, 4 ms each: 500/s.
        let mut plant = Plant::new(2.0, 0.004, seed);
        let mut law = CpuLaw::new(CpuGuard::default());
        plant.offered = 250.0;
        let (_, rates) = run(&mut plant, &mut law, 20);
        assert!(rates.iter().all(Option::is_none), "half of what it can do is no reason");
        plant.offered = 500.0 * overload;
        let (cpu, rates) = run(&mut plant, &mut law, 60);
        let seconds = by_second(&cpu);
        println!("{overload}: {seconds:.2?}");
        for (nth, used) in seconds.iter().enumerate().skip(settled) {
            assert!((0.66..0.94).contains(used), "{used} in second {nth} of {overload}");
        }
        // Requests differ, and so do seconds. What is left over a few of them would be an oscillation.
        for used in cpu[settled * 4..].chunks_exact(16).map(mean) {
            assert!((0.74..0.86).contains(&used), "{used} in four seconds of {overload}");
        }
        assert!((0.77..0.83).contains(&mean(&cpu[settled * 4..])), "{}", mean(&cpu[settled * 4..]));
        let later: Vec<f64> = rates[40..].iter().flatten().copied().collect();
        let (least, most) = later.iter().fold((f64::MAX, 0.0f64), |(l, m), rate| (l.min(*rate), m.max(*rate)));
        println!("rates from {least:.0} to {most:.0}");
        assert!(least > 340.0 && most < 470.0, "rates from {least} to {most} around 400");
        assert!(rates[settled * 4..].iter().all(Option::is_some), "it does not let go meanwhile");
        plant.offered = 250.0;
        let (cpu, rates) = run(&mut plant, &mut law, 20);
        let released = rates.iter().position(Option::is_none).unwrap();
        assert!(released <= 8, "let go after {released} ticks");
        assert!(rates[released..].iter().all(Option::is_none));
        assert!((0.42..0.58).contains(&mean(&cpu[12..])), "{}", mean(&cpu[12..]));
    }
}

#[test]
fn a_cost_that_doubles_is_followed() {
    let mut plant = Plant::new(2.0, 0.004, 7);
    let mut law = CpuLaw::new(CpuGuard::default());
    plant.offered = 1_500.0;
    run(&mut plant, &mut law, 20);
    plant.cost = 0.008;
    let (cpu, rates) = run(&mut plant, &mut law, 40);
    println!("{:.2?}\n{rates:.0?}", by_second(&cpu));
    let seconds = by_second(&cpu);
    assert!(seconds[5..].iter().all(|used| (0.7..0.9).contains(used)), "{seconds:.2?}");
    assert!((0.76..0.84).contains(&mean(&cpu[20..])));
    plant.cost = 0.002;
    let (cpu, _) = run(&mut plant, &mut law, 40);
    assert!((0.7..0.84).contains(&mean(&cpu[24..])), "{:.2?}", by_second(&cpu));
}

#[test]
fn what_others_use_is_left_to_them_but_not_everything() {
    let mut plant = Plant::new(4.0, 0.004, 9);
    let mut law = CpuLaw::new(CpuGuard::default());
    plant.offered = 3_000.0;
    plant.others = 1.0;
    run(&mut plant, &mut law, 10);
    let (cpu, _) = run(&mut plant, &mut law, 30);
    assert!((0.75..0.85).contains(&mean(&cpu)), "{:.2?}", by_second(&cpu));
    // They take more than all that was meant to be used.
    plant.others = 3.4;
    run(&mut plant, &mut law, 10);
    let before = plant.answered;
    run(&mut plant, &mut law, 30);
    let per_second = (plant.answered - before) as f64 / 30.0;
    assert!(per_second > 100.0, "{per_second}/s of the 150/s that are left");
}

/// Laps that were not measured.
struct Counted(Lap);

impl Laps for Counted {
    fn look(&mut self) -> Lap {
        self.0
    }
    fn take(&mut self) -> Lap {
        self.0
    }
}

fn told(law: &mut CpuLaw, tick: u64, signals: &[(Signal, f64)], machine: MachineFacts) -> (Option<f64>, String) {
    let mut readings = Readings::UNKNOWN;
    signals.iter().for_each(|(signal, value)| readings.set(*signal, Some(*value)));
    let passing = Passing { arrivals: 900.0, answers: 100.0, refusals: 800.0, ..Passing::default() };
    let lap = Lap { lasted: std::time::Duration::from_millis(250), answered: 25, ..Lap::default() };
    let now = Timestamp::from_nanos(tick * 250_000_000);
    let turn = law.turn(&Seen { now, passing, readings: &readings, machine }, &mut Counted(lap));
    (turn.orders.rate.map(|rate| rate.count), turn.notice.reason)
}

#[test]
fn it_says_why() {
    let mut law = CpuLaw::new(CpuGuard::default());
    for tick in 0..9 {
        let machine = MachineFacts { cores: Some(2.0), cpu_seconds: Some(tick as f64 * 0.4) };
        let used = if tick < 8 { 0.7 } else { 0.93 };
        let (rate, reason) = told(&mut law, tick, &[(Signal::Cpu, used)], machine);
        if tick < 8 {
            assert_eq!((rate, reason.as_str()), (None, ""));
        } else {
            assert_eq!(reason, "cpu 93% > 85%, a request takes 16ms of 2 cores: at most 100 per 1s");
        }
    }
}

#[test]
fn pressure_and_throttling_are_reasons_too() {
    let machine = MachineFacts { cores: Some(2.0), cpu_seconds: Some(1.0) };
    for (signal, value) in [(Signal::CpuPressure, 0.95), (Signal::CpuThrottled, 0.4)] {
        let mut law = CpuLaw::new(CpuGuard::default());
        let (rate, reason) = told(&mut law, 0, &[(Signal::Cpu, 0.8), (signal, value)], machine);
        assert!(rate.is_some());
        assert!(reason.starts_with("cpu 80%, ") && reason.contains(signal.name()), "{reason}");
        let mut law = CpuLaw::new(CpuGuard::default());
        assert_eq!(told(&mut law, 0, &[(Signal::Cpu, 0.8), (signal, 0.1)], machine).0, None);
    }
}

#[test]
fn what_is_not_known_does_no_harm() {
    let mut law = CpuLaw::new(CpuGuard::default());
    let (rate, reason) = told(&mut law, 0, &[], MachineFacts::default());
    assert_eq!((rate, reason.as_str()), (None, ""), "a share of the CPU takes two looks to tell");
    let mut dark = Readings::UNKNOWN;
    dark.note(Signal::Cpu, Reading::Unreadable);
    let (now, machine) = (Timestamp::ZERO, MachineFacts::default());
    let seen = Seen { now, passing: Passing::default(), readings: &dark, machine };
    let Turn { orders, notice } = law.turn(&seen, &mut Counted(Lap::default()));
    assert_eq!((orders, notice.reason.as_str()), (Orders::OPEN, "cpu cannot be read"));
    // Without counts the present is scaled.
    let (rate, _) = told(&mut law, 1, &[(Signal::Cpu, 1.0)], MachineFacts::default());
    assert_eq!(rate, Some(80.0));
}

/// A rule that says it limits, and by nothing, would be believed by nobody the next time.
#[test]
fn it_does_not_say_that_it_limits_before_it_knows_what_requests_cost() {
    let mut law = CpuLaw::new(CpuGuard::default());
    let mut readings = Readings::UNKNOWN;
    readings.set(Signal::Cpu, Some(0.97));
    let mut turn = |answers: f64| {
        let passing = Passing { arrivals: 900.0, answers, ..Passing::default() };
        let (now, machine) = (Timestamp::ZERO, MachineFacts::default());
        law.turn(&Seen { now, passing, readings: &readings, machine }, &mut Counted(Lap::default()))
    };
    let learning = turn(0.0);
    assert_eq!((learning.notice.state, learning.orders), ("learning", Orders::OPEN));
    assert_eq!(learning.notice.reason, "cpu 97% > 85%, but nothing is known yet of what requests cost");
    let limited = turn(97.0);
    assert_eq!((limited.notice.state, limited.orders.rate.is_some()), ("limited", true));
}

/// The law is asked five times for each time that the machine is read: what was used in between is not all of the last
/// moment's.
#[test]
fn a_reading_is_of_the_time_since_the_one_before() {
    let mut law = CpuLaw::new(CpuGuard::default());
    let mut readings = Readings::UNKNOWN;
    readings.set(Signal::Cpu, Some(0.3));
    for tick in 0..2_000u64 {
        // 6 ms for each of 100 requests a second: three tenths of two cores.
        let machine = MachineFacts { cores: Some(2.0), cpu_seconds: Some(0.15 * (tick / 5) as f64) };
        // As many come for a moment as would take more than all of both.
        let arrivals = if tick > 1_000 { 400.0 } else { 100.0 };
        let passing = Passing { arrivals, answers: 100.0, in_flight: 1, ..Passing::default() };
        let lap = Lap { lasted: std::time::Duration::from_millis(250), answered: 25, ..Lap::default() };
        let now = Timestamp::from_nanos(1_000_000_000 + tick * 50_000_000);
        let turn = law.turn(&Seen { now, passing, readings: &readings, machine }, &mut Counted(lap));
        assert_eq!(turn.notice.state, "closed", "tick {tick}: {}", turn.notice.reason);
    }
}

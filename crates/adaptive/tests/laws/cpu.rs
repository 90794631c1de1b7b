//! The CPU limiter in a closed loop.

use sluicegate_adaptive::control_law::{Adjustment, ControlLaw, HostInfo, IntervalSource, Observation};
use sluicegate_adaptive::cpu::CpuLimiter;
use sluicegate_adaptive::readings::{Reading, Readings};
use sluicegate_engine::Timestamp;
use sluicegate_engine::overload::{GateLimits, Interval, Throughput};
use sluicegate_engine::rule::{CpuGuard, Signal};

use super::simulated_service::SimulatedService;

/// Ten give the same result and take four times as long.
const SEEDS: u64 = 3;

/// Returns the CPU use of every tick, and the rates that applied.
fn run(service: &mut SimulatedService, law: &mut CpuLimiter, seconds: u64) -> (Vec<f64>, Vec<Option<f64>>) {
    let mut cpu = Vec::new();
    let mut rates = Vec::new();
    for _ in 0..seconds * 4 {
        let (adjustment, _) = service.tick(law, &[]);
        cpu.push(service.cpu_of_tick);
        rates.push(adjustment.limits.rate.map(|rate| rate.count));
    }
    (cpu, rates)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Means per second.
fn by_second(values: &[f64]) -> Vec<f64> {
    values.chunks(4).map(mean).collect()
}

#[test]
fn cpu_is_held_at_the_target_and_the_limit_is_released() {
    // In one tick, ten times the load builds up a backlog of 2.5 seconds, which must drain first.
    let overloads = [(1.1, 2), (1.2, 2), (1.3, 2), (1.5, 2), (2.0, 2), (3.0, 2), (5.0, 3), (10.0, 5)];
    let cases = (0..SEEDS).flat_map(|seed| overloads.map(|(overload, settled)| (seed, overload, settled)));
    for (seed, overload, settled) in cases {
        // Two cores, 4 ms each: 500/s.
        let mut service = SimulatedService::new(2.0, 0.004, seed);
        let mut law = CpuLimiter::new(CpuGuard::default());
        service.offered = 250.0;
        let (_, rates) = run(&mut service, &mut law, 20);
        assert!(rates.iter().all(Option::is_none), "no limit at half of the capacity");
        service.offered = 500.0 * overload;
        let (cpu, rates) = run(&mut service, &mut law, 60);
        let seconds = by_second(&cpu);
        println!("{overload}: {seconds:.2?}");
        for (index, used) in seconds.iter().enumerate().skip(settled) {
            assert!((0.66..0.94).contains(used), "{used} in second {index} of {overload}");
        }
        // Requests and seconds differ. Variation over several seconds would be an oscillation.
        for used in cpu[settled * 4..].chunks_exact(16).map(mean) {
            assert!((0.74..0.86).contains(&used), "{used} in four seconds of {overload}");
        }
        assert!((0.77..0.83).contains(&mean(&cpu[settled * 4..])), "{}", mean(&cpu[settled * 4..]));
        let later: Vec<f64> = rates[40..].iter().flatten().copied().collect();
        let (min, max) = later.iter().fold((f64::MAX, 0.0f64), |(l, m), rate| (l.min(*rate), m.max(*rate)));
        println!("rates from {min:.0} to {max:.0}");
        assert!(min > 340.0 && max < 470.0, "rates from {min} to {max} around 400");
        assert!(rates[settled * 4..].iter().all(Option::is_some), "the limit stays active");
        service.offered = 250.0;
        let (cpu, rates) = run(&mut service, &mut law, 20);
        let released = rates.iter().position(Option::is_none).unwrap();
        assert!(released <= 8, "released after {released} ticks");
        assert!(rates[released..].iter().all(Option::is_none));
        assert!((0.42..0.58).contains(&mean(&cpu[12..])), "{}", mean(&cpu[12..]));
    }
}

#[test]
fn the_rate_follows_a_doubled_cost() {
    let mut service = SimulatedService::new(2.0, 0.004, 7);
    let mut law = CpuLimiter::new(CpuGuard::default());
    service.offered = 1_500.0;
    run(&mut service, &mut law, 20);
    service.cost = 0.008;
    let (cpu, rates) = run(&mut service, &mut law, 40);
    println!("{:.2?}\n{rates:.0?}", by_second(&cpu));
    let seconds = by_second(&cpu);
    assert!(seconds[5..].iter().all(|used| (0.7..0.9).contains(used)), "{seconds:.2?}");
    assert!((0.76..0.84).contains(&mean(&cpu[20..])));
    service.cost = 0.002;
    let (cpu, _) = run(&mut service, &mut law, 40);
    assert!((0.7..0.84).contains(&mean(&cpu[24..])), "{:.2?}", by_second(&cpu));
}

#[test]
fn cpu_used_by_others_is_subtracted_up_to_half_the_target() {
    let mut service = SimulatedService::new(4.0, 0.004, 9);
    let mut law = CpuLimiter::new(CpuGuard::default());
    service.offered = 3_000.0;
    service.other_cores = 1.0;
    run(&mut service, &mut law, 10);
    let (cpu, _) = run(&mut service, &mut law, 30);
    assert!((0.75..0.85).contains(&mean(&cpu)), "{:.2?}", by_second(&cpu));
    // Other processes use more than the target.
    service.other_cores = 3.4;
    run(&mut service, &mut law, 10);
    let before = service.completed;
    run(&mut service, &mut law, 30);
    let per_second = (service.completed - before) as f64 / 30.0;
    assert!(per_second > 100.0, "{per_second}/s of the remaining 150/s");
}

/// An interval source with a fixed interval.
struct FixedInterval(Interval);

impl IntervalSource for FixedInterval {
    fn peek(&mut self) -> Interval {
        self.0
    }
    fn take(&mut self) -> Interval {
        self.0
    }
}

fn step_with(law: &mut CpuLimiter, tick: u64, signals: &[(Signal, f64)], host: HostInfo) -> (Option<f64>, String) {
    let mut readings = Readings::UNKNOWN;
    signals.iter().for_each(|(signal, value)| readings.set(*signal, Some(*value)));
    let throughput = Throughput { arrivals: 900.0, responses: 100.0, refusals: 800.0, ..Throughput::default() };
    let interval = Interval { duration: std::time::Duration::from_millis(250), completed: 25, ..Interval::default() };
    let now = Timestamp::from_nanos(tick * 250_000_000);
    let adjustment =
        law.step(&Observation { now, throughput, readings: &readings, host }, &mut FixedInterval(interval));
    (adjustment.limits.rate.map(|rate| rate.count), adjustment.notice.reason)
}

#[test]
fn the_reason_names_signals_and_cost() {
    let mut law = CpuLimiter::new(CpuGuard::default());
    for tick in 0..9 {
        let host = HostInfo { cores: Some(2.0), cpu_seconds: Some(tick as f64 * 0.4) };
        let used = if tick < 8 { 0.7 } else { 0.93 };
        let (rate, reason) = step_with(&mut law, tick, &[(Signal::Cpu, used)], host);
        if tick < 8 {
            assert_eq!((rate, reason.as_str()), (None, ""));
        } else {
            assert_eq!(reason, "cpu 93% > 85%, 16ms CPU per request, 2 cores: at most 100 per 1s");
        }
    }
}

#[test]
fn pressure_and_throttling_also_trigger_the_limit() {
    let host = HostInfo { cores: Some(2.0), cpu_seconds: Some(1.0) };
    for (signal, value) in [(Signal::CpuPressure, 0.95), (Signal::CpuThrottled, 0.4)] {
        let mut law = CpuLimiter::new(CpuGuard::default());
        let (rate, reason) = step_with(&mut law, 0, &[(Signal::Cpu, 0.8), (signal, value)], host);
        assert!(rate.is_some());
        assert!(reason.starts_with("cpu 80%, ") && reason.contains(signal.name()), "{reason}");
        let mut law = CpuLimiter::new(CpuGuard::default());
        assert_eq!(step_with(&mut law, 0, &[(Signal::Cpu, 0.8), (signal, 0.1)], host).0, None);
    }
}

#[test]
fn unknown_signals_do_not_limit() {
    let mut law = CpuLimiter::new(CpuGuard::default());
    let (rate, reason) = step_with(&mut law, 0, &[], HostInfo::default());
    assert_eq!((rate, reason.as_str()), (None, ""), "CPU use needs two samples");
    let mut unreadable = Readings::UNKNOWN;
    unreadable.record(Signal::Cpu, Reading::Unreadable);
    let (now, host) = (Timestamp::ZERO, HostInfo::default());
    let observation = Observation { now, throughput: Throughput::default(), readings: &unreadable, host };
    let Adjustment { limits, notice } = law.step(&observation, &mut FixedInterval(Interval::default()));
    assert_eq!((limits, notice.reason.as_str()), (GateLimits::OPEN, "cpu cannot be read"));
    // Without counts the current throughput is scaled.
    let (rate, _) = step_with(&mut law, 1, &[(Signal::Cpu, 1.0)], HostInfo::default());
    assert_eq!(rate, Some(80.0));
}

/// A rule that claims to limit without a rate would be misleading.
#[test]
fn state_is_learning_until_the_cost_is_known() {
    let mut law = CpuLimiter::new(CpuGuard::default());
    let mut readings = Readings::UNKNOWN;
    readings.set(Signal::Cpu, Some(0.97));
    let mut adjustment = |responses: f64| {
        let throughput = Throughput { arrivals: 900.0, responses, ..Throughput::default() };
        let (now, host) = (Timestamp::ZERO, HostInfo::default());
        law.step(&Observation { now, throughput, readings: &readings, host }, &mut FixedInterval(Interval::default()))
    };
    let learning = adjustment(0.0);
    assert_eq!((learning.notice.state, learning.limits), ("learning", GateLimits::OPEN));
    assert_eq!(learning.notice.reason, "cpu 97% > 85%, CPU cost per request not known yet");
    let limited = adjustment(97.0);
    assert_eq!((limited.notice.state, limited.limits.rate.is_some()), ("limited", true));
}

/// The law runs five times per reading: CPU time between readings is not attributed to the last tick alone.
#[test]
fn cpu_time_is_attributed_to_the_time_between_readings() {
    let mut law = CpuLimiter::new(CpuGuard::default());
    let mut readings = Readings::UNKNOWN;
    readings.set(Signal::Cpu, Some(0.3));
    for tick in 0..2_000u64 {
        // 6 ms for each of 100 requests a second: 30 % of two cores.
        let host = HostInfo { cores: Some(2.0), cpu_seconds: Some(0.15 * (tick / 5) as f64) };
        // Arrivals briefly exceed the capacity of both cores.
        let arrivals = if tick > 1_000 { 400.0 } else { 100.0 };
        let throughput = Throughput { arrivals, responses: 100.0, in_flight: 1, ..Throughput::default() };
        let interval =
            Interval { duration: std::time::Duration::from_millis(250), completed: 25, ..Interval::default() };
        let now = Timestamp::from_nanos(1_000_000_000 + tick * 50_000_000);
        let adjustment =
            law.step(&Observation { now, throughput, readings: &readings, host }, &mut FixedInterval(interval));
        assert_eq!(adjustment.notice.state, "closed", "tick {tick}: {}", adjustment.notice.reason);
    }
}

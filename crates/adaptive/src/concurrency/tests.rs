use proptest::prelude::*;
use sluicegate_engine::overload::{Interval, Throughput};

use super::*;
use crate::control_law::HostInfo;
use crate::readings::Readings;

/// An interval source that always returns the same interval.
struct FixedInterval(Interval);

impl IntervalSource for FixedInterval {
    fn peek(&mut self) -> Interval {
        self.0
    }

    fn take(&mut self) -> Interval {
        self.0
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos((1_000_000 + millis) * 1_000_000)
}

/// A server that runs eight requests at once for 10 ms each, saturated at the given limit.
fn busy(limit: f64) -> Interval {
    let throughput = 100.0 * limit.min(8.0);
    Interval {
        duration: Duration::from_millis(100),
        arrived: 400,
        refused: 400 - (throughput / 10.0) as u64,
        completed: (throughput / 10.0) as u64,
        average: Some(limit / throughput),
        in_flight: limit,
        peak_in_flight: limit as usize,
        full_ratio: 1.0,
        ..Interval::default()
    }
}

/// The same server with few requests in flight, for any limit.
fn light_load(_: f64) -> Interval {
    Interval { full_ratio: 0.0, in_flight: 3.0, ..busy(8.0) }
}

/// Runs the limiter for this many milliseconds in ticks of 50 ms.
fn run_for(limiter: &mut AutoConcurrency, from: u64, millis: u64, interval: impl Fn(f64) -> Interval) -> Adjustment {
    let mut adjustment = None;
    for now in (from..from + millis).step_by(50) {
        let interval = interval(limiter.effective_limit());
        let throughput =
            Throughput { in_flight: interval.in_flight as usize, average: interval.average, ..Throughput::default() };
        let observation =
            Observation { now: at(now), throughput, readings: &Readings::UNKNOWN, host: HostInfo::default() };
        adjustment = Some(limiter.step(&observation, &mut FixedInterval(interval)));
    }
    adjustment.expect("at least one tick")
}

#[test]
fn limit_converges_to_the_server_concurrency() {
    let mut limiter = AutoConcurrency::with_seed(Auto::default(), 1);
    let adjustment = run_for(&mut limiter, 0, 20_000, busy);
    let unloaded = limiter.unloaded_time.expect("the unloaded time is known");
    assert!((0.009..0.011).contains(&unloaded), "{unloaded}");
    // 8 + 12
    assert!((19.0..=21.0).contains(&limiter.limit), "{}", limiter.limit);
    assert!(adjustment.limits.queue.target < adjustment.limits.queue.max_wait);
}

#[test]
fn max_rt_caps_the_limit() {
    let spec = Auto { max_rt: Some(Duration::from_millis(12)), ..Auto::default() };
    let mut limiter = AutoConcurrency::with_seed(spec, 1);
    run_for(&mut limiter, 0, 20_000, busy);
    assert!((8.0..=10.0).contains(&limiter.limit), "{}", limiter.limit);
    // A `max_rt` below the unloaded time cannot be kept. One permit above the concurrency remains, or a higher
    // capacity would never be detected.
    let spec = Auto { max_rt: Some(Duration::from_millis(1)), ..Auto::default() };
    let mut limiter = AutoConcurrency::with_seed(spec, 1);
    run_for(&mut limiter, 0, 20_000, busy);
    assert!((8.5..=9.5).contains(&limiter.limit), "{}", limiter.limit);
}

#[test]
fn failures_lower_the_limit_until_they_are_usual() {
    let failing = |_| Interval { completed: 40, failed: 40, ..light_load(1.0) };
    let mut limiter = AutoConcurrency::with_seed(Auto::default(), 1);
    let adjustment = run_for(&mut limiter, 0, 500, failing);
    assert_eq!(adjustment.notice.state, "backing off");
    assert!(limiter.limit < 15.0, "{}", limiter.limit);
    // Constant failures are not overload.
    run_for(&mut limiter, 500, 60_000, failing);
    let before = limiter.limit;
    let adjustment = run_for(&mut limiter, 60_500, 1_000, failing);
    assert_eq!(adjustment.notice.state, "steady");
    assert!(limiter.limit >= before, "{} {before}", limiter.limit);
}

#[test]
fn an_unused_limit_decays_towards_the_peak() {
    let mut limiter = AutoConcurrency::with_seed(Auto::default(), 1);
    limiter.limit = 5_000.0;
    run_for(&mut limiter, 0, 60_000, |_| Interval { peak_in_flight: 10, ..light_load(1.0) });
    assert!((20.0..=60.0).contains(&limiter.limit), "{}", limiter.limit);
}

#[test]
fn queue_target_equals_the_timeout_without_overload() {
    let mut limiter = AutoConcurrency::with_seed(Auto::default(), 1);
    let adjustment = run_for(&mut limiter, 0, 1_000, light_load);
    assert_eq!(adjustment.limits.queue.target, adjustment.limits.queue.max_wait);
    assert_eq!(adjustment.limits.queue.max_waiting, 1_000);
}

#[test]
fn queue_timeout_follows_response_time_unless_configured() {
    let queue_timeout = |spec: Auto, average: f64| {
        let mut limiter = AutoConcurrency::with_seed(spec, 1);
        run_for(&mut limiter, 0, 1_000, |limit| Interval { average: Some(average), ..light_load(limit) })
            .limits
            .queue
            .max_wait
    };
    let default = Auto::default();
    assert_eq!(queue_timeout(default, 0.001), Duration::from_millis(100));
    assert_eq!(queue_timeout(default, 0.05).as_millis(), 600);
    assert_eq!(queue_timeout(default, 30.0), Duration::from_millis(1_200));
    for configured in [Duration::ZERO, Duration::from_millis(7), Duration::from_secs(60)] {
        assert_eq!(queue_timeout(Auto { max_wait: Some(configured), ..default }, 0.05), configured);
    }
}

/// A server with unlimited concurrency, this many milliseconds per request, and 400 arrivals per second.
fn unlimited_server(millis: f64) -> impl Fn(f64) -> Interval {
    move |limit| {
        let in_flight = limit.min(0.4 * millis);
        let completed = in_flight / millis * 500.0;
        let full = if in_flight < limit { 0.0 } else { 1.0 };
        let (duration, completed) = (Duration::from_millis(500), completed as u64);
        let interval = Interval { duration, arrived: 200, completed, refused: 200 - completed, ..busy(limit) };
        Interval {
            average: Some(millis / 1e3),
            in_flight,
            peak_in_flight: in_flight as usize,
            full_ratio: full,
            ..interval
        }
    }
}

#[test]
fn slow_work_raises_the_limit_at_once() {
    let mut limiter = AutoConcurrency::with_seed(Auto::default(), 1);
    run_for(&mut limiter, 0, 5_000, unlimited_server(10.0));
    assert_eq!(limiter.limit, 20.0);
    let adjustment = run_for(&mut limiter, 5_000, 50, unlimited_server(200.0));
    assert_eq!((adjustment.notice.state, limiter.limit), ("growing", 80.0));
    run_for(&mut limiter, 5_050, 3_000, unlimited_server(200.0));
    assert!(limiter.limit > 100.0, "{}", limiter.limit);
    assert!(limiter.unloaded_time.is_some_and(|unloaded| (unloaded - 0.2).abs() < 0.02), "{:?}", limiter.unloaded_time);
}

#[test]
fn a_slower_server_keeps_the_raised_limit_only_briefly() {
    let mut limiter = AutoConcurrency::with_seed(Auto::default(), 1);
    run_for(&mut limiter, 0, 5_000, unlimited_server(10.0));
    // A fifth of the former throughput, for any limit.
    let duration = Duration::from_millis(500);
    let slow =
        |limit: f64| Interval { duration, arrived: 200, completed: 40, average: Some(limit / 80.0), ..busy(limit) };
    run_for(&mut limiter, 5_000, 50, slow);
    assert!(limiter.limit > 20.0, "{}", limiter.limit);
    run_for(&mut limiter, 5_050, 4_000, slow);
    assert!(limiter.limit <= 20.0, "{}", limiter.limit);
}

#[test]
fn an_excessive_limit_is_decreased_and_kept_if_throughput_holds() {
    let mut limiter = AutoConcurrency::with_seed(Auto::default(), 1);
    run_for(&mut limiter, 0, 1_000, light_load);
    limiter.limit = 100.0;
    let duration = Duration::from_millis(500);
    let busy = |limit| Interval { duration, arrived: 2_000, completed: 5 * busy(limit).completed, ..busy(limit) };
    run_for(&mut limiter, 1_000, 50, busy);
    assert!((33.0..34.0).contains(&limiter.limit), "first a third of the limit: {}", limiter.limit);
    run_for(&mut limiter, 1_050, 3_000, busy);
    assert!((18.0..=22.0).contains(&limiter.limit), "{}", limiter.limit);
}

#[test]
fn notice_explains_the_limit() {
    let mut limiter = AutoConcurrency::with_seed(Auto::default(), 1);
    let adjustment = run_for(&mut limiter, 0, 1_000, light_load);
    assert_eq!(adjustment.notice.state, "steady");
    assert_eq!(adjustment.notice.reason, "concurrency limit 20, average 10ms, unloaded 10ms");
    let idle =
        run_for(&mut limiter, 1_000, 1_000, |_| Interval { duration: Duration::from_secs(1), ..Interval::default() });
    assert_eq!(idle.notice.reason, "concurrency limit 20, no responses in the last second");
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(0.0), Just(-1.0), Just(f64::MIN_POSITIVE), 0.0..1.0, 0.0..1e6]
}

prop_compose! {
    fn any_interval()(
        duration in prop_oneof![Just(0u64), 0..2_000u64, Just(u64::MAX)],
        counts in prop::array::uniform4(prop_oneof![Just(0u64), 0..1_000u64, Just(u64::MAX / 4)]),
        times in prop::array::uniform3(prop::option::of(any_number())),
        in_flight in any_number(),
        peak in prop_oneof![0..100usize, Just(usize::MAX)],
        full in any_number(),
    ) -> Interval {
        let [arrived, refused, completed, failed] = counts;
        let [p50, p99, average] = times;
        let duration = Duration::from_millis(duration);
        Interval { duration, arrived, refused, completed, failed, p50, p99, average, in_flight, peak_in_flight: peak, full_ratio: full }
    }
}

proptest! {
    /// For any measurements and clock values, the limit stays within its bounds.
    #[test]
    fn limit_stays_within_its_bounds(
        intervals in prop::collection::vec((any_interval(), 0..10_000_000u64, 0..200usize), 1..200),
        min in 0..50u32,
        max in 0..500u32,
        start in 0..1_000u32,
    ) {
        let spec = Auto { min, max, start, ..Auto::default() };
        let mut limiter = AutoConcurrency::with_seed(spec, 1);
        let bounds = min.clamp(1, max.max(1)) as usize..=max.max(1) as usize;
        for (interval, millis, in_flight) in intervals {
            let throughput = Throughput { in_flight, average: interval.average, ..Throughput::default() };
            let observation = Observation { now: at(millis), throughput, readings: &Readings::UNKNOWN, host: HostInfo::default() };
            let adjustment = limiter.step(&observation, &mut FixedInterval(interval));
            let limit = adjustment.limits.max_in_flight.unwrap_or(0);
            prop_assert!(bounds.contains(&limit), "{limit} not in {bounds:?}");
            prop_assert!(adjustment.limits.queue.target <= adjustment.limits.queue.max_wait);
        }
    }
}

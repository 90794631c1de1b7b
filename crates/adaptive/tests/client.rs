//! Client-side throttle against simulated backends, with a manual clock.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_adaptive::client::ClientThrottle;
use sluicegate_engine::clock::{ClockHandle, ManualClock};

struct Fixture {
    clock: ManualClock,
    throttle: ClientThrottle,
}

impl Fixture {
    fn new(seed: u64) -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_000));
        let throttle = ClientThrottle::builder(ClockHandle::new(clock.clone())).seed(seed).build();
        Self { clock, throttle }
    }

    /// Runs for some seconds with `offered` calls per second; the backend accepts up to `capacity` of them.
    /// Returns the number of calls made in each second.
    fn run(&self, seconds: usize, offered: u64, capacity: u64) -> Vec<u64> {
        let each = Duration::from_nanos(1_000_000_000 / offered);
        (0..seconds)
            .map(|_| {
                let (mut made, mut tokens) = (0, 0.0f64);
                for _ in 0..offered {
                    self.clock.advance(each);
                    tokens = (tokens + capacity as f64 / offered as f64).min(5.0);
                    let Ok(attempt) = self.throttle.try_call() else { continue };
                    made += 1;
                    if tokens >= 1.0 {
                        tokens -= 1.0;
                        attempt.accepted();
                    } else {
                        attempt.rejected();
                    }
                }
                made
            })
            .collect()
    }
}

#[test]
fn a_healthy_backend_gets_every_call() {
    let fixture = Fixture::new(1);
    assert_eq!(fixture.run(300, 200, 1_000), [200; 300]);
    let state = fixture.throttle.state();
    assert_eq!((state.rejection_ratio, state.calls_per_accepted), (0.0, 2.0));
    // A third may fail, and still every call is made: the backend is not overloaded.
    assert_eq!(fixture.run(300, 300, 200), [300; 300]);
}

#[test]
fn a_dead_backend_gets_a_probe_per_second() {
    let fixture = Fixture::new(2);
    fixture.run(130, 1_000, 5_000);
    let made = fixture.run(120, 1_000, 0);
    assert!(made[3..].iter().all(|made| *made <= 20), "almost no calls: {made:?}");
    // One probe, and the share that the formula leaves: six in a hundred thousand.
    assert!(made[30..].iter().all(|made| (1..=3).contains(made)), "{made:?}");
    let slow_caller = Fixture::new(3);
    assert_eq!(slow_caller.run(60, 1, 0), [1; 60], "one call per second is the probe");
}

#[test]
fn a_recovered_backend_is_found_within_seconds() {
    let fixture = Fixture::new(4);
    fixture.run(60, 1_000, 5_000);
    fixture.run(300, 1_000, 0);
    let made = fixture.run(20, 1_000, 5_000);
    let all = made.iter().position(|made| *made >= 950).unwrap();
    assert!(all <= 13, "{made:?}");
    assert!(made[all..].iter().all(|made| *made >= 950), "{made:?}");
    // The ramp is gradual.
    assert!(made.windows(2).all(|pair| pair[1] <= 3 * pair[0] + 20), "{made:?}");
}

#[test]
fn an_overloaded_backend_sees_twice_what_it_accepts() {
    for (seed, offered) in [(5, 150), (6, 500), (7, 2_000)] {
        let fixture = Fixture::new(seed);
        fixture.run(60, 80, 100);
        fixture.run(60, offered, 100);
        let made = fixture.run(240, offered, 100);
        let mean = made.iter().sum::<u64>() as f64 / made.len() as f64;
        let expected = f64::from(offered as u32).min(200.0);
        assert!((0.8 * expected..1.15 * expected).contains(&mean), "{mean} of {offered}");
        // A single second may exceed the mean by chance.
        assert!(made.iter().all(|made| *made <= 340), "{:?}", made.iter().max());
    }
}

#[test]
fn dropped_attempts_are_rejections_and_cancelled_ones_do_not_count() {
    let fixture = Fixture::new(8);
    for _ in 0..5 {
        drop(fixture.throttle.try_call().unwrap());
    }
    let state = fixture.throttle.state();
    assert_eq!((state.requested, state.accepted, state.rejected), (5, 0, 5));
    for _ in 0..1_000 {
        if let Ok(attempt) = fixture.throttle.try_call() {
            attempt.cancel();
        }
    }
    let before = fixture.throttle.state();
    fixture.clock.advance(Duration::from_secs(1));
    fixture.throttle.try_call().unwrap().cancel();
    assert_eq!(fixture.throttle.state().requested, before.requested);
}

#[test]
fn a_throttled_call_carries_retry_after() {
    let fixture = Fixture::new(9);
    fixture.run(10, 1_000, 0);
    let throttled = loop {
        match fixture.throttle.try_call() {
            Ok(attempt) => attempt.rejected(),
            Err(throttled) => break throttled,
        }
    };
    assert!(throttled.rejection_ratio > 0.99 && throttled.retry_after <= Duration::from_secs(1));
    assert_eq!(throttled.to_string(), "the backend rejects calls: 99% of calls are throttled");
    fixture.clock.advance(throttled.retry_after);
    assert!(fixture.throttle.try_call().is_ok(), "a probe is made");
}

#[test]
fn calls_older_than_the_window_are_dropped() {
    let fixture = Fixture::new(10);
    fixture.run(120, 100, 0);
    fixture.clock.advance(Duration::from_secs(121));
    let state = fixture.throttle.state();
    assert_eq!((state.requested, state.rejection_ratio), (0, 0.0));
}

#[test]
fn the_throttle_is_thread_safe() {
    let fixture = Fixture::new(11);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|_| fixture.throttle.try_call().unwrap().accepted()));
        }
    });
    let state = fixture.throttle.state();
    assert_eq!((state.requested, state.accepted), (4_000, 4_000));
}

proptest! {
    /// With clock jumps, clock steps back and any order of results, nothing panics and a probe is always made.
    #[test]
    fn a_probe_is_always_made(
        steps in proptest::collection::vec((0u64..3_000, 0u8..4), 1..400),
        seed in any::<u64>(),
        window in 0u64..10_000,
        calls in -1.0f64..5.0,
    ) {
        let clock = ManualClock::new();
        let throttle = ClientThrottle::builder(ClockHandle::new(clock.clone()))
            .seed(seed)
            .window(Duration::from_millis(window))
            .calls_per_accepted(calls)
            .build();
        let mut open_attempts = Vec::new();
        let mut idle = Duration::ZERO;
        for (millis, action) in steps {
            clock.advance(Duration::from_millis(millis));
            idle += Duration::from_millis(millis);
            match throttle.try_call() {
                Ok(attempt) => {
                    idle = Duration::ZERO;
                    match action {
                        0 => attempt.accepted(),
                        1 => attempt.rejected(),
                        2 => attempt.cancel(),
                        _ => open_attempts.push(attempt),
                    }
                }
                Err(throttled) => {
                    prop_assert!(idle < Duration::from_secs(1));
                    prop_assert!((0.0..=1.0).contains(&throttled.rejection_ratio));
                    prop_assert_eq!(throttled.retry_after + idle, Duration::from_secs(1));
                }
            }
        }
    }
}

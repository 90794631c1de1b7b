//! The throttle of the calling side against simulated backends, on a clock turned by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_adaptive::client::ClientThrottle;
use sluicegate_engine::clock::{ClockHandle, ManualClock};

struct World {
    clock: ManualClock,
    throttle: ClientThrottle,
}

impl World {
    fn new(seed: u64) -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_000));
        let throttle = ClientThrottle::builder(ClockHandle::new(clock.clone())).seed(seed).build();
        Self { clock, throttle }
    }

    /// Lets some seconds pass in which `offered` calls per second are wanted, and the backend accepts up to `capacity`
    /// of them. Answers how many were made in each.
    fn run(&self, seconds: usize, offered: u64, capacity: u64) -> Vec<u64> {
        let each = Duration::from_nanos(1_000_000_000 / offered);
        (0..seconds)
            .map(|_| {
                let (mut made, mut room) = (0, 0.0f64);
                for _ in 0..offered {
                    self.clock.advance(each);
                    room = (room + capacity as f64 / offered as f64).min(5.0);
                    let Ok(attempt) = self.throttle.ask() else { continue };
                    made += 1;
                    if room >= 1.0 {
                        room -= 1.0;
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
    let world = World::new(1);
    assert_eq!(world.run(300, 200, 1_000), [200; 300]);
    let state = world.throttle.state();
    assert_eq!((state.refused_share, state.calls_per_accepted), (0.0, 2.0));
    // A third may fail, and still every call is made: it is not the backend that is overloaded.
    assert_eq!(world.run(300, 300, 200), [300; 300]);
}

#[test]
fn a_dead_backend_gets_a_probe_per_second() {
    let world = World::new(2);
    world.run(130, 1_000, 5_000);
    let made = world.run(120, 1_000, 0);
    assert!(made[3..].iter().all(|made| *made <= 20), "soon next to none: {made:?}");
    // One probe, and the share that the formula leaves: six in a hundred thousand.
    assert!(made[30..].iter().all(|made| (1..=3).contains(made)), "{made:?}");
    let few = World::new(3);
    assert_eq!(few.run(60, 1, 0), [1; 60], "who calls once per second is the probe");
}

#[test]
fn a_backend_that_is_back_is_found_within_seconds() {
    let world = World::new(4);
    world.run(60, 1_000, 5_000);
    world.run(300, 1_000, 0);
    let made = world.run(20, 1_000, 5_000);
    let all = made.iter().position(|made| *made >= 950).unwrap();
    assert!(all <= 13, "{made:?}");
    assert!(made[all..].iter().all(|made| *made >= 950), "{made:?}");
    // And gently.
    assert!(made.windows(2).all(|pair| pair[1] <= 3 * pair[0] + 20), "{made:?}");
}

#[test]
fn an_overloaded_backend_sees_twice_what_it_accepts() {
    for (seed, offered) in [(5, 150), (6, 500), (7, 2_000)] {
        let world = World::new(seed);
        world.run(60, 80, 100);
        world.run(60, offered, 100);
        let made = world.run(240, offered, 100);
        let mean = made.iter().sum::<u64>() as f64 / made.len() as f64;
        let expected = f64::from(offered as u32).min(200.0);
        assert!((0.8 * expected..1.15 * expected).contains(&mean), "{mean} of {offered}");
        // By chance a second may see more.
        assert!(made.iter().all(|made| *made <= 340), "{:?}", made.iter().max());
    }
}

#[test]
fn attempts_without_a_word_are_rejections_and_those_taken_back_are_nothing() {
    let world = World::new(8);
    for _ in 0..5 {
        drop(world.throttle.ask().unwrap());
    }
    let state = world.throttle.state();
    assert_eq!((state.wanted, state.accepted, state.rejected), (5, 0, 5));
    for _ in 0..1_000 {
        if let Ok(attempt) = world.throttle.ask() {
            attempt.take_back();
        }
    }
    let before = world.throttle.state();
    world.clock.advance(Duration::from_secs(1));
    world.throttle.ask().unwrap().take_back();
    assert_eq!(world.throttle.state().wanted, before.wanted);
}

#[test]
fn a_refusal_says_for_how_long() {
    let world = World::new(9);
    world.run(10, 1_000, 0);
    let throttled = loop {
        match world.throttle.ask() {
            Ok(attempt) => attempt.rejected(),
            Err(throttled) => break throttled,
        }
    };
    assert!(throttled.share > 0.99 && throttled.retry_after <= Duration::from_secs(1));
    assert_eq!(throttled.to_string(), "the backend turns calls away: 99% of them are not made at present");
    world.clock.advance(throttled.retry_after);
    assert!(world.throttle.ask().is_ok(), "then one is made");
}

#[test]
fn what_was_long_ago_is_forgotten() {
    let world = World::new(10);
    world.run(120, 100, 0);
    world.clock.advance(Duration::from_secs(121));
    let state = world.throttle.state();
    assert_eq!((state.wanted, state.refused_share), (0, 0.0));
}

#[test]
fn many_threads_may_ask() {
    let world = World::new(11);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|_| world.throttle.ask().unwrap().accepted()));
        }
    });
    let state = world.throttle.state();
    assert_eq!((state.wanted, state.accepted), (4_000, 4_000));
}

proptest! {
    /// Clocks that jump and step back, every order of answers: nothing panics, and a probe is always made.
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
        let mut held = Vec::new();
        let mut idle = Duration::ZERO;
        for (millis, what) in steps {
            clock.advance(Duration::from_millis(millis));
            idle += Duration::from_millis(millis);
            match throttle.ask() {
                Ok(attempt) => {
                    idle = Duration::ZERO;
                    match what {
                        0 => attempt.accepted(),
                        1 => attempt.rejected(),
                        2 => attempt.take_back(),
                        _ => held.push(attempt),
                    }
                }
                Err(throttled) => {
                    prop_assert!(idle < Duration::from_secs(1));
                    prop_assert!((0.0..=1.0).contains(&throttled.share));
                    prop_assert_eq!(throttled.retry_after + idle, Duration::from_secs(1));
                }
            }
        }
    }
}

//! Random callers of classes with limits, polled only when they are woken, as an executor would: everybody
//! is let in or refused by its deadline, and the limits keep their bound.

use std::task::Poll;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use sluicegate::clock::{Clock, ManualClock};
use sluicegate::pool::{Class, Entrance, Place};
use sluicegate::{Limit, Rate, Timestamp};

use super::support::*;

#[derive(Clone, Debug)]
enum Step {
    /// One arrives, and waits for so many milliseconds at most.
    Arrive(usize, u64),
    /// One of those inside leaves.
    Leave(prop::sample::Index),
    /// One of those who wait goes away.
    Cancel(prop::sample::Index),
    /// Whoever was woken is polled, the last first.
    Run,
    /// Time passes.
    Advance(u64),
}

/// Rate per second, burst and importance of a class.
type Shape = (u64, u64, u8);

struct Waiting {
    class: usize,
    deadline: Timestamp,
    caller: Caller,
}

struct World {
    clock: ManualClock,
    entrances: Vec<Entrance>,
    inside: Vec<Place>,
    waiting: Vec<Waiting>,
    /// When callers of each class were seen inside.
    begun: Vec<Vec<Timestamp>>,
}

impl World {
    fn new(places: usize, shapes: &[Shape]) -> Self {
        let clock = ManualClock::new();
        let classes: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .zip(shapes)
            .map(|(name, (rate, burst, importance))| {
                let limit = Limit::token_bucket(Rate::per_second(*rate).unwrap(), *burst).unwrap();
                (name, Class::new().importance(*importance).limit(limit))
            })
            .collect();
        let bulkhead = bulkhead(&clock, places, &classes);
        let entrances = classes.iter().map(|(name, _)| bulkhead.class(name).unwrap()).collect();
        let begun = vec![Vec::new(); shapes.len()];
        Self { clock, entrances, inside: Vec::new(), waiting: Vec::new(), begun }
    }

    fn arrive(&mut self, class: usize, wait: u64) {
        let class = class % self.entrances.len();
        let wait = Duration::from_millis(wait);
        let mut caller = Caller::new(self.entrances[class].acquire().within(wait));
        match caller.poll() {
            Poll::Pending => self.waiting.push(Waiting { class, deadline: self.clock.now() + wait, caller }),
            Poll::Ready(Ok(place)) => self.enter(class, place),
            Poll::Ready(Err(_)) => {}
        }
    }

    fn enter(&mut self, class: usize, place: Place) {
        self.begun[class].push(self.clock.now());
        self.inside.push(place);
    }

    fn run(&mut self) {
        while let Some(index) = self.waiting.iter().rposition(|asks| asks.caller.is_woken()) {
            if let Poll::Ready(result) = self.waiting[index].caller.poll() {
                let class = self.waiting.remove(index).class;
                result.into_iter().for_each(|place| self.enter(class, place));
            }
        }
        let now = self.clock.now();
        assert!(self.waiting.iter().all(|asks| now < asks.deadline), "past its deadline, and nobody has told it");
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrive(class, wait) => self.arrive(class, wait),
            Step::Leave(index) if !self.inside.is_empty() => {
                drop(self.inside.swap_remove(index.index(self.inside.len())));
            }
            Step::Cancel(index) if !self.waiting.is_empty() => {
                drop(self.waiting.swap_remove(index.index(self.waiting.len())));
            }
            Step::Run => self.run(),
            Step::Advance(millis) => self.clock.advance(Duration::from_millis(millis)),
            Step::Leave(_) | Step::Cancel(_) => {}
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0_usize..3, 0_u64..300).prop_map(|(class, wait)| Step::Arrive(class, wait)),
        4 => index().prop_map(Step::Leave),
        1 => index().prop_map(Step::Cancel),
        4 => Just(Step::Run),
        2 => (0_u64..60).prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everybody_is_told_in_time_and_limits_keep_their_bound(
        places in 1_usize..4,
        shapes in vec((10_u64..50, 1_u64..4, 0_u8..2), 1..4),
        steps in vec(step(), 1..80),
    ) {
        let mut world = World::new(places, &shapes);
        for step in steps {
            world.step(step);
        }
        // Everybody inside leaves; the clock goes from alarm to alarm.
        loop {
            world.run();
            world.inside.clear();
            world.run();
            if !world.inside.is_empty() {
                continue;
            }
            // No place is taken: whoever still waits is held up by a limit, and knows until when.
            for asks in &world.waiting {
                prop_assert!(world.clock.next_alarm().is_some_and(|next| next <= asks.deadline));
            }
            match world.clock.next_alarm() {
                Some(next) => world.clock.set(next),
                None => break,
            }
        }
        prop_assert!(world.waiting.is_empty());
        for (entrance, (begun, (rate, burst, _))) in world.entrances.iter().zip(world.begun.iter().zip(&shapes)) {
            prop_assert_eq!(entrance.status().in_use, 0);
            // A place may be given a while before its caller is polled, so the bound is checked from the
            // start, where nothing can have been given earlier.
            let start = Timestamp::from_nanos(1_000_000_000_000);
            for (count, at) in begun.iter().enumerate() {
                let most = u128::from(*burst) + u128::from(*rate) * (*at - start).as_nanos() / 1_000_000_000;
                prop_assert!((count as u128) < most, "{} by {:?}", count + 1, *at - start);
            }
        }
    }
}

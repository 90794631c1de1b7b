//! Random callers of classes with limits, polled only when they are woken, as in an executor: each caller is admitted or
//! refused by its deadline, and the bounds of the limits hold.

use std::task::Poll;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use sluicegate::bulkhead::{BulkheadPermit, Class, ClassHandle};
use sluicegate::clock::{Clock, ManualClock};
use sluicegate::{Limit, Rate, Timestamp};

use super::support::*;

#[derive(Clone, Debug)]
enum LivenessStep {
    /// Acquires a permit and waits up to this many milliseconds.
    Acquire(usize, u64),
    /// Releases a permit.
    Release(prop::sample::Index),
    /// Drops a waiting caller.
    Cancel(prop::sample::Index),
    /// Polls all woken callers, the last one first.
    Run,
    /// Time passes.
    Advance(u64),
}

/// Rate per second, burst and importance of a class.
type RateShape = (u64, u64, u8);

struct QueuedCaller {
    class: usize,
    deadline: Timestamp,
    caller: ManualCaller,
}

struct LivenessFixture {
    clock: ManualClock,
    handles: Vec<ClassHandle>,
    permits: Vec<BulkheadPermit>,
    waiting: Vec<QueuedCaller>,
    /// Admission times by class.
    admitted_at: Vec<Vec<Timestamp>>,
}

impl LivenessFixture {
    fn new(permits: usize, shapes: &[RateShape]) -> Self {
        let clock = ManualClock::new();
        let classes: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .zip(shapes)
            .map(|(name, (rate, burst, importance))| {
                let limit = Limit::token_bucket(Rate::per_second(*rate).unwrap(), *burst).unwrap();
                (name, Class::new().importance(*importance).limit(limit))
            })
            .collect();
        let bulkhead = bulkhead(&clock, permits, &classes);
        let handles = classes.iter().map(|(name, _)| bulkhead.class(name).unwrap()).collect();
        let admitted_at = vec![Vec::new(); shapes.len()];
        Self { clock, handles, permits: Vec::new(), waiting: Vec::new(), admitted_at }
    }

    fn acquire(&mut self, class: usize, wait: u64) {
        let class = class % self.handles.len();
        let wait = Duration::from_millis(wait);
        let mut caller = ManualCaller::new(self.handles[class].acquire().within(wait));
        match caller.poll() {
            Poll::Pending => self.waiting.push(QueuedCaller { class, deadline: self.clock.now() + wait, caller }),
            Poll::Ready(Ok(permit)) => self.record_admission(class, permit),
            Poll::Ready(Err(_)) => {}
        }
    }

    fn record_admission(&mut self, class: usize, permit: BulkheadPermit) {
        self.admitted_at[class].push(self.clock.now());
        self.permits.push(permit);
    }

    fn poll_woken(&mut self) {
        while let Some(index) = self.waiting.iter().rposition(|waiter| waiter.caller.is_woken()) {
            if let Poll::Ready(result) = self.waiting[index].caller.poll() {
                let class = self.waiting.remove(index).class;
                result.into_iter().for_each(|permit| self.record_admission(class, permit));
            }
        }
        let now = self.clock.now();
        assert!(self.waiting.iter().all(|waiter| now < waiter.deadline), "a caller past its deadline was not woken");
    }

    fn step(&mut self, step: LivenessStep) {
        match step {
            LivenessStep::Acquire(class, wait) => self.acquire(class, wait),
            LivenessStep::Release(index) if !self.permits.is_empty() => {
                drop(self.permits.swap_remove(index.index(self.permits.len())));
            }
            LivenessStep::Cancel(index) if !self.waiting.is_empty() => {
                drop(self.waiting.swap_remove(index.index(self.waiting.len())));
            }
            LivenessStep::Run => self.poll_woken(),
            LivenessStep::Advance(millis) => self.clock.advance(Duration::from_millis(millis)),
            LivenessStep::Release(_) | LivenessStep::Cancel(_) => {}
        }
    }
}

fn step() -> impl Strategy<Value = LivenessStep> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0_usize..3, 0_u64..300).prop_map(|(class, wait)| LivenessStep::Acquire(class, wait)),
        4 => index().prop_map(LivenessStep::Release),
        1 => index().prop_map(LivenessStep::Cancel),
        4 => Just(LivenessStep::Run),
        2 => (0_u64..60).prop_map(LivenessStep::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_caller_is_decided_by_its_deadline_and_limits_hold(
        capacity in 1_usize..4,
        shapes in vec((10_u64..50, 1_u64..4, 0_u8..2), 1..4),
        steps in vec(step(), 1..80),
    ) {
        let mut fixture = LivenessFixture::new(capacity, &shapes);
        for step in steps {
            fixture.step(step);
        }
        // Release all permits; advance the clock from timer to timer.
        loop {
            fixture.poll_woken();
            fixture.permits.clear();
            fixture.poll_woken();
            if !fixture.permits.is_empty() {
                continue;
            }
            // No permit is in use: the remaining callers are blocked by a limit, and have a timer.
            for waiter in &fixture.waiting {
                prop_assert!(fixture.clock.next_timer().is_some_and(|next| next <= waiter.deadline));
            }
            match fixture.clock.next_timer() {
                Some(next) => fixture.clock.set(next),
                None => break,
            }
        }
        prop_assert!(fixture.waiting.is_empty());
        for (handle, (admitted_at, (rate, burst, _))) in fixture.handles.iter().zip(fixture.admitted_at.iter().zip(&shapes)) {
            prop_assert_eq!(handle.status().in_use, 0);
            // A permit may be granted some time before its caller is polled, so the bound is checked from the
            // start, before which nothing was granted.
            let start = Timestamp::from_nanos(1_000_000_000_000);
            for (count, at) in admitted_at.iter().enumerate() {
                let bound = u128::from(*burst) + u128::from(*rate) * (*at - start).as_nanos() / 1_000_000_000;
                prop_assert!((count as u128) < bound, "{} by {:?}", count + 1, *at - start);
            }
        }
    }
}

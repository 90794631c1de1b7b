//! Random callers compared to an exact model without incremental state.

use std::task::Poll;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use sluicegate::bulkhead::{BulkheadCause, BulkheadPermit, BulkheadRefusal, Class, ClassHandle};
use sluicegate::clock::{Clock, ManualClock};

use super::support::*;

#[derive(Clone, Debug)]
struct ClassShape {
    max: usize,
    reserve: usize,
    importance: u8,
    max_waiting: usize,
}

#[derive(Clone, Debug)]
enum ModelStep {
    /// Acquires a permit without waiting.
    TryAcquire(usize),
    /// Acquires a permit and waits up to this many milliseconds.
    Acquire(usize, u64),
    /// Releases a permit.
    Release(prop::sample::Index),
    /// Drops a waiting caller.
    Cancel(prop::sample::Index),
    /// Polls a waiting caller, woken or not.
    Poll(prop::sample::Index),
    /// Time passes.
    Advance(u64),
}

/// A waiting caller.
struct ModelWaiter {
    id: u64,
    class: usize,
    deadline: u64,
    caller: ManualCaller,
}

/// The state of the bulkhead according to the documented rules.
struct BulkheadModel {
    total: usize,
    shapes: Vec<ClassShape>,
    /// Permits in use or granted, by class.
    in_use: Vec<usize>,
    /// Queue in order of arrival: id, class, deadline.
    queue: Vec<(u64, usize, u64)>,
    granted: Vec<u64>,
}

impl BulkheadModel {
    fn can_admit(&self, class: usize) -> bool {
        let claimed: usize = self.shapes.iter().zip(&self.in_use).map(|(shape, used)| shape.reserve.max(*used)).sum();
        let (shape, used) = (&self.shapes[class], self.in_use[class]);
        used < shape.max && (used < shape.reserve || claimed < self.total)
    }

    fn queue_head(&self, class: usize) -> Option<(u64, usize, u64)> {
        self.queue.iter().copied().find(|(_, of, _)| *of == class)
    }

    /// Grants permits until no waiting caller may have one.
    fn dispatch(&mut self, now: u64) {
        loop {
            for class in 0..self.shapes.len() {
                while let Some((number, _, _)) = self.queue_head(class).filter(|(_, _, deadline)| *deadline < now) {
                    self.queue.retain(|(other, _, _)| *other != number);
                }
            }
            let heads =
                (0..self.shapes.len()).filter(|class| self.can_admit(*class)).filter_map(|c| self.queue_head(c));
            let Some((number, class, _)) =
                heads.min_by_key(|(number, class, _)| (u8::MAX - self.shapes[*class].importance, *number))
            else {
                return;
            };
            self.queue.retain(|(other, _, _)| *other != number);
            self.in_use[class] += 1;
            self.granted.push(number);
        }
    }

    /// Result for a queued caller: admitted, refused, or `None`.
    fn poll(&mut self, id: u64, deadline: u64, now: u64) -> Option<bool> {
        self.dispatch(now);
        if let Some(index) = self.granted.iter().position(|granted| *granted == id) {
            self.granted.remove(index);
            return Some(true);
        }
        let is_queued = self.queue.iter().any(|(other, _, _)| *other == id);
        if is_queued && now < deadline {
            return None;
        }
        self.queue.retain(|(other, _, _)| *other != id);
        self.dispatch(now);
        Some(false)
    }

    fn join(&mut self, id: u64, class: usize, deadline: u64, now: u64) -> ModelResult {
        self.queue.push((id, class, deadline));
        match self.poll(id, deadline, now) {
            Some(true) => ModelResult::Admitted,
            Some(false) => ModelResult::NoPermit,
            None => {
                let waiting = self.queue.iter().filter(|(_, of, _)| *of == class).count() - 1;
                if waiting < self.shapes[class].max_waiting {
                    return ModelResult::Queued;
                }
                self.queue.retain(|(other, _, _)| *other != id);
                ModelResult::QueueFull
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelResult {
    Admitted,
    Queued,
    NoPermit,
    QueueFull,
}

impl ModelResult {
    fn of(poll: &Poll<Result<BulkheadPermit, BulkheadRefusal>>) -> Self {
        match poll {
            Poll::Pending => Self::Queued,
            Poll::Ready(Ok(_)) => Self::Admitted,
            Poll::Ready(Err(refusal)) => match refusal.cause {
                BulkheadCause::NoPermit => Self::NoPermit,
                BulkheadCause::QueueFull { .. } => Self::QueueFull,
                BulkheadCause::Limit { .. } => panic!("there is no limit"),
            },
        }
    }
}

fn shapes() -> impl Strategy<Value = (usize, Vec<ClassShape>)> {
    (1_usize..8).prop_flat_map(|total| {
        let shape = (1..=total, 0..=total, 0_u8..3, 0_usize..4).prop_map(|(max, reserve, importance, max_waiting)| {
            ClassShape { max, reserve: reserve.min(max), importance, max_waiting }
        });
        vec(shape, 1..4).prop_map(move |mut shapes| {
            let mut left = total;
            for shape in &mut shapes {
                shape.reserve = shape.reserve.min(left);
                left -= shape.reserve;
            }
            (total, shapes)
        })
    })
}

fn step() -> impl Strategy<Value = ModelStep> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        2 => (0_usize..3).prop_map(ModelStep::TryAcquire),
        6 => (0_usize..3, 0_u64..6).prop_map(|(class, wait)| ModelStep::Acquire(class, wait)),
        4 => index().prop_map(ModelStep::Release),
        2 => index().prop_map(ModelStep::Cancel),
        3 => index().prop_map(ModelStep::Poll),
        2 => (0_u64..4).prop_map(ModelStep::Advance),
    ]
}

fn run_steps(total: usize, shapes: Vec<ClassShape>, steps: Vec<ModelStep>) {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let clock = ManualClock::new();
    let begun = clock.now();
    let classes: Vec<_> = NAMES
        .iter()
        .zip(&shapes)
        .map(|(name, shape)| {
            let class = Class::new().max(shape.max).reserve(shape.reserve);
            (*name, class.importance(shape.importance).max_waiting(shape.max_waiting))
        })
        .collect();
    let bulkhead = bulkhead(&clock, total, &classes);
    let handles: Vec<ClassHandle> = classes.iter().map(|(name, _)| bulkhead.class(name).unwrap()).collect();
    let used = vec![0; shapes.len()];
    let mut model = BulkheadModel { total, shapes, in_use: used, queue: Vec::new(), granted: Vec::new() };
    let mut permits: Vec<(usize, BulkheadPermit)> = Vec::new();
    let mut waiting: Vec<ModelWaiter> = Vec::new();
    let mut arrivals = 0;

    for step in steps {
        let now = u64::try_from((clock.now() - begun).as_millis()).unwrap();
        match step {
            ModelStep::TryAcquire(class) => {
                let class = class % handles.len();
                arrivals += 1;
                let expected = model.join(arrivals, class, now, now);
                let acquired = Poll::Ready(handles[class].try_acquire());
                assert_eq!(ModelResult::of(&acquired), expected);
                if let Poll::Ready(Ok(permit)) = acquired {
                    permits.push((class, permit));
                }
            }
            ModelStep::Acquire(class, wait) => {
                let class = class % handles.len();
                arrivals += 1;
                let deadline = now + wait;
                let expected = model.join(arrivals, class, deadline, now);
                let mut caller = ManualCaller::new(handles[class].acquire().within(Duration::from_millis(wait)));
                let polled = caller.poll();
                assert_eq!(ModelResult::of(&polled), expected);
                match polled {
                    Poll::Pending => waiting.push(ModelWaiter { id: arrivals, class, deadline, caller }),
                    Poll::Ready(Ok(permit)) => permits.push((class, permit)),
                    Poll::Ready(Err(_)) => {}
                }
            }
            ModelStep::Release(index) if !permits.is_empty() => {
                let (class, permit) = permits.swap_remove(index.index(permits.len()));
                drop(permit);
                model.in_use[class] -= 1;
                model.dispatch(now);
            }
            ModelStep::Cancel(index) if !waiting.is_empty() => {
                let cancelled = waiting.swap_remove(index.index(waiting.len()));
                drop(cancelled.caller);
                if let Some(index) = model.granted.iter().position(|granted| *granted == cancelled.id) {
                    model.granted.remove(index);
                    model.in_use[cancelled.class] -= 1;
                }
                model.queue.retain(|(other, _, _)| *other != cancelled.id);
                model.dispatch(now);
            }
            ModelStep::Poll(index) if !waiting.is_empty() => {
                let index = index.index(waiting.len());
                let waiter = &mut waiting[index];
                let expected = model.poll(waiter.id, waiter.deadline, now);
                let polled = waiter.caller.poll();
                match polled {
                    Poll::Pending => assert_eq!(expected, None),
                    Poll::Ready(result) => {
                        assert_eq!(expected, Some(result.is_ok()));
                        let class = waiting.swap_remove(index).class;
                        permits.extend(result.ok().map(|permit| (class, permit)));
                    }
                }
            }
            ModelStep::Advance(millis) => clock.advance(Duration::from_millis(millis)),
            ModelStep::Release(_) | ModelStep::Cancel(_) | ModelStep::Poll(_) => {}
        }

        let status = bulkhead.status();
        assert!(status.in_use <= total);
        for (class, entry) in status.classes.iter().enumerate() {
            assert!(entry.in_use <= entry.max);
            assert_eq!(entry.in_use, model.in_use[class]);
            assert_eq!(entry.waiting, model.queue.iter().filter(|(_, of, _)| *of == class).count());
        }
        for waiter in &waiting {
            let decided = !model.queue.iter().any(|(number, _, _)| *number == waiter.id);
            let now = u64::try_from((clock.now() - begun).as_millis()).unwrap();
            if decided || waiter.deadline <= now {
                assert!(waiter.caller.is_woken(), "a decided caller was not woken");
            }
        }
    }
    drop((permits, waiting));
    assert_eq!((bulkhead.status().in_use, clock.pending_timers()), (0, 0));
    assert!(bulkhead.status().classes.iter().all(|class| class.waiting == 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_caller_gets_the_result_of_the_model((total, shapes) in shapes(), steps in vec(step(), 1..80)) {
        run_steps(total, shapes, steps);
    }
}

//! Random callers beside an exact model, which counts everything anew each time.

use std::task::Poll;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use sluicegate::clock::{Clock, ManualClock};
use sluicegate::pool::{Cause, Class, Entrance, Place, Refusal};

use super::support::*;

#[derive(Clone, Debug)]
struct Shape {
    max: usize,
    reserve: usize,
    importance: u8,
    max_waiting: usize,
}

#[derive(Clone, Debug)]
enum Step {
    /// Asks for a place now.
    Enter(usize),
    /// Arrives and waits for so many milliseconds at most.
    Acquire(usize, u64),
    /// One of those inside leaves.
    Leave(prop::sample::Index),
    /// One of those who wait goes away.
    Cancel(prop::sample::Index),
    /// One of those who wait is polled, woken or not.
    Poll(prop::sample::Index),
    /// Time passes.
    Advance(u64),
}

/// One who was not let in at once and was not told otherwise yet.
struct Waiting {
    number: u64,
    class: usize,
    deadline: u64,
    caller: Caller,
}

/// Who is where, by the rules as they are written down.
struct Model {
    total: usize,
    shapes: Vec<Shape>,
    /// By class: inside, or given a place.
    used: Vec<usize>,
    /// In line, in order of arrival: number, class, deadline.
    line: Vec<(u64, usize, u64)>,
    granted: Vec<u64>,
}

impl Model {
    fn may_enter(&self, class: usize) -> bool {
        let claimed: usize = self.shapes.iter().zip(&self.used).map(|(shape, used)| shape.reserve.max(*used)).sum();
        let (shape, used) = (&self.shapes[class], self.used[class]);
        used < shape.max && (used < shape.reserve || claimed < self.total)
    }

    fn first(&self, class: usize) -> Option<(u64, usize, u64)> {
        self.line.iter().copied().find(|(_, of, _)| *of == class)
    }

    /// Gives out places until nobody may have one.
    fn settle(&mut self, now: u64) {
        loop {
            for class in 0..self.shapes.len() {
                while let Some((number, _, _)) = self.first(class).filter(|(_, _, deadline)| *deadline < now) {
                    self.line.retain(|(other, _, _)| *other != number);
                }
            }
            let heads = (0..self.shapes.len()).filter(|class| self.may_enter(*class)).filter_map(|c| self.first(c));
            let Some((number, class, _)) =
                heads.min_by_key(|(number, class, _)| (u8::MAX - self.shapes[*class].importance, *number))
            else {
                return;
            };
            self.line.retain(|(other, _, _)| *other != number);
            self.used[class] += 1;
            self.granted.push(number);
        }
    }

    /// What a caller in line finds: let in, refused, or neither.
    fn poll(&mut self, number: u64, deadline: u64, now: u64) -> Option<bool> {
        self.settle(now);
        if let Some(place) = self.granted.iter().position(|granted| *granted == number) {
            self.granted.remove(place);
            return Some(true);
        }
        let in_line = self.line.iter().any(|(other, _, _)| *other == number);
        if in_line && now < deadline {
            return None;
        }
        self.line.retain(|(other, _, _)| *other != number);
        self.settle(now);
        Some(false)
    }

    fn arrive(&mut self, number: u64, class: usize, deadline: u64, now: u64) -> Arrived {
        self.line.push((number, class, deadline));
        match self.poll(number, deadline, now) {
            Some(true) => Arrived::In,
            Some(false) => Arrived::NoPlace,
            None => {
                let waiting = self.line.iter().filter(|(_, of, _)| *of == class).count() - 1;
                if waiting < self.shapes[class].max_waiting {
                    return Arrived::Waits;
                }
                self.line.retain(|(other, _, _)| *other != number);
                Arrived::LineFull
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrived {
    In,
    Waits,
    NoPlace,
    LineFull,
}

impl Arrived {
    fn of(poll: &Poll<Result<Place, Refusal>>) -> Self {
        match poll {
            Poll::Pending => Self::Waits,
            Poll::Ready(Ok(_)) => Self::In,
            Poll::Ready(Err(refusal)) => match refusal.cause {
                Cause::NoPlace => Self::NoPlace,
                Cause::LineFull { .. } => Self::LineFull,
                Cause::Limit { .. } => panic!("there is no limit"),
            },
        }
    }
}

fn shapes() -> impl Strategy<Value = (usize, Vec<Shape>)> {
    (1_usize..8).prop_flat_map(|total| {
        let shape = (1..=total, 0..=total, 0_u8..3, 0_usize..4).prop_map(|(max, reserve, importance, max_waiting)| {
            Shape { max, reserve: reserve.min(max), importance, max_waiting }
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

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        2 => (0_usize..3).prop_map(Step::Enter),
        6 => (0_usize..3, 0_u64..6).prop_map(|(class, wait)| Step::Acquire(class, wait)),
        4 => index().prop_map(Step::Leave),
        2 => index().prop_map(Step::Cancel),
        3 => index().prop_map(Step::Poll),
        2 => (0_u64..4).prop_map(Step::Advance),
    ]
}

fn play(total: usize, shapes: Vec<Shape>, steps: Vec<Step>) {
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
    let entrances: Vec<Entrance> = classes.iter().map(|(name, _)| bulkhead.class(name).unwrap()).collect();
    let used = vec![0; shapes.len()];
    let mut model = Model { total, shapes, used, line: Vec::new(), granted: Vec::new() };
    let mut inside: Vec<(usize, Place)> = Vec::new();
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut arrivals = 0;

    for step in steps {
        let now = u64::try_from((clock.now() - begun).as_millis()).unwrap();
        match step {
            Step::Enter(class) => {
                let class = class % entrances.len();
                arrivals += 1;
                let expected = model.arrive(arrivals, class, now, now);
                let entered = Poll::Ready(entrances[class].enter());
                assert_eq!(Arrived::of(&entered), expected);
                if let Poll::Ready(Ok(place)) = entered {
                    inside.push((class, place));
                }
            }
            Step::Acquire(class, wait) => {
                let class = class % entrances.len();
                arrivals += 1;
                let deadline = now + wait;
                let expected = model.arrive(arrivals, class, deadline, now);
                let mut caller = Caller::new(entrances[class].acquire().within(Duration::from_millis(wait)));
                let polled = caller.poll();
                assert_eq!(Arrived::of(&polled), expected);
                match polled {
                    Poll::Pending => waiting.push(Waiting { number: arrivals, class, deadline, caller }),
                    Poll::Ready(Ok(place)) => inside.push((class, place)),
                    Poll::Ready(Err(_)) => {}
                }
            }
            Step::Leave(index) if !inside.is_empty() => {
                let (class, place) = inside.swap_remove(index.index(inside.len()));
                drop(place);
                model.used[class] -= 1;
                model.settle(now);
            }
            Step::Cancel(index) if !waiting.is_empty() => {
                let gone = waiting.swap_remove(index.index(waiting.len()));
                drop(gone.caller);
                if let Some(place) = model.granted.iter().position(|granted| *granted == gone.number) {
                    model.granted.remove(place);
                    model.used[gone.class] -= 1;
                }
                model.line.retain(|(other, _, _)| *other != gone.number);
                model.settle(now);
            }
            Step::Poll(index) if !waiting.is_empty() => {
                let index = index.index(waiting.len());
                let asks = &mut waiting[index];
                let expected = model.poll(asks.number, asks.deadline, now);
                let polled = asks.caller.poll();
                match polled {
                    Poll::Pending => assert_eq!(expected, None),
                    Poll::Ready(result) => {
                        assert_eq!(expected, Some(result.is_ok()));
                        let class = waiting.swap_remove(index).class;
                        inside.extend(result.ok().map(|place| (class, place)));
                    }
                }
            }
            Step::Advance(millis) => clock.advance(Duration::from_millis(millis)),
            Step::Leave(_) | Step::Cancel(_) | Step::Poll(_) => {}
        }

        let status = bulkhead.status();
        assert!(status.in_use <= total);
        for (class, entry) in status.classes.iter().enumerate() {
            assert!(entry.in_use <= entry.max);
            assert_eq!(entry.in_use, model.used[class]);
            assert_eq!(entry.waiting, model.line.iter().filter(|(_, of, _)| *of == class).count());
        }
        for asks in &waiting {
            let decided = !model.line.iter().any(|(number, _, _)| *number == asks.number);
            let now = u64::try_from((clock.now() - begun).as_millis()).unwrap();
            if decided || asks.deadline <= now {
                assert!(asks.caller.is_woken(), "something has happened to it, and nobody has told it");
            }
        }
    }
    drop((inside, waiting));
    assert_eq!((bulkhead.status().in_use, clock.alarms()), (0, 0));
    assert!(bulkhead.status().classes.iter().all(|class| class.waiting == 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_caller_fares_as_the_rules_say((total, shapes) in shapes(), steps in vec(step(), 1..80)) {
        play(total, shapes, steps);
    }
}

//! `adaptive: auto` in plain code: a program that asks before it works and says how that went, against a simulated
//! server of four workers, on a clock turned by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate::adaptive::pilot::{Pilot, TICK};
use sluicegate::adaptive::signals::Machine;
use sluicegate::clock::ManualClock;
use sluicegate::gate::{Ending, Gate};
use sluicegate::rule::{Adaptive, Auto, Request, Rule};
use sluicegate::sluice::{Admission, Cause};
use sluicegate::{Outcome, Sluice};

const STEP: Duration = Duration::from_millis(1);
const WORKERS: usize = 4;
/// So long takes a request, in steps; so the four of them do 400 a second.
const TAKES: u32 = 10;

/// A program and what it works with.
struct Program {
    clock: ManualClock,
    sluice: Sluice,
    gate: Gate,
    pilot: Pilot,
    /// Those that wait for a place.
    outside: Vec<Pin<Box<Admission>>>,
    /// Those that were let in and wait for a worker, with when that was.
    inside: VecDeque<(Outcome, u64)>,
    /// What the workers have, and for how many steps more.
    at_work: Vec<(Outcome, u64, u32)>,
    now: u64,
    seen: Seen,
}

/// What was seen since it was last asked.
#[derive(Default)]
struct Seen {
    answered: u32,
    refused: u32,
    /// How long each took once it was let in, in steps.
    times: Vec<u64>,
    /// How many places there were at each tick.
    places: Vec<usize>,
    reason: String,
}

impl Program {
    fn new() -> Self {
        let clock = ManualClock::new();
        let protect = Rule { adaptive: Some(Adaptive::Auto(Auto::default())), ..Rule::new("protect", []) };
        let sluice = Sluice::builder().rule(protect).clock(clock.clone()).build().unwrap();
        let gate = sluice.gates().remove(0).1;
        let pilot = Pilot::new(&sluice, Machine::at("/there/is/no/such/folder"));
        let (outside, inside, at_work) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { clock, sluice, gate, pilot, outside, inside, at_work, now: 0, seen: Seen::default() }
    }

    /// Works for so many seconds while so many requests come in each; `fails`: they end at once, and badly.
    fn run(&mut self, seconds: u64, per_second: u64, fails: bool) -> Seen {
        for _ in 0..seconds * 1_000 {
            if u128::from(self.now).is_multiple_of(TICK.as_millis()) {
                assert!(self.pilot.tick());
                self.seen.places.push(self.gate.orders().places.expect("auto orders places"));
            }
            for _ in self.now * per_second / 1_000..(self.now + 1) * per_second / 1_000 {
                self.outside.push(Box::pin(self.sluice.admit(&Request::new("GET", "/"))));
            }
            self.let_in();
            self.work(fails);
            self.clock.advance(STEP);
            self.now += 1;
        }
        std::mem::take(&mut self.seen)
    }

    fn let_in(&mut self) {
        let mut outside = std::mem::take(&mut self.outside);
        outside.retain_mut(|asked| {
            let Poll::Ready(outcome) = asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                return true;
            };
            if outcome.is_admitted() {
                self.inside.push_back((outcome, self.now));
            } else {
                assert_eq!(outcome.cause(), Cause::Strain(0));
                self.seen.refused += 1;
                self.seen.reason.clone_from(&outcome.strain().expect("it says why").reason);
            }
            false
        });
        self.outside = outside;
    }

    fn work(&mut self, fails: bool) {
        while self.at_work.len() < WORKERS
            && let Some((outcome, since)) = self.inside.pop_front()
        {
            self.at_work.push((outcome, since, TAKES));
        }
        let (now, seen) = (self.now, &mut self.seen);
        self.at_work.retain_mut(|(outcome, since, left)| {
            *left -= 1;
            let is_over = *left == 0 || fails;
            if is_over {
                outcome.note(if fails { Ending::Failed } else { Ending::Well });
                seen.answered += 1;
                seen.times.push(now + 1 - *since);
            }
            !is_over
        });
    }
}

impl Seen {
    /// How many places there usually were: at single moments experiments withdraw some.
    fn usual_places(&mut self) -> usize {
        self.places.sort_unstable();
        self.places[self.places.len() / 2]
    }
}

#[test]
fn twice_what_can_be_done_is_held_back_and_the_rest_is_served_in_time() {
    let mut program = Program::new();
    program.run(10, 800, false);
    let mut seen = program.run(10, 800, false);
    // Of 8,000 that came, 4,000 could be answered.
    assert!(seen.answered >= 3_800, "{} answered", seen.answered);
    assert!((3_900..=4_200).contains(&seen.refused), "{} refused", seen.refused);
    seen.times.sort_unstable();
    let p99 = seen.times[seen.times.len() * 99 / 100];
    assert!(p99 <= 60, "{p99} ms, where nobody who waits for a worker would take {TAKES}");
    let places = seen.usual_places();
    assert!((WORKERS..=5 * WORKERS).contains(&places), "{places} places");
    assert!(seen.reason.starts_with("places ") && seen.reason.contains(" average "), "{}", seen.reason);
    // The crowd leaves: nobody is held back any more.
    program.run(2, 200, false);
    let calm = program.run(10, 200, false);
    assert_eq!((calm.refused, calm.answered), (0, 2_000));
}

#[test]
fn failures_take_places_away() {
    let mut program = Program::new();
    let before = program.run(20, 360, false).usual_places();
    program.run(2, 800, true);
    let during = program.run(2, 800, true).usual_places();
    assert!(during < before, "{before} places before, {during} after two seconds of failures");
}

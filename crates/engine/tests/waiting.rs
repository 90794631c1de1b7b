//! Callers in line: first in, first out, each at the promised nanosecond, and nobody for longer than
//! there is hope.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{Acquire, KeyedLimiter, Limit, Limiter, Pass, Reason, Verdict};
use support::*;

/// Who left and when, in milliseconds; everybody must have been let in.
fn departures(left: &[Left<Result<Pass, sluicegate_engine::Refused>>]) -> Vec<(usize, u128)> {
    left.iter()
        .map(|left| {
            left.output.as_ref().expect("let in");
            assert_eq!(left.at.subsec_nanos() % 1_000_000, 0, "{left:?} is not on the millisecond");
            (left.task, left.at.as_millis())
        })
        .collect()
}

fn keyed(clock: &ManualClock, limit: Limit) -> KeyedLimiter<str> {
    Limiter::builder().limit(limit).clock(clock.clone()).build_keyed(1_000).unwrap()
}

/// The wait of a caller that was not let in because its turn would come too late.
fn too_late(acquire: Acquire) -> Duration {
    let refused = Task::new(acquire).now().unwrap_err();
    assert_eq!(refused.reason, Reason::Deadline);
    refused.retry_after().unwrap()
}

#[test]
fn thirty_at_once_leave_one_by_one_and_half_of_them_are_refused_at_once() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [leaky("5/s", 15)]);
    let mut line = Vec::new();
    let mut refused = 0;
    for _ in 0..30 {
        let mut task = Task::new(limiter.acquire());
        match task.poll() {
            Poll::Ready(Ok(_)) => assert!(line.is_empty(), "only the first leaves at once"),
            Poll::Ready(Err(no)) => {
                assert_eq!((no.reason, no.retry_after()), (Reason::LineFull, Some(secs(3))));
                refused += 1;
            }
            Poll::Pending => line.push(task),
        }
    }
    assert_eq!((refused, line.len(), limiter.waiting()), (15, 14, 14));
    let left = run(&clock, &mut line);
    assert_eq!(departures(&left), (0..14).map(|place| (place, 200 * (place as u128 + 1))).collect::<Vec<_>>());
    assert_eq!((limiter.waiting(), clock.alarms()), (0, 0));
}

#[test]
fn callers_of_one_key_leave_in_order_and_keys_do_not_hold_up_each_other() {
    let clock = ManualClock::new();
    let limiter = keyed(&clock, bucket("10/s", 1));
    for key in ["slow", "other"] {
        drop(limiter.enter(key, 1).unwrap());
    }
    let mut line: Vec<_> = (0..8).map(|i| waiting(limiter.acquire(["slow", "other"][i % 2]))).collect();
    assert!(limiter.check("third").is_allowed());
    let mut left = departures(&run(&clock, &mut line));
    left.sort_unstable();
    let expected: Vec<_> = (0..8).map(|i| (i, 100 * (i as u128 / 2 + 1))).collect();
    assert_eq!(left, expected);
}

#[test]
fn nobody_leaves_a_nanosecond_before_its_turn() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("3/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let mut line = [waiting(limiter.acquire()), waiting(limiter.acquire())];
    for place in 0..2 {
        let turn = clock.next_alarm().unwrap() - clock.now();
        assert_eq!(turn, Duration::from_nanos(333_333_334));
        assert!(advance(&clock, turn - NANO, &mut line).is_empty());
        assert!(line[place].poll().is_pending());
        let left = advance(&clock, NANO, &mut line);
        assert_eq!(left.iter().map(|left| left.task).collect::<Vec<_>>(), [place]);
    }
}

#[test]
fn who_cannot_make_it_is_told_at_once_and_who_can_is_let_in_at_the_very_deadline() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    assert_eq!(too_late(limiter.acquire().within(secs(1) - NANO)), secs(1));
    let mut line = vec![waiting(limiter.acquire().within(secs(1)))];
    assert_eq!(too_late(limiter.acquire().within(secs(2) - NANO)), secs(2));
    assert_eq!(too_late(limiter.acquire().within(Duration::ZERO)), secs(2));
    line.push(waiting(limiter.acquire().within(secs(2))));
    assert_eq!(too_late(limiter.acquire().within(ms(2_500))), secs(3));
    assert_eq!(limiter.waiting(), 2);
    assert_eq!(departures(&run(&clock, &mut line)), [(0, 1_000), (1, 2_000)]);
    assert_eq!(clock.alarms(), 0);
}

#[test]
fn a_line_is_bounded_per_key_and_in_all() {
    let clock = ManualClock::new();
    let build = |per_key, total| -> KeyedLimiter<str> {
        let builder = Limiter::builder().limit(bucket("1/s", 1)).clock(clock.clone());
        builder.max_waiting(per_key).max_waiting_total(total).build_keyed(100).unwrap()
    };
    let full = |limiter: &KeyedLimiter<str>, key| {
        let refused = Task::new(limiter.acquire(key)).now().unwrap_err();
        assert_eq!(refused.reason, Reason::LineFull);
        refused.retry_after().unwrap()
    };
    let limiter = build(2, 3);
    for key in ["a", "b", "c"] {
        drop(limiter.enter(key, 1).unwrap());
    }
    let first = waiting(limiter.acquire("a"));
    let second = waiting(limiter.acquire("a"));
    assert_eq!(full(&limiter, "a"), secs(3));
    let _third = waiting(limiter.acquire("b"));
    full(&limiter, "c");
    drop(first);
    let _fourth = waiting(limiter.acquire("c"));
    full(&limiter, "a");
    drop(second);
    assert_eq!(limiter.waiting(), 2);

    let nobody_waits = build(0, 10);
    drop(nobody_waits.enter("a", 1).unwrap());
    assert_eq!(full(&nobody_waits, "a"), secs(1));
    assert_eq!(full(&build_empty(&clock), "a"), secs(1));
}

/// A limiter in which nobody may wait at all, its only key taken.
fn build_empty(clock: &ManualClock) -> KeyedLimiter<str> {
    let builder = Limiter::builder().limit(bucket("1/s", 1)).clock(clock.clone()).max_waiting_total(0);
    let limiter = builder.build_keyed(100).unwrap();
    drop(limiter.enter("a", 1).unwrap());
    limiter
}

#[test]
fn whoever_leaves_the_line_moves_everybody_behind_up() {
    for gone in 0..4 {
        let clock = ManualClock::new();
        let limiter = limiter(&clock, [leaky("10/s", 6)]);
        drop(limiter.enter(1).unwrap());
        let mut line: Vec<_> = (0..4).map(|_| waiting(limiter.acquire())).collect();
        let _last = waiting(limiter.acquire());
        assert_eq!(Task::new(limiter.acquire()).now().unwrap_err().reason, Reason::LineFull);
        assert_eq!(clock.alarms(), 1, "one timer, however many wait");
        drop(line.remove(gone));
        assert_eq!(limiter.waiting(), 4);
        line.push(waiting(limiter.acquire()));
        assert_eq!(limiter.check_cost(1).wait(), Some(ms(600)));
        drop(_last);
        let left = run(&clock, &mut line);
        assert_eq!(departures(&left), [(0, 100), (1, 200), (2, 300), (3, 400)], "without place {gone}");
        assert_eq!((limiter.waiting(), clock.alarms()), (0, 0));
    }
}

#[test]
fn a_caller_dropped_after_it_was_woken_passes_its_turn_on() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let first = waiting(limiter.acquire());
    let mut second = waiting(limiter.acquire());
    clock.advance(secs(1));
    assert!(first.is_woken() && !second.is_woken());
    drop(first);
    assert!(second.poll_if_woken().expect("its turn has come").is_ok());
    assert_eq!((limiter.waiting(), clock.alarms()), (0, 0));
    assert!(!limiter.check().is_allowed(), "one token was taken, and only one");
}

#[test]
fn dropping_everybody_leaves_nothing_behind() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 2), permits(1)]);
    let held = limiter.enter(1).unwrap();
    let mut line: Vec<_> = (1..10).map(|i| waiting(limiter.acquire().within(secs(10 * i)))).collect();
    assert_eq!((limiter.waiting(), clock.alarms()), (9, 9));
    while !line.is_empty() {
        drop(line.remove(line.len() / 2));
        assert_eq!((limiter.waiting(), clock.alarms()), (line.len(), line.len()));
    }
    assert!(!limiter.check().is_allowed());
    drop(held);
    assert!(limiter.check().is_allowed(), "nobody who left took anything");
}

#[test]
fn a_future_that_was_never_polled_is_in_nobodys_way() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    let idle = limiter.acquire().into_future();
    assert!(limiter.check().is_allowed());
    drop(idle);
    assert_eq!((limiter.waiting(), clock.alarms()), (0, 0));
}

#[test]
fn nobody_passes_a_line() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("2/s", 2)]);
    drop(limiter.enter(2).unwrap());
    let mut line = [waiting(limiter.acquire().cost(2)), waiting(limiter.acquire())];
    clock.advance(ms(500));
    // One token is there, but it belongs to the line: 2 at 1 s, 1 at 1.5 s, then this.
    assert_eq!(limiter.check().wait(), Some(ms(1_500)));
    assert_eq!(wait_of(limiter.enter(1)), Some(ms(1_500)));
    assert_eq!(wait_of(limiter.enter(2)), Some(ms(2_000)));
    assert!(limiter.check_cost(0).is_allowed(), "a look is in nobody's way");
    assert_eq!(limiter.check_cost(3).verdict, Verdict::Never);
    let behind = limiter.check().wait().unwrap();
    assert_eq!(departures(&advance(&clock, ms(500), &mut line)), [(0, 500)]);
    assert_eq!(departures(&advance(&clock, ms(500), &mut line)), [(1, 500)]);
    clock.advance(behind - ms(1_000) - NANO);
    assert!(!limiter.check().is_allowed(), "a nanosecond before the promised moment");
    clock.advance(NANO);
    assert!(limiter.check().is_allowed());
}

#[test]
fn permits_go_to_the_longest_waiting_however_their_holders_end() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(2)]);
    let mut inside = vec![limiter.enter(1).unwrap(), limiter.enter(1).unwrap()];
    let mut line: Vec<_> = (0..6).map(|_| waiting(limiter.acquire())).collect();
    assert_eq!(limiter.check().verdict, Verdict::Denied { retry_after: None });
    assert_eq!(clock.alarms(), 0, "no clock can tell");
    let mut left = Vec::new();
    for turn in 0..6 {
        let pass = inside.remove(0);
        match turn % 5 {
            0 => drop(pass),
            4 => drop(pass.into_held()),
            1 => pass.give_back(),
            2 => pass.settle(9),
            _ => {
                let holder = || {
                    let _held = pass;
                    resume_unwind(Box::new("the holder failed"));
                };
                assert!(catch_unwind(AssertUnwindSafe(holder)).is_err());
            }
        }
        poll_woken(&clock, clock.now(), &mut line, &mut left);
        assert_eq!(left.iter().map(|left| left.task).collect::<Vec<_>>(), [turn]);
        inside.push(left.remove(0).output.unwrap());
        assert_eq!(limiter.status()[0].remaining, 0);
    }
    drop(inside);
    assert_eq!((limiter.status()[0].remaining, limiter.waiting()), (2, 0));
}

#[test]
fn a_caller_waiting_for_a_permit_gives_up_at_its_deadline() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(1)]);
    let held = limiter.enter(1).unwrap();
    let refused = Task::new(limiter.acquire().within(Duration::ZERO)).now().unwrap_err();
    assert_eq!((refused.reason, refused.retry_after()), (Reason::Deadline, None));
    let mut line = [
        waiting(limiter.acquire().within(secs(1))),
        waiting(limiter.acquire().within(secs(1))),
        waiting(limiter.acquire().within(secs(5))),
    ];
    assert!(advance(&clock, secs(1) - NANO, &mut line).is_empty());
    let mut left = advance(&clock, NANO, &mut line);
    left.extend(advance(&clock, NANO, &mut line));
    let gone: Vec<_> =
        left.iter().map(|left| (left.task, left.output.as_ref().map(|_| ()).map_err(|no| no.reason))).collect();
    assert_eq!(gone, [(0, Err(Reason::Deadline)), (1, Err(Reason::Deadline))]);
    drop(held);
    assert!(line[2].poll_if_woken().unwrap().is_ok());
    assert_eq!((limiter.waiting(), clock.alarms()), (0, 0));
}

#[test]
fn giving_tokens_back_lets_the_line_move_up() {
    let clock = ManualClock::new();
    let builder = Limiter::builder().limit(bucket("1/s", 10)).clock(clock.clone()).reservable();
    let limiter = builder.build().unwrap();
    let estimate = limiter.enter(10).unwrap();
    let mut line = vec![waiting(limiter.acquire().cost(4)), waiting(limiter.acquire().cost(4))];
    clock.advance(secs(1));
    assert!(line.iter_mut().all(|task| task.poll_if_woken().is_none()));
    estimate.settle(4);
    let mut left = Vec::new();
    poll_woken(&clock, clock.now(), &mut line, &mut left);
    assert_eq!(left.iter().map(|left| left.task).collect::<Vec<_>>(), [0]);
    drop(left);
    let left = run(&clock, &mut line);
    assert_eq!(departures(&left), [(1, 2_000)]);
}

#[test]
fn a_changed_quota_holds_for_those_who_wait_already() {
    for (to, first, second) in [("10/s", 600, 700), ("1/10s", 10_500, 20_500)] {
        let clock = ManualClock::new();
        let limiter = limiter(&clock, [bucket("1/s", 1)]);
        drop(limiter.enter(1).unwrap());
        let mut line = [waiting(limiter.acquire()), waiting(limiter.acquire())];
        let start = clock.now();
        clock.advance(ms(500));
        limiter.change([bucket(to, 1)]).unwrap();
        let mut left = Vec::new();
        poll_woken(&clock, start, &mut line, &mut left);
        assert_eq!(limiter.check().wait(), Some(ms(second + second - first) - ms(500)));
        let left = run(&clock, &mut line);
        assert_eq!(departures(&left), [(0, u128::from(first) - 500), (1, u128::from(second) - 500)], "to {to}");
    }
}

#[test]
fn a_changed_number_of_permits_lets_those_in_who_fit_now() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(1)]);
    let _held = limiter.enter(1).unwrap();
    let mut line: Vec<_> = (0..4).map(|_| waiting(limiter.acquire())).collect();
    limiter.change([permits(3)]).unwrap();
    let mut left = Vec::new();
    poll_woken(&clock, clock.now(), &mut line, &mut left);
    assert_eq!(departures(&left), [(0, 0), (1, 0)]);
    drop(left);
    let mut left = Vec::new();
    poll_woken(&clock, clock.now(), &mut line, &mut left);
    assert_eq!(departures(&left), [(2, 0), (3, 0)]);
}

#[test]
fn a_reset_lets_the_line_go() {
    let clock = ManualClock::new();
    let limiter = keyed(&clock, bucket("1/h", 1));
    drop(limiter.enter("a", 1).unwrap());
    let mut line = [waiting(limiter.acquire("a")), waiting(limiter.acquire("a"))];
    limiter.reset("a");
    assert!(line[0].poll_if_woken().unwrap().is_ok());
    assert!(line[1].poll_if_woken().is_none());
}

#[test]
fn costs_of_any_size_wait_for_as_long_as_they_take() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 10)]);
    drop(limiter.enter(10).unwrap());
    let mut line: Vec<_> = [5, 1, 10].map(|cost| waiting(limiter.acquire().cost(cost))).into();
    assert_eq!(Task::new(limiter.acquire().cost(0)).now().unwrap().cost(), 0);
    let never = Task::new(limiter.acquire().cost(11)).now().unwrap_err();
    assert_eq!((never.decision.verdict, never.reason), (Verdict::Never, Reason::Limit));
    assert_eq!(departures(&run(&clock, &mut line)), [(0, 500), (1, 600), (2, 1_600)]);
    let never = Task::new(limiter.acquire().cost(u64::MAX)).now().unwrap_err();
    assert_eq!(never.decision.verdict, Verdict::Never);
}

/// The schedule of Guava's `RateLimiter.create(2, 4, SECONDS)`.
#[test]
fn a_cold_limiter_warms_up_as_guava_does() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [Limit::warm_up(rate("2/s"), secs(4), 3).unwrap()]);
    for wait in [0, 1_375, 1_125, 875, 625, 500, 500, 500] {
        let start = clock.now();
        let mut one = [Task::new(limiter.acquire())];
        if let Poll::Ready(pass) = one[0].poll() {
            drop(pass.unwrap());
        } else {
            departures(&run(&clock, &mut one));
        }
        assert_eq!(clock.now() - start, ms(wait));
    }
}

#[test]
fn a_future_that_moved_to_another_task_is_woken_there() {
    for first in [true, false] {
        let clock = ManualClock::new();
        let limiter = limiter(&clock, [bucket("1/s", 1)]);
        drop(limiter.enter(1).unwrap());
        let mut before = (!first).then(|| waiting(limiter.acquire()));
        let mut moved = waiting(limiter.acquire());
        let old = moved.change_waker();
        assert!(moved.poll().is_pending());
        assert_eq!(clock.alarms(), 1);
        for _ in 0..if first { 1 } else { 2 } {
            clock.advance(secs(1));
            before.as_mut().map(Task::poll_if_woken);
            if let Some(done) = moved.poll_if_woken() {
                drop(done.unwrap());
                assert_eq!(old.rung(), 0);
            }
        }
        assert_eq!((limiter.waiting(), clock.alarms()), (0, 0));
    }
}

#[test]
fn being_polled_too_often_changes_nothing() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let mut line = [waiting(limiter.acquire()), waiting(limiter.acquire().within(secs(3)))];
    for _ in 0..100 {
        assert!(line.iter_mut().all(|task| task.poll().is_pending()));
    }
    assert_eq!((limiter.waiting(), clock.alarms()), (2, 2));
    assert_eq!(departures(&run(&clock, &mut line)), [(0, 1_000), (1, 2_000)]);
}

#[test]
fn a_clock_that_steps_back_makes_the_line_wait_and_not_run() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let mut line = [waiting(limiter.acquire())];
    let turn = clock.now() + secs(1);
    clock.set(sluicegate_engine::Timestamp::ZERO);
    assert!(line[0].poll().is_pending());
    run(&clock, &mut line);
    assert_eq!(clock.now(), turn);
}

#[test]
fn threads_wait_in_order_too() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let start = clock.now();
    let (say, hear) = mpsc::channel();
    std::thread::scope(|scope| {
        for caller in 0..5 {
            let (say, limiter, clock) = (say.clone(), &limiter, &clock);
            scope.spawn(move || {
                drop(limiter.acquire().blocking().unwrap());
                say.send((caller, clock.now() - start)).unwrap();
            });
            while limiter.waiting() <= caller {
                std::thread::yield_now();
            }
        }
        let refused = limiter.acquire().within(secs(5)).blocking().unwrap_err();
        assert_eq!((refused.reason, refused.retry_after()), (Reason::Deadline, Some(secs(6))));
        for caller in 0..5 {
            let turn = start + secs(caller as u64 + 1);
            while clock.next_alarm() != Some(turn) {
                std::thread::yield_now();
            }
            clock.set(turn);
            assert_eq!(hear.recv().unwrap(), (caller, secs(caller as u64 + 1)));
        }
    });
    assert_eq!((limiter.waiting(), clock.alarms()), (0, 0));
}

#[test]
fn permits_wander_through_many_threads_and_none_is_lost() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(3)]);
    let inside = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (limiter, inside) = (&limiter, &inside);
            scope.spawn(move || {
                let mut dice = Dice::new(thread);
                for _ in 0..500 {
                    if dice.below(4) == 0 {
                        // Comes, may have to wait, and walks away.
                        let mut future = std::pin::pin!(limiter.acquire().into_future());
                        let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                        continue;
                    }
                    let pass = limiter.acquire().blocking().unwrap();
                    let now = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert!(now < 3, "{now} were inside already");
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(pass);
                }
            });
        }
    });
    assert_eq!((limiter.status()[0].remaining, limiter.waiting()), (3, 0));
}

/// The line said once more in the plainest way: who is before me leaves before me, and each as soon as a
/// bucket of whole tokens has enough.
struct PlainLine {
    interval: u64,
    burst: u64,
    /// When the bucket is full again.
    full: u64,
    left_last: u64,
    line: VecDeque<(usize, u64)>,
}

impl PlainLine {
    fn turn(&self, full: u64, not_before: u64, cost: u64) -> u64 {
        let fits = (full.max(not_before) + cost * self.interval).saturating_sub(self.burst * self.interval);
        fits.max(not_before)
    }

    /// Lets out everybody whose turn comes up to `now`.
    fn depart(&mut self, now: u64, gone: &mut Vec<(usize, u64)>) {
        while let Some(&(who, cost)) = self.line.front() {
            let turn = self.turn(self.full, self.left_last, cost);
            if turn > now {
                return;
            }
            self.full = self.full.max(turn) + cost * self.interval;
            self.left_last = turn;
            self.line.pop_front();
            gone.push((who, turn));
        }
    }

    /// When a newcomer at `now` would leave.
    fn forecast(&self, now: u64, cost: u64) -> u64 {
        let (mut full, mut last) = (self.full, self.left_last.max(now));
        for &(_, cost) in &self.line {
            last = self.turn(full, last, cost);
            full = full.max(last) + cost * self.interval;
        }
        self.turn(full, last, cost)
    }
}

#[test]
fn random_lines_with_deadlines_and_desertions_run_as_a_plain_model_says() {
    const MILLI: u64 = 1_000_000;
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let clock = ManualClock::new();
        let burst = 1 + dice.below(5);
        let limiter = limiter(&clock, [bucket("10/s", burst)]);
        let start = clock.now();
        let mut model = PlainLine { interval: 100 * MILLI, burst, full: 0, left_last: 0, line: VecDeque::new() };
        let mut tasks: Vec<Option<Task<_>>> = Vec::new();
        let (mut gone, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            let now = (clock.now() - start).as_nanos() as u64;
            match dice.below(5) {
                0..2 => {
                    let (cost, within) = (1 + dice.below(burst), dice.below(1_500) * MILLI);
                    let turn = model.forecast(now, cost);
                    let mut task = Task::new(limiter.acquire().cost(cost).within(Duration::from_nanos(within)));
                    let who = tasks.len();
                    match task.poll() {
                        Poll::Ready(Err(no)) => {
                            assert!(turn > now + within, "seed {seed}: {who} could have made it");
                            assert_eq!(no.retry_after(), Some(Duration::from_nanos(turn - now)), "seed {seed}");
                            tasks.push(None);
                            continue;
                        }
                        Poll::Ready(Ok(_)) => gone.push((who, now)),
                        Poll::Pending => {}
                    }
                    assert!(turn <= now + within, "seed {seed}: {who} has no hope");
                    model.line.push_back((who, cost));
                    model.left_last = model.left_last.max(if model.line.len() == 1 { now } else { 0 });
                    tasks.push(Some(task));
                    model.depart(now, &mut expected);
                }
                2 if !model.line.is_empty() => {
                    let (who, _) = model.line.remove(dice.below(model.line.len() as u64) as usize).unwrap();
                    tasks[who] = None;
                    model.left_last = model.left_last.max(now);
                    poll_all(&clock, start, &mut tasks, &mut gone);
                    model.depart(now, &mut expected);
                }
                _ => {
                    let until = clock.now() + Duration::from_nanos(dice.below(300) * MILLI);
                    while let Some(next) = clock.next_alarm().filter(|next| *next <= until) {
                        clock.set(next);
                        poll_all(&clock, start, &mut tasks, &mut gone);
                    }
                    clock.set(until);
                    model.depart((until - start).as_nanos() as u64, &mut expected);
                }
            }
            assert_eq!(gone, expected, "seed {seed}");
            assert_eq!(limiter.waiting(), model.line.len(), "seed {seed}");
        }
        drop(tasks);
        assert_eq!((limiter.waiting(), clock.alarms()), (0, 0));
    }
}

type Acquiring = <Acquire as IntoFuture>::IntoFuture;

fn poll_all(
    clock: &ManualClock,
    start: sluicegate_engine::Timestamp,
    tasks: &mut [Option<Task<Acquiring>>],
    gone: &mut Vec<(usize, u64)>,
) {
    let mut any = true;
    while any {
        any = false;
        for (who, task) in tasks.iter_mut().enumerate().rev() {
            if let Some(done) = task.as_mut().and_then(Task::poll_if_woken) {
                drop(done.unwrap());
                gone.push((who, (clock.now() - start).as_nanos() as u64));
                any = true;
            }
        }
    }
}

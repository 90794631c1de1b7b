//! Wait queues of limiters: FIFO, each caller admitted at the promised nanosecond, and no wait beyond the
//! deadline.

use crate::support;

use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{Acquire, KeyedLimiter, Limit, Limiter, Permit, RefusalReason, Verdict};
use sluicegate_testkit::random::SplitMix64;
use support::*;

/// Departed callers with their times in milliseconds; all must have been admitted.
fn departures(left: &[Completed<Result<Permit, sluicegate_engine::AcquireError>>]) -> Vec<(usize, u128)> {
    left.iter()
        .map(|left| {
            left.output.as_ref().expect("admitted");
            assert_eq!(left.at.subsec_nanos() % 1_000_000, 0, "{left:?} is not on the millisecond");
            (left.task, left.at.as_millis())
        })
        .collect()
}

fn keyed(clock: &ManualClock, limit: Limit) -> KeyedLimiter<str> {
    Limiter::builder().limit(limit).clock(clock.clone()).build_keyed(1_000).unwrap()
}

/// Wait of a caller that was refused because it would miss its deadline.
fn deadline_wait(acquire: Acquire) -> Duration {
    let refused = Task::new(acquire).now().unwrap_err();
    assert_eq!(refused.reason, RefusalReason::Deadline);
    refused.retry_after().unwrap()
}

#[test]
fn thirty_at_once_depart_evenly_and_half_are_refused() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [leaky("5/s", 15)]);
    let mut waiters = Vec::new();
    let mut refused = 0;
    for _ in 0..30 {
        let mut task = Task::new(limiter.acquire());
        match task.poll() {
            Poll::Ready(Ok(_)) => assert!(waiters.is_empty(), "only the first departs immediately"),
            Poll::Ready(Err(no)) => {
                assert_eq!((no.reason, no.retry_after()), (RefusalReason::QueueFull, Some(secs(3))));
                refused += 1;
            }
            Poll::Pending => waiters.push(task),
        }
    }
    assert_eq!((refused, waiters.len(), limiter.waiting()), (15, 14, 14));
    let left = run(&clock, &mut waiters);
    assert_eq!(departures(&left), (0..14).map(|position| (position, 200 * (position as u128 + 1))).collect::<Vec<_>>());
    assert_eq!((limiter.waiting(), clock.pending_timers()), (0, 0));
}

#[test]
fn callers_of_one_key_are_fifo_and_keys_are_independent() {
    let clock = ManualClock::new();
    let limiter = keyed(&clock, bucket("10/s", 1));
    for key in ["slow", "other"] {
        drop(limiter.enter(key, 1).unwrap());
    }
    let mut waiters: Vec<_> = (0..8).map(|i| waiting(limiter.acquire(["slow", "other"][i % 2]))).collect();
    assert!(limiter.check("third").is_allowed());
    let mut left = departures(&run(&clock, &mut waiters));
    left.sort_unstable();
    let expected: Vec<_> = (0..8).map(|i| (i, 100 * (i as u128 / 2 + 1))).collect();
    assert_eq!(left, expected);
}

#[test]
fn no_caller_is_admitted_a_nanosecond_early() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("3/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let mut waiters = [waiting(limiter.acquire()), waiting(limiter.acquire())];
    for position in 0..2 {
        let admission = clock.next_timer().unwrap() - clock.now();
        assert_eq!(admission, Duration::from_nanos(333_333_334));
        assert!(advance(&clock, admission - NANO, &mut waiters).is_empty());
        assert!(waiters[position].poll().is_pending());
        let left = advance(&clock, NANO, &mut waiters);
        assert_eq!(left.iter().map(|left| left.task).collect::<Vec<_>>(), [position]);
    }
}

#[test]
fn missed_deadlines_are_refused_immediately_and_met_ones_admitted() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    assert_eq!(deadline_wait(limiter.acquire().within(secs(1) - NANO)), secs(1));
    let mut waiters = vec![waiting(limiter.acquire().within(secs(1)))];
    assert_eq!(deadline_wait(limiter.acquire().within(secs(2) - NANO)), secs(2));
    assert_eq!(deadline_wait(limiter.acquire().within(Duration::ZERO)), secs(2));
    waiters.push(waiting(limiter.acquire().within(secs(2))));
    assert_eq!(deadline_wait(limiter.acquire().within(ms(2_500))), secs(3));
    assert_eq!(limiter.waiting(), 2);
    assert_eq!(departures(&run(&clock, &mut waiters)), [(0, 1_000), (1, 2_000)]);
    assert_eq!(clock.pending_timers(), 0);
}

#[test]
fn a_queue_is_bounded_per_key_and_in_total() {
    let clock = ManualClock::new();
    let build = |per_key, total| -> KeyedLimiter<str> {
        let builder = Limiter::builder().limit(bucket("1/s", 1)).clock(clock.clone());
        builder.max_waiting(per_key).max_waiting_total(total).build_keyed(100).unwrap()
    };
    let full = |limiter: &KeyedLimiter<str>, key| {
        let refused = Task::new(limiter.acquire(key)).now().unwrap_err();
        assert_eq!(refused.reason, RefusalReason::QueueFull);
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

    let no_queue = build(0, 10);
    drop(no_queue.enter("a", 1).unwrap());
    assert_eq!(full(&no_queue, "a"), secs(1));
    assert_eq!(full(&build_empty(&clock), "a"), secs(1));
}

/// Limiter without queue capacity, with its only key exhausted.
fn build_empty(clock: &ManualClock) -> KeyedLimiter<str> {
    let builder = Limiter::builder().limit(bucket("1/s", 1)).clock(clock.clone()).max_waiting_total(0);
    let limiter = builder.build_keyed(100).unwrap();
    drop(limiter.enter("a", 1).unwrap());
    limiter
}

#[test]
fn a_cancelled_caller_moves_the_queue_up() {
    for departed in 0..4 {
        let clock = ManualClock::new();
        let limiter = limiter(&clock, [leaky("10/s", 6)]);
        drop(limiter.enter(1).unwrap());
        let mut waiters: Vec<_> = (0..4).map(|_| waiting(limiter.acquire())).collect();
        let _last = waiting(limiter.acquire());
        assert_eq!(Task::new(limiter.acquire()).now().unwrap_err().reason, RefusalReason::QueueFull);
        assert_eq!(clock.pending_timers(), 1, "one timer for any number of waiters");
        drop(waiters.remove(departed));
        assert_eq!(limiter.waiting(), 4);
        waiters.push(waiting(limiter.acquire()));
        assert_eq!(limiter.check_cost(1).wait(), Some(ms(600)));
        drop(_last);
        let left = run(&clock, &mut waiters);
        assert_eq!(departures(&left), [(0, 100), (1, 200), (2, 300), (3, 400)], "without position {departed}");
        assert_eq!((limiter.waiting(), clock.pending_timers()), (0, 0));
    }
}

#[test]
fn a_caller_dropped_after_waking_passes_the_wakeup_on() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let first = waiting(limiter.acquire());
    let mut second = waiting(limiter.acquire());
    clock.advance(secs(1));
    assert!(first.is_woken() && !second.is_woken());
    drop(first);
    assert!(second.poll_if_woken().expect("the admission time has come").is_ok());
    assert_eq!((limiter.waiting(), clock.pending_timers()), (0, 0));
    assert!(!limiter.check().is_allowed(), "exactly one token was taken");
}

#[test]
fn dropping_all_callers_leaks_nothing() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 2), permits(1)]);
    let held = limiter.enter(1).unwrap();
    let mut waiters: Vec<_> = (1..10).map(|i| waiting(limiter.acquire().within(secs(10 * i)))).collect();
    assert_eq!((limiter.waiting(), clock.pending_timers()), (9, 9));
    while !waiters.is_empty() {
        drop(waiters.remove(waiters.len() / 2));
        assert_eq!((limiter.waiting(), clock.pending_timers()), (waiters.len(), waiters.len()));
    }
    assert!(!limiter.check().is_allowed());
    drop(held);
    assert!(limiter.check().is_allowed(), "cancelled callers took nothing");
}

#[test]
fn an_unpolled_future_does_not_block_others() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    let idle = limiter.acquire().into_future();
    assert!(limiter.check().is_allowed());
    drop(idle);
    assert_eq!((limiter.waiting(), clock.pending_timers()), (0, 0));
}

#[test]
fn no_caller_bypasses_the_queue() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("2/s", 2)]);
    drop(limiter.enter(2).unwrap());
    let mut waiters = [waiting(limiter.acquire().cost(2)), waiting(limiter.acquire())];
    clock.advance(ms(500));
    // One token is available but belongs to the queue: 2 at 1 s, 1 at 1.5 s, then this.
    assert_eq!(limiter.check().wait(), Some(ms(1_500)));
    assert_eq!(wait_of(limiter.enter(1)), Some(ms(1_500)));
    assert_eq!(wait_of(limiter.enter(2)), Some(ms(2_000)));
    assert!(limiter.check_cost(0).is_allowed(), "a peek blocks no caller");
    assert_eq!(limiter.check_cost(3).verdict, Verdict::Never);
    let behind = limiter.check().wait().unwrap();
    assert_eq!(departures(&advance(&clock, ms(500), &mut waiters)), [(0, 500)]);
    assert_eq!(departures(&advance(&clock, ms(500), &mut waiters)), [(1, 500)]);
    clock.advance(behind - ms(1_000) - NANO);
    assert!(!limiter.check().is_allowed(), "a nanosecond before the promised time");
    clock.advance(NANO);
    assert!(limiter.check().is_allowed());
}

#[test]
fn permits_go_to_the_longest_waiter() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(2)]);
    let mut in_flight = vec![limiter.enter(1).unwrap(), limiter.enter(1).unwrap()];
    let mut waiters: Vec<_> = (0..6).map(|_| waiting(limiter.acquire())).collect();
    assert_eq!(limiter.check().verdict, Verdict::Denied { retry_after: None });
    assert_eq!(clock.pending_timers(), 0, "the wait is unknown");
    let mut left = Vec::new();
    for admission in 0..6 {
        let permit = in_flight.remove(0);
        match admission % 5 {
            0 => drop(permit),
            4 => drop(permit.into_owned_permit()),
            1 => permit.give_back(),
            2 => permit.settle(9),
            _ => {
                let holder = || {
                    let _held = permit;
                    resume_unwind(Box::new("the holder failed"));
                };
                assert!(catch_unwind(AssertUnwindSafe(holder)).is_err());
            }
        }
        poll_woken(&clock, clock.now(), &mut waiters, &mut left);
        assert_eq!(left.iter().map(|left| left.task).collect::<Vec<_>>(), [admission]);
        in_flight.push(left.remove(0).output.unwrap());
        assert_eq!(limiter.status()[0].remaining, 0);
    }
    drop(in_flight);
    assert_eq!((limiter.status()[0].remaining, limiter.waiting()), (2, 0));
}

#[test]
fn a_caller_waiting_for_a_permit_times_out() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(1)]);
    let held = limiter.enter(1).unwrap();
    let refused = Task::new(limiter.acquire().within(Duration::ZERO)).now().unwrap_err();
    assert_eq!((refused.reason, refused.retry_after()), (RefusalReason::Deadline, None));
    let mut waiters = [
        waiting(limiter.acquire().within(secs(1))),
        waiting(limiter.acquire().within(secs(1))),
        waiting(limiter.acquire().within(secs(5))),
    ];
    assert!(advance(&clock, secs(1) - NANO, &mut waiters).is_empty());
    let mut left = advance(&clock, NANO, &mut waiters);
    left.extend(advance(&clock, NANO, &mut waiters));
    let departed: Vec<_> =
        left.iter().map(|left| (left.task, left.output.as_ref().map(|_| ()).map_err(|no| no.reason))).collect();
    assert_eq!(departed, [(0, Err(RefusalReason::Deadline)), (1, Err(RefusalReason::Deadline))]);
    drop(held);
    assert!(waiters[2].poll_if_woken().unwrap().is_ok());
    assert_eq!((limiter.waiting(), clock.pending_timers()), (0, 0));
}

#[test]
fn returned_tokens_move_the_queue_up() {
    let clock = ManualClock::new();
    let builder = Limiter::builder().limit(bucket("1/s", 10)).clock(clock.clone()).reservable();
    let limiter = builder.build().unwrap();
    let estimate = limiter.enter(10).unwrap();
    let mut waiters = vec![waiting(limiter.acquire().cost(4)), waiting(limiter.acquire().cost(4))];
    clock.advance(secs(1));
    assert!(waiters.iter_mut().all(|task| task.poll_if_woken().is_none()));
    estimate.settle(4);
    let mut left = Vec::new();
    poll_woken(&clock, clock.now(), &mut waiters, &mut left);
    assert_eq!(left.iter().map(|left| left.task).collect::<Vec<_>>(), [0]);
    drop(left);
    let left = run(&clock, &mut waiters);
    assert_eq!(departures(&left), [(1, 2_000)]);
}

#[test]
fn a_changed_limit_applies_to_queued_callers() {
    for (to, first, second) in [("10/s", 600, 700), ("1/10s", 10_500, 20_500)] {
        let clock = ManualClock::new();
        let limiter = limiter(&clock, [bucket("1/s", 1)]);
        drop(limiter.enter(1).unwrap());
        let mut waiters = [waiting(limiter.acquire()), waiting(limiter.acquire())];
        let start = clock.now();
        clock.advance(ms(500));
        limiter.change([bucket(to, 1)]).unwrap();
        let mut left = Vec::new();
        poll_woken(&clock, start, &mut waiters, &mut left);
        assert_eq!(limiter.check().wait(), Some(ms(second + second - first) - ms(500)));
        let left = run(&clock, &mut waiters);
        assert_eq!(departures(&left), [(0, u128::from(first) - 500), (1, u128::from(second) - 500)], "to {to}");
    }
}

#[test]
fn a_raised_concurrency_limit_admits_queued_callers() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(1)]);
    let _held = limiter.enter(1).unwrap();
    let mut waiters: Vec<_> = (0..4).map(|_| waiting(limiter.acquire())).collect();
    limiter.change([permits(3)]).unwrap();
    let mut left = Vec::new();
    poll_woken(&clock, clock.now(), &mut waiters, &mut left);
    assert_eq!(departures(&left), [(0, 0), (1, 0)]);
    drop(left);
    let mut left = Vec::new();
    poll_woken(&clock, clock.now(), &mut waiters, &mut left);
    assert_eq!(departures(&left), [(2, 0), (3, 0)]);
}

#[test]
fn a_reset_admits_the_queue() {
    let clock = ManualClock::new();
    let limiter = keyed(&clock, bucket("1/h", 1));
    drop(limiter.enter("a", 1).unwrap());
    let mut waiters = [waiting(limiter.acquire("a")), waiting(limiter.acquire("a"))];
    limiter.reset("a");
    assert!(waiters[0].poll_if_woken().unwrap().is_ok());
    assert!(waiters[1].poll_if_woken().is_none());
}

#[test]
fn costs_of_any_size_wait_for_as_long_as_they_take() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 10)]);
    drop(limiter.enter(10).unwrap());
    let mut waiters: Vec<_> = [5, 1, 10].map(|cost| waiting(limiter.acquire().cost(cost))).into();
    assert_eq!(Task::new(limiter.acquire().cost(0)).now().unwrap().cost(), 0);
    let never = Task::new(limiter.acquire().cost(11)).now().unwrap_err();
    assert_eq!((never.decision.verdict, never.reason), (Verdict::Never, RefusalReason::Limit));
    assert_eq!(departures(&run(&clock, &mut waiters)), [(0, 500), (1, 600), (2, 1_600)]);
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
        if let Poll::Ready(permit) = one[0].poll() {
            drop(permit.unwrap());
        } else {
            departures(&run(&clock, &mut one));
        }
        assert_eq!(clock.now() - start, ms(wait));
    }
}

#[test]
fn a_future_moved_to_another_task_wakes_that_task() {
    for first in [true, false] {
        let clock = ManualClock::new();
        let limiter = limiter(&clock, [bucket("1/s", 1)]);
        drop(limiter.enter(1).unwrap());
        let mut before = (!first).then(|| waiting(limiter.acquire()));
        let mut task = waiting(limiter.acquire());
        let old = task.change_waker();
        assert!(task.poll().is_pending());
        assert_eq!(clock.pending_timers(), 1);
        for _ in 0..if first { 1 } else { 2 } {
            clock.advance(secs(1));
            before.as_mut().map(Task::poll_if_woken);
            if let Some(done) = task.poll_if_woken() {
                drop(done.unwrap());
                assert_eq!(old.wake_count(), 0);
            }
        }
        assert_eq!((limiter.waiting(), clock.pending_timers()), (0, 0));
    }
}

#[test]
fn spurious_polls_change_nothing() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let mut waiters = [waiting(limiter.acquire()), waiting(limiter.acquire().within(secs(3)))];
    for _ in 0..100 {
        assert!(waiters.iter_mut().all(|task| task.poll().is_pending()));
    }
    assert_eq!((limiter.waiting(), clock.pending_timers()), (2, 2));
    assert_eq!(departures(&run(&clock, &mut waiters)), [(0, 1_000), (1, 2_000)]);
}

#[test]
fn a_clock_step_back_delays_the_queue() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let mut waiters = [waiting(limiter.acquire())];
    let admission = clock.now() + secs(1);
    clock.set(sluicegate_engine::Timestamp::ZERO);
    assert!(waiters[0].poll().is_pending());
    run(&clock, &mut waiters);
    assert_eq!(clock.now(), admission);
}

#[test]
fn blocking_threads_are_fifo() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let start = clock.now();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for caller in 0..5 {
            let (sender, limiter, clock) = (sender.clone(), &limiter, &clock);
            scope.spawn(move || {
                drop(limiter.acquire().blocking().unwrap());
                sender.send((caller, clock.now() - start)).unwrap();
            });
            while limiter.waiting() <= caller {
                std::thread::yield_now();
            }
        }
        let refused = limiter.acquire().within(secs(5)).blocking().unwrap_err();
        assert_eq!((refused.reason, refused.retry_after()), (RefusalReason::Deadline, Some(secs(6))));
        for caller in 0..5 {
            let admission = start + secs(caller as u64 + 1);
            while clock.next_timer() != Some(admission) {
                std::thread::yield_now();
            }
            clock.set(admission);
            assert_eq!(receiver.recv().unwrap(), (caller, secs(caller as u64 + 1)));
        }
    });
    assert_eq!((limiter.waiting(), clock.pending_timers()), (0, 0));
}

#[test]
fn permits_are_conserved_across_threads() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(3)]);
    let in_flight = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (limiter, in_flight) = (&limiter, &in_flight);
            scope.spawn(move || {
                let mut dice = SplitMix64::new(thread);
                for _ in 0..500 {
                    if dice.below(4) == 0 {
                        // Arrives, may have to queue, and cancels.
                        let mut future = std::pin::pin!(limiter.acquire().into_future());
                        let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                        continue;
                    }
                    let permit = limiter.acquire().blocking().unwrap();
                    let now = in_flight.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert!(now < 3, "{now} permits already held");
                    in_flight.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
    });
    assert_eq!((limiter.status()[0].remaining, limiter.waiting()), (3, 0));
}

/// Reference model of the queue: FIFO, each caller departs as soon as a bucket of whole tokens has enough.
struct QueueModel {
    interval: u64,
    burst: u64,
    /// Time at which the bucket is full again.
    full: u64,
    left_last: u64,
    waiters: VecDeque<(usize, u64)>,
}

impl QueueModel {
    fn admission_time(&self, full: u64, not_before: u64, cost: u64) -> u64 {
        let fits = (full.max(not_before) + cost * self.interval).saturating_sub(self.burst * self.interval);
        fits.max(not_before)
    }

    /// Lets all callers depart that are due by `now`.
    fn depart(&mut self, now: u64, departed: &mut Vec<(usize, u64)>) {
        while let Some(&(caller, cost)) = self.waiters.front() {
            let admission = self.admission_time(self.full, self.left_last, cost);
            if admission > now {
                return;
            }
            self.full = self.full.max(admission) + cost * self.interval;
            self.left_last = admission;
            self.waiters.pop_front();
            departed.push((caller, admission));
        }
    }

    /// Departure time of a new caller at `now`.
    fn forecast(&self, now: u64, cost: u64) -> u64 {
        let (mut full, mut last) = (self.full, self.left_last.max(now));
        for &(_, cost) in &self.waiters {
            last = self.admission_time(full, last, cost);
            full = full.max(last) + cost * self.interval;
        }
        self.admission_time(full, last, cost)
    }
}

#[test]
fn random_queues_agree_with_the_model() {
    const MILLI: u64 = 1_000_000;
    for seed in 0..300 {
        let mut dice = SplitMix64::new(seed);
        let clock = ManualClock::new();
        let burst = 1 + dice.below(5);
        let limiter = limiter(&clock, [bucket("10/s", burst)]);
        let start = clock.now();
        let mut model = QueueModel { interval: 100 * MILLI, burst, full: 0, left_last: 0, waiters: VecDeque::new() };
        let mut tasks: Vec<Option<Task<_>>> = Vec::new();
        let (mut departed, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            let now = (clock.now() - start).as_nanos() as u64;
            match dice.below(5) {
                0..2 => {
                    let (cost, within) = (1 + dice.below(burst), dice.below(1_500) * MILLI);
                    let admission = model.forecast(now, cost);
                    let mut task = Task::new(limiter.acquire().cost(cost).within(Duration::from_nanos(within)));
                    let caller = tasks.len();
                    match task.poll() {
                        Poll::Ready(Err(no)) => {
                            assert!(admission > now + within, "seed {seed}: {caller} could have been admitted in time");
                            assert_eq!(no.retry_after(), Some(Duration::from_nanos(admission - now)), "seed {seed}");
                            tasks.push(None);
                            continue;
                        }
                        Poll::Ready(Ok(_)) => departed.push((caller, now)),
                        Poll::Pending => {}
                    }
                    assert!(admission <= now + within, "seed {seed}: {caller} cannot be admitted in time");
                    model.waiters.push_back((caller, cost));
                    model.left_last = model.left_last.max(if model.waiters.len() == 1 { now } else { 0 });
                    tasks.push(Some(task));
                    model.depart(now, &mut expected);
                }
                2 if !model.waiters.is_empty() => {
                    let (caller, _) = model.waiters.remove(dice.below(model.waiters.len() as u64) as usize).unwrap();
                    tasks[caller] = None;
                    model.left_last = model.left_last.max(now);
                    poll_all(&clock, start, &mut tasks, &mut departed);
                    model.depart(now, &mut expected);
                }
                _ => {
                    let until = clock.now() + Duration::from_nanos(dice.below(300) * MILLI);
                    while let Some(next) = clock.next_timer().filter(|next| *next <= until) {
                        clock.set(next);
                        poll_all(&clock, start, &mut tasks, &mut departed);
                    }
                    clock.set(until);
                    model.depart((until - start).as_nanos() as u64, &mut expected);
                }
            }
            assert_eq!(departed, expected, "seed {seed}");
            assert_eq!(limiter.waiting(), model.waiters.len(), "seed {seed}");
        }
        drop(tasks);
        assert_eq!((limiter.waiting(), clock.pending_timers()), (0, 0));
    }
}

type AcquireFuture = <Acquire as IntoFuture>::IntoFuture;

fn poll_all(
    clock: &ManualClock,
    start: sluicegate_engine::Timestamp,
    tasks: &mut [Option<Task<AcquireFuture>>],
    departed: &mut Vec<(usize, u64)>,
) {
    let mut any = true;
    while any {
        any = false;
        for (caller, task) in tasks.iter_mut().enumerate().rev() {
            if let Some(done) = task.as_mut().and_then(Task::poll_if_woken) {
                drop(done.unwrap());
                departed.push((caller, (clock.now() - start).as_nanos() as u64));
                any = true;
            }
        }
    }
}

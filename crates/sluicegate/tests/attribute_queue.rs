//! `#[limit]` with queueing and permits: manual clock, panics, cancelled futures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate::clock::ManualClock;
use sluicegate::{KeyedLimiter, Limit, Limited, Limiter, Rate, limit};

const SECOND: Duration = Duration::from_secs(1);

/// One look at a future.
fn poll_once<F: Future + ?Sized>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn one_a_second(clock: &ManualClock) -> Limiter {
    let bucket = Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap();
    Limiter::builder().limit(bucket).clock(clock.clone()).build().unwrap()
}

struct Mailer {
    limiter: Limiter,
    per_account: KeyedLimiter<str>,
}

impl Mailer {
    fn new(clock: &ManualClock) -> Self {
        let per_account = Limiter::builder().limit("1/1m".parse().unwrap()).clock(clock.clone());
        Self { limiter: one_a_second(clock), per_account: per_account.build_keyed(100).unwrap() }
    }

    #[limit(limiter = self.limiter)]
    fn send(&self) -> Result<(), Limited> {
        Ok(())
    }

    #[limit(limiter = self.limiter, wait = "3s")]
    async fn send_later(&self) -> Result<(), Limited> {
        Ok(())
    }

    #[limit(limiter = self.limiter, wait = "3s")]
    fn send_blocking(&self) -> Result<(), Limited> {
        Ok(())
    }

    #[limit(limiter = self.per_account, key = account)]
    fn send_to(&self, account: String) -> Result<String, Limited> {
        Ok(account)
    }
}

#[test]
fn an_explicit_limiter_uses_its_own_clock() {
    let clock = ManualClock::new();
    let mailer = Mailer::new(&clock);
    mailer.send().unwrap();
    let limited = mailer.send().unwrap_err();
    assert_eq!(limited.retry_after(), Some(SECOND));
    assert_eq!(
        limited.to_string(),
        "over the limit token_bucket 1/s, burst 1 of integration::attribute_queue::Mailer::send: try again in 1s"
    );
    clock.advance(SECOND - Duration::from_nanos(1));
    assert!(mailer.send().is_err());
    clock.advance(Duration::from_nanos(1));
    mailer.send().unwrap();
}

#[test]
fn an_explicit_keyed_limiter_uses_the_key_unchanged() {
    let clock = ManualClock::new();
    let mailer = Mailer::new(&clock);
    assert_eq!(mailer.send_to("alice".to_owned()).unwrap(), "alice");
    assert!(mailer.send_to("alice".to_owned()).is_err());
    assert!(mailer.send_to("bob".to_owned()).is_ok());
    // The key is passed unchanged: an explicit check sees the same state.
    assert!(!mailer.per_account.check("alice").is_allowed());
}

#[test]
fn async_calls_wait_fifo_and_hopeless_waits_fail_at_once() {
    let clock = ManualClock::new();
    let mailer = Mailer::new(&clock);
    mailer.send().unwrap();
    let (mut first, mut second, mut third, mut fourth) =
        (pin!(mailer.send_later()), pin!(mailer.send_later()), pin!(mailer.send_later()), pin!(mailer.send_later()));
    assert!(
        poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending() && poll_once(&mut third).is_pending()
    );
    let Poll::Ready(Err(limited)) = poll_once(&mut fourth) else { panic!("it cannot make it in three seconds") };
    assert_eq!(limited.retry_after(), Some(4 * SECOND));
    assert!(mailer.send().is_err(), "no call overtakes the queue");
    for waiting in [&mut first, &mut second, &mut third] {
        clock.advance(SECOND);
        assert!(matches!(poll_once(waiting), Poll::Ready(Ok(()))));
    }
}

#[test]
fn a_dropped_queued_call_leaves_the_queue() {
    let clock = ManualClock::new();
    let mailer = Mailer::new(&clock);
    mailer.send().unwrap();
    {
        let mut dropped = pin!(mailer.send_later());
        assert!(poll_once(&mut dropped).is_pending());
        assert_eq!(mailer.limiter.waiting(), 1);
    }
    assert_eq!(mailer.limiter.waiting(), 0);
    assert_eq!(clock.pending_timers(), 0);
    let mut next = pin!(mailer.send_later());
    assert!(poll_once(&mut next).is_pending());
    clock.advance(SECOND);
    assert!(poll_once(&mut next).is_ready(), "the slot of the cancelled call is free");
}

#[test]
fn a_sync_call_blocks_its_thread() {
    let clock = ManualClock::new();
    let mailer = Mailer::new(&clock);
    mailer.send_blocking().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| mailer.send_blocking());
        while clock.next_timer().is_none() {
            std::thread::yield_now();
        }
        assert!(!waiter.is_finished());
        clock.advance(SECOND);
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn a_leaky_bucket_without_wait_refuses_calls_that_would_wait() {
    #[limit(limiter = limiter)]
    fn paced(limiter: &Limiter) -> Result<(), Limited> {
        Ok(())
    }
    let clock = ManualClock::new();
    let leaky = Limit::leaky_bucket(Rate::per_second(1).unwrap(), 5).unwrap();
    let limiter = Limiter::builder().limit(leaky).clock(clock.clone()).build().unwrap();
    paced(&limiter).unwrap();
    assert_eq!(paced(&limiter).unwrap_err().retry_after(), Some(SECOND));
    clock.advance(SECOND);
    // The refused call has left nothing behind.
    paced(&limiter).unwrap();
}

/// How many are inside at once, seen from inside.
#[limit(concurrency(2))]
fn nested(depth: u32) -> Result<u32, Limited> {
    if depth == 0 { Ok(0) } else { nested(depth - 1).map(|inside| inside + 1) }
}

#[test]
fn permits_are_held_until_the_function_returns() {
    for _ in 0..3 {
        assert_eq!(nested(1).unwrap(), 1, "two at once");
        let limited = nested(2).unwrap_err();
        assert_eq!(
            limited.to_string(),
            "over the limit concurrency 2 of integration::attribute_queue::nested: try again when running calls have finished"
        );
    }
}

#[limit(concurrency(1), "1000/1h")]
fn panics(now: bool) -> Result<(), Limited> {
    assert!(!now, "panic on request");
    Ok(())
}

#[test]
fn a_panic_releases_the_permit() {
    for _ in 0..3 {
        assert!(catch_unwind(|| panics(true)).is_err());
        panics(false).unwrap();
    }
}

#[limit(concurrency(1), key = who)]
async fn hold_permit(who: &str, forever: bool) -> Result<(), Limited> {
    if forever {
        std::future::pending::<()>().await;
    }
    Ok(())
}

#[test]
fn a_dropped_future_releases_the_permit() {
    for _ in 0..3 {
        {
            let mut stuck = pin!(hold_permit("alice", true));
            assert!(poll_once(&mut stuck).is_pending());
            assert!(matches!(poll_once(&mut pin!(hold_permit("alice", false))), Poll::Ready(Err(_))));
            assert!(matches!(poll_once(&mut pin!(hold_permit("bob", false))), Poll::Ready(Ok(()))));
        }
        assert!(matches!(poll_once(&mut pin!(hold_permit("alice", false))), Poll::Ready(Ok(()))));
    }
}

#[limit(concurrency(1), on_limit = unfinished)]
fn with_fallback(then: &mut dyn FnMut()) -> &'static str {
    then();
    "done"
}

fn unfinished(_then: &mut dyn FnMut()) -> &'static str {
    "busy"
}

#[test]
fn a_fallback_holds_no_permit() {
    let mut inner = "";
    assert_eq!(with_fallback(&mut || inner = with_fallback(&mut || panic!("not called"))), "done");
    assert_eq!(inner, "busy");
    let panicked = catch_unwind(AssertUnwindSafe(|| with_fallback(&mut || panic!("in the body"))));
    assert!(panicked.is_err());
    assert_eq!(with_fallback(&mut || {}), "done");
}

#[limit(leaky_bucket("1000/s", queue = 3))]
fn leaky() -> Result<(), Limited> {
    Ok(())
}

#[test]
fn a_leaky_bucket_paces_calls_without_wait_option() {
    let begun = std::time::Instant::now();
    for _ in 0..4 {
        leaky().unwrap();
    }
    // Two clocks are compared, so not to the last nanosecond.
    assert!(begun.elapsed() >= Duration::from_millis(2), "calls are one millisecond apart");
}

#[limit(leaky_bucket("1/1h", queue = 2), wait = "1s")]
fn too_slow() -> Result<(), Limited> {
    Ok(())
}

#[test]
fn wait_bounds_the_queue_of_a_leaky_bucket() {
    too_slow().unwrap();
    assert!(too_slow().unwrap_err().retry_after().unwrap() > Duration::from_secs(3_000));
}

#[test]
fn max_waiting_is_enforced() {
    #[limit("1/1h", wait = "2h", max_waiting = 1)]
    async fn short_queue() -> Result<(), Limited> {
        Ok(())
    }
    let (mut first, mut second, mut third) = (pin!(short_queue()), pin!(short_queue()), pin!(short_queue()));
    assert!(poll_once(&mut first).is_ready());
    assert!(poll_once(&mut second).is_pending());
    assert!(matches!(poll_once(&mut third), Poll::Ready(Err(_))));
}

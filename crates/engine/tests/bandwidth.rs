//! Bandwidth limits: bodies of one key share one rate, exact to the byte, in about equal parts.

use crate::support;

use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::rule::{Attribute, Ban, Cost, Lists, Mode, Request, Rule};
use sluicegate_engine::sluice::{ByteTicket, Meters, SavedRules};
use sluicegate_engine::{Limit, Outcome, Rate, Sluice};
use support::Task;

const CHUNK_BYTES: u64 = 16 << 10;

fn bandwidth(rate: u64, burst: u64) -> Limit {
    Limit::bandwidth(Rate::per_second(rate).unwrap(), burst).unwrap()
}

fn total(rate: u64, burst: u64) -> Rule {
    Rule::new("total", [bandwidth(rate, burst)])
}

fn per_ip(rate: u64, burst: u64) -> Rule {
    Rule { key: vec![Attribute::ClientIp.into()], ..Rule::new("per-ip", [bandwidth(rate, burst)]) }
}

fn sluice(rules: impl IntoIterator<Item = Rule>) -> (Sluice, ManualClock) {
    let clock = ManualClock::new();
    let sluice = Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap();
    (sluice, clock)
}

fn from(client: u8) -> Request<'static> {
    Request::new("GET", "/film").with_client_ip(IpAddr::V4(Ipv4Addr::new(203, 0, 113, client)))
}

/// Body that takes as many bytes as it can get.
struct Download {
    meters: Meters,
    waiting: Option<Task<ByteTicket>>,
    got: u64,
}

impl Download {
    fn of(sluice: &Sluice, client: u8) -> Self {
        let outcome = sluice.decide(&from(client));
        assert!(outcome.is_admitted() && outcome.holds_resources());
        Self { meters: outcome.meters(), waiting: None, got: 0 }
    }

    /// Takes one chunk or waits for it. Returns true if it got any bytes.
    fn run(&mut self) -> bool {
        let part = match &mut self.waiting {
            Some(waiting) => waiting.poll_if_woken(),
            None => Some(self.meters.try_take(CHUNK_BYTES)).filter(|part| *part > 0).or_else(|| {
                let mut waiting = Task::new(self.meters.take(CHUNK_BYTES));
                match waiting.poll() {
                    Poll::Ready(part) => Some(part),
                    Poll::Pending => {
                        self.waiting = Some(waiting);
                        None
                    }
                }
            }),
        };
        let Some(part) = part else { return false };
        assert!((1..=CHUNK_BYTES).contains(&part));
        self.waiting = None;
        self.got += part;
        true
    }
}

/// Runs all downloads until none makes progress.
fn exhaust(downloads: &mut [Download]) {
    while downloads.iter_mut().map(Download::run).fold(false, |any, one| any | one) {}
}

fn sum(downloads: &[Download]) -> u64 {
    downloads.iter().map(|download| download.got).sum()
}

/// Advances the clock from timer to timer for `span` and reports the total at each step.
fn observe(clock: &ManualClock, downloads: &mut [Download], span: Duration, mut record: impl FnMut(Duration, u64)) {
    let start = clock.now();
    loop {
        exhaust(downloads);
        record(clock.now() - start, sum(downloads));
        let next = clock.next_timer().unwrap_or(start + span).min(start + span);
        if clock.now() >= start + span {
            return;
        }
        clock.set(next.max(clock.now() + Duration::from_nanos(1)));
    }
}

#[test]
fn ten_connections_of_one_key_together_get_the_burst_and_the_rate() {
    let (rate, burst) = (100_000, 50_000);
    let (sluice, clock) = sluice([per_ip(rate, burst)]);
    let mut downloads: Vec<_> = (0..10).map(|_| Download::of(&sluice, 1)).collect();
    observe(&clock, &mut downloads, Duration::from_secs(10), |elapsed, got| {
        let max = burst + u64::try_from(u128::from(rate) * elapsed.as_nanos() / 1_000_000_000).unwrap();
        assert!(got <= max, "{got} of {max} after {elapsed:?}");
        assert!(got + 5_000 >= max, "{got} of {max} after {elapsed:?}: the maximum held back by one step");
    });
    assert_eq!(sluice.counts()[0].bytes, sum(&downloads));
    assert_eq!((sluice.counts()[0].refused, sluice.counts()[0].waiting), (0, 10));
    // The first download has most of the burst; the rate is shared.
    let of_the_rate = downloads[1..].iter().map(|download| download.got);
    let (min, max) = (of_the_rate.clone().min().unwrap(), of_the_rate.max().unwrap());
    assert!(max - min <= CHUNK_BYTES + 5_000, "{min} and {max}");
}

#[test]
fn two_downloads_share_evenly_with_rare_clock_steps() {
    let (sluice, clock) = sluice([per_ip(10_000, 10_000)]);
    let mut downloads = [Download::of(&sluice, 1), Download::of(&sluice, 1)];
    exhaust(&mut downloads);
    let before = [downloads[0].got, downloads[1].got];
    for _ in 0..20 {
        clock.advance(Duration::from_millis(900));
        exhaust(&mut downloads);
    }
    let got = [downloads[0].got - before[0], downloads[1].got - before[1]];
    assert_eq!(got[0] + got[1], 180_000);
    assert!(got[0].abs_diff(got[1]) <= 500, "{got:?}");
}

#[test]
fn keys_do_not_block_each_other() {
    let (sluice, clock) = sluice([per_ip(1_000, 1_000)]);
    let mut busy = [Download::of(&sluice, 1), Download::of(&sluice, 1)];
    exhaust(&mut busy);
    let mut other = [Download::of(&sluice, 2)];
    exhaust(&mut other);
    assert_eq!((sum(&busy), sum(&other)), (1_000, 1_000));
    clock.advance(Duration::from_secs(1));
    exhaust(&mut other);
    exhaust(&mut busy);
    assert_eq!((sum(&busy), sum(&other)), (2_000, 2_000));
}

#[test]
fn waiters_are_served_fifo() {
    let (sluice, clock) = sluice([total(1_000, 1_000)]);
    let meters = sluice.decide(&from(1)).meters();
    assert_eq!(meters.try_take(u64::MAX), 1_000);
    let mut tasks: Vec<_> = (0..3).map(|_| Task::new(meters.take(CHUNK_BYTES))).collect();
    assert!(tasks.iter_mut().all(|task| task.poll().is_pending()));
    clock.advance(Duration::from_millis(49));
    assert!(tasks.iter_mut().all(|task| task.poll_if_woken().is_none()));
    clock.advance(Duration::from_secs(1));
    assert_eq!(meters.try_take(1), 0, "three transfers are queued");
    let mut order = Vec::new();
    for _ in 0..3 {
        let next = tasks.iter_mut().enumerate().find_map(|(index, task)| Some((index, task.poll_if_woken()?)));
        order.push(next.unwrap());
    }
    assert_eq!(order, [(0, 50), (1, 50), (2, 50)]);
    assert_eq!(meters.try_take(u64::MAX), 850);
}

#[test]
fn dropping_a_waiter_takes_nothing_and_wakes_the_next() {
    let (sluice, clock) = sluice([per_ip(1_000, 1_000)]);
    let meters = sluice.decide(&from(1)).meters();
    assert_eq!(meters.try_take(1_000), 1_000);
    let mut first = Task::new(meters.take(500));
    let mut second = Task::new(meters.take(500));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    clock.advance(Duration::from_millis(50));
    assert!(first.is_woken() && !second.is_woken());
    drop(first);
    assert_eq!(second.poll_if_woken(), Some(50));
    assert_eq!((sluice.counts()[0].waiting, clock.pending_timers(), sluice.counts()[0].bytes), (0, 0, 1_050));
    drop(meters.take(500));
    clock.advance(Duration::from_secs(5));
    assert_eq!(meters.try_take(u64::MAX), 1_000);
}

#[test]
fn small_remainders_wait_except_the_last_bytes() {
    let (sluice, clock) = sluice([total(1_000, 1_000)]);
    let meters = sluice.decide(&from(1)).meters();
    assert_eq!(meters.try_take(1_000), 1_000);
    clock.advance(Duration::from_millis(7));
    assert_eq!(meters.try_take(CHUNK_BYTES), 0);
    assert_eq!(meters.try_take(7), 7);
    assert_eq!(meters.try_take(0), 0);
    assert_eq!(Task::new(meters.take(0)).now(), 0);
}

#[test]
fn bandwidth_costs_nothing_at_decision_time() {
    let mut rule = per_ip(10, 10);
    rule.cost = Cost::Fixed(1_000);
    rule.ban = Some(Ban { after: 1, within: Duration::from_secs(9), duration: Duration::from_secs(9) });
    let (sluice, _clock) = sluice([rule]);
    for _ in 0..50 {
        let outcome = sluice.decide(&from(1));
        assert!(outcome.is_admitted());
        assert_eq!(outcome.decisions().count(), 0);
    }
    let counts = &sluice.counts()[0];
    assert_eq!((counts.admitted, counts.refused, counts.bytes), (0, 0, 0));
    let explained = sluice.explain(&from(1));
    assert!(explained.rules[0].rule.is_metering() && explained.rules[0].decision.is_none());
    assert_eq!(sluice.decide(&from(1)).meters().try_take(100), 10);
}

#[test]
fn only_pure_bandwidth_rules_pace() {
    let mixed = Rule::new("mixed", [bandwidth(1, 1), Limit::concurrency(5).unwrap()]);
    assert!(total(1, 1).is_metering() && !mixed.is_metering() && !Rule::new("none", []).is_metering());
    let (sluice, _clock) = sluice([mixed]);
    let outcome = sluice.decide(&from(1));
    assert!(outcome.is_admitted() && outcome.meters().is_empty());
    assert!(!sluice.decide(&from(1)).is_admitted());
}

#[test]
fn refused_requests_and_shadow_rules_are_not_paced() {
    let watching = Rule { mode: Mode::Shadow, ..total(1, 1) };
    let (sluice, _clock) = sluice([watching, per_ip(1, 1), Rule::new("none", [Limit::concurrency(1).unwrap()])]);
    let first = sluice.decide(&from(1));
    assert_eq!(first.meters().try_take(5), 1, "the per-address rule paces");
    let second = sluice.decide(&from(1));
    assert!(!second.is_admitted() && second.meters().is_empty() && !second.holds_resources());
    assert_eq!(second.meters().try_take(5), 5, "unmetered bytes pass");
    let counts: Vec<u64> = sluice.counts().iter().map(|of_rule| of_rule.bytes).collect();
    assert_eq!(counts, [0, 1, 0]);
}

#[test]
fn several_rules_are_charged_all_or_nothing() {
    let (sluice, clock) = sluice([per_ip(1_000, 1_000), total(3_000, 1_500)]);
    let [mut one, mut two] = [[Download::of(&sluice, 1)], [Download::of(&sluice, 2)]];
    exhaust(&mut one);
    exhaust(&mut two);
    assert_eq!((sum(&one), sum(&two)), (1_000, 500));
    let bytes: Vec<u64> = sluice.counts().iter().map(|of_rule| of_rule.bytes).collect();
    assert_eq!(bytes, [1_500, 1_500], "a refusal by one rule charges nothing to the other");
    let mut all: Vec<Download> = one.into_iter().chain(two).chain((3..6).map(|ip| Download::of(&sluice, ip))).collect();
    let start = sum(&all);
    observe(&clock, &mut all, Duration::from_secs(20), |elapsed, got| {
        assert!(u128::from(got - start) <= 3_000 * elapsed.as_nanos() / 1_000_000_000, "{got} after {elapsed:?}");
    });
    assert!(sum(&all) - start >= 60_000 - 5 * 50, "{}", sum(&all));
    for download in &all {
        assert!(download.got <= 1_000 + 20_000);
        assert!(download.got >= 10_000, "{}: five transfers share 3000 bytes per second", download.got);
    }
}

#[test]
fn waiting_for_one_rule_does_not_block_others() {
    let (sluice, clock) = sluice([per_ip(10, 10), total(1_000, 15)]);
    let mut slow = [Download::of(&sluice, 1)];
    exhaust(&mut slow);
    let mut quick = [Download::of(&sluice, 2), Download::of(&sluice, 3)];
    exhaust(&mut quick);
    assert_eq!((sum(&slow), sum(&quick)), (10, 5), "the total is used up and two transfers are queued");
    for _ in 0..15 {
        clock.advance(Duration::from_millis(1));
        exhaust(&mut slow);
        exhaust(&mut quick);
    }
    assert_eq!((sum(&slow), sum(&quick)), (10, 20), "a transfer waiting for its own rate blocks no other");
    clock.advance(Duration::from_millis(85));
    exhaust(&mut slow);
    assert_eq!(sum(&slow), 11);
}

#[test]
fn a_changed_rate_applies_to_downloads_in_flight() {
    let (sluice, clock) = sluice([per_ip(1_000, 1_000)]);
    let mut downloads = [Download::of(&sluice, 1), Download::of(&sluice, 1)];
    exhaust(&mut downloads);
    sluice.replace(vec![per_ip(100_000, 20_000)], Lists::default()).unwrap();
    exhaust(&mut downloads);
    assert_eq!(sum(&downloads), 1_000, "a change gives no free burst");
    let mut last = 0;
    observe(&clock, &mut downloads, Duration::from_secs(1), |_, got| last = got);
    assert_eq!(last, 101_000);
    // Lower the rate again, to less than one earlier step.
    sluice.replace(vec![per_ip(100, 10)], Lists::default()).unwrap();
    let before = sum(&downloads);
    observe(&clock, &mut downloads, Duration::from_secs(10), |elapsed, got| {
        assert!(u128::from(got - before) <= 10 + elapsed.as_nanos() / 10_000_000, "{} after {elapsed:?}", got - before);
    });
    assert!(sum(&downloads) - before >= 980, "{}", sum(&downloads) - before);
}

#[test]
fn a_removed_or_shadow_rule_stops_pacing() {
    let elapsed = || Vec::new();
    let watching = || vec![Rule { mode: Mode::Shadow, ..per_ip(1, 1) }];
    let other = || vec![Rule::new("per-ip", ["5/1m".parse().unwrap()])];
    for rules in [elapsed as fn() -> Vec<Rule>, watching, other] {
        let (sluice, _clock) = sluice([per_ip(1, 1)]);
        let mut download = Download::of(&sluice, 1);
        while download.run() {}
        assert_eq!(download.got, 1);
        sluice.replace(rules(), Lists::default()).unwrap();
        assert!(download.run() && download.run());
        assert!(download.got > CHUNK_BYTES);
        // A rule that returns with the same name paces existing downloads.
        sluice.replace(vec![per_ip(1, 1)], Lists::default()).unwrap();
        assert!(sluice.decide(&from(2)).meters().try_take(5) == 1);
    }
}

#[test]
fn a_rule_back_from_shadow_paces_the_same_downloads() {
    let (sluice, _clock) = sluice([per_ip(1, 1)]);
    let meters = sluice.decide(&from(1)).meters();
    sluice.replace(vec![Rule { mode: Mode::Shadow, ..per_ip(1, 1) }], Lists::default()).unwrap();
    assert_eq!(meters.try_take(100), 100);
    sluice.replace(vec![per_ip(1, 1)], Lists::default()).unwrap();
    assert_eq!(meters.try_take(100), 1);
    assert_eq!(meters.try_take(100), 0);
}

#[test]
fn meters_and_futures_are_send_sync_unpin() {
    fn anywhere<T: Send + Sync + Unpin + 'static>(_: &T) {}
    let (sluice, _clock) = sluice([total(1, 1)]);
    let meters = sluice.decide(&from(1)).meters();
    anywhere(&meters);
    anywhere(&meters.take(1));
    drop(sluice);
    assert_eq!((meters.clone().try_take(5), meters.try_take(5)), (1, 0), "clones share the meters");
}

/// Locks are taken in one order, no wakeup is lost, and all threads together keep the bound.
#[test]
fn many_threads_on_two_rules_all_finish() {
    let (rate, burst, each, workers) = (50_000, 5_000, 10_000, 8);
    // The total rule is ordered between the two rules per address.
    let (sluice, clock) =
        sluice([per_ip(20_000, 5_000), total(rate, burst), Rule { name: "a".into(), ..per_ip(90_000, 9_000) }]);
    let start = clock.now();
    let threads: Vec<_> = (0..workers)
        .map(|index| {
            let meters = sluice.decide(&from(index % 4)).meters();
            thread::spawn(move || {
                let mut got = 0;
                while got < each {
                    got += blocking(meters.take(each - got));
                }
                got
            })
        })
        .collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !threads.iter().all(thread::JoinHandle::is_finished) {
        assert!(Instant::now() < deadline, "a waiter was not woken");
        match clock.next_timer() {
            Some(next) => clock.set(next.max(clock.now())),
            None => thread::yield_now(),
        }
    }
    let got: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(got, each * u64::from(workers));
    let max = u128::from(burst) + u128::from(rate) * (clock.now() - start).as_nanos() / 1_000_000_000;
    assert!(u128::from(got) <= max, "{got} of {max}");
    assert_eq!(clock.pending_timers(), 0);
}

/// Blocks this thread until bytes are granted.
fn blocking(ticket: ByteTicket) -> u64 {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut ticket = pin!(ticket);
    loop {
        match ticket.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(bytes) => return bytes,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn buckets_are_saved_and_restored() {
    let (before, clock) = sluice([per_ip(1, 100)]);
    assert_eq!(before.decide(&from(1)).meters().try_take(90), 90);
    let saved = SavedRules::from_bytes(&before.save().to_bytes()).unwrap();
    let after = Sluice::builder().rule(per_ip(1, 100)).clock(clock).memory(1 << 20).restore(saved).build().unwrap();
    assert!(after.unrestored_rules().is_empty());
    assert_eq!(after.decide(&from(1)).meters().try_take(90), 10);
}

#[test]
fn each_rule_is_settled_to_what_it_cost() {
    let estimating = |name: &str| {
        let limit = Limit::token_bucket(Rate::per_second(1).unwrap(), 100).unwrap();
        Rule { cost: Cost::estimate(50), ..Rule::new(name, [limit]) }
    };
    let fixed = Rule::new("fixed", [Limit::token_bucket(Rate::per_second(1).unwrap(), 100).unwrap()]);
    let (sluice, _clock) = sluice([estimating("a"), estimating("b"), fixed]);
    sluice.decide(&from(1)).settle_by(|rule| (rule.name != "b").then_some(10));
    let left =
        |outcome: Outcome| outcome.decisions().map(|(_, rule)| rule.decision.status.remaining).collect::<Vec<_>>();
    assert_eq!(left(sluice.decide(&from(1))), [40, 0, 98]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Downloads start, end and change at random: never more than the burst and the rate.
    #[test]
    fn random_downloads_keep_the_bound(
        rate in 1_u64..200_000,
        burst in 1_u64..100_000,
        acts in prop::collection::vec((0_u8..4, 0_u64..2_000), 1..120),
    ) {
        let (sluice, clock) = sluice([per_ip(rate, burst)]);
        let start = clock.now();
        let (mut downloads, mut elapsed) = (Vec::new(), 0);
        for (act, number) in acts {
            match act {
                0 => downloads.push(Download::of(&sluice, 1)),
                1 if !downloads.is_empty() => elapsed += downloads.swap_remove(number as usize % downloads.len()).got,
                2 => clock.advance(Duration::from_millis(number)),
                _ => if let Some(next) = clock.next_timer() { clock.set(next.max(clock.now())) },
            }
            exhaust(&mut downloads);
            let max = u128::from(burst) + u128::from(rate) * (clock.now() - start).as_nanos() / 1_000_000_000;
            prop_assert!(u128::from(sum(&downloads) + elapsed) <= max);
        }
        let waiting = downloads.iter().filter(|download| download.waiting.is_some()).count();
        prop_assert_eq!(sluice.counts()[0].waiting, waiting);
        drop(downloads);
        prop_assert_eq!((sluice.counts()[0].waiting, clock.pending_timers()), (0, 0));
    }
}

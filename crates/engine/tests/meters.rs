//! Bandwidth: bodies of one key share one rate, to the byte, and get about the same of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::rule::{Attribute, Ban, Cost, Lists, Mode, Request, Rule};
use sluicegate_engine::sluice::{Meters, SavedRules, TakingBytes};
use sluicegate_engine::{Limit, Outcome, Rate, Sluice};
use support::Task;

const PART: u64 = 16 << 10;

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

/// A body that takes all it can get.
struct Download {
    meters: Meters,
    waiting: Option<Task<TakingBytes>>,
    got: u64,
}

impl Download {
    fn of(sluice: &Sluice, client: u8) -> Self {
        let outcome = sluice.decide(&from(client));
        assert!(outcome.is_admitted() && outcome.is_held());
        Self { meters: outcome.meters(), waiting: None, got: 0 }
    }

    /// Takes one part, or waits for it. Answers whether it got something.
    fn go_on(&mut self) -> bool {
        let part = match &mut self.waiting {
            Some(waiting) => waiting.poll_if_woken(),
            None => Some(self.meters.try_take(PART)).filter(|part| *part > 0).or_else(|| {
                let mut waiting = Task::new(self.meters.take(PART));
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
        assert!((1..=PART).contains(&part));
        self.waiting = None;
        self.got += part;
        true
    }
}

/// Lets everybody take until nobody can any more.
fn exhaust(downloads: &mut [Download]) {
    while downloads.iter_mut().map(Download::go_on).fold(false, |any, one| any | one) {}
}

fn sum(downloads: &[Download]) -> u64 {
    downloads.iter().map(|download| download.got).sum()
}

/// Moves from alarm to alarm for so long, and looks at everybody's sum at each.
fn watch(clock: &ManualClock, downloads: &mut [Download], span: Duration, mut look: impl FnMut(Duration, u64)) {
    let start = clock.now();
    loop {
        exhaust(downloads);
        look(clock.now() - start, sum(downloads));
        let next = clock.next_alarm().unwrap_or(start + span).min(start + span);
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
    watch(&clock, &mut downloads, Duration::from_secs(10), |gone, got| {
        let most = burst + u64::try_from(u128::from(rate) * gone.as_nanos() / 1_000_000_000).unwrap();
        assert!(got <= most, "{got} of {most} after {gone:?}");
        assert!(got + 5_000 >= most, "{got} of {most} after {gone:?}: what a step holds back at most");
    });
    assert_eq!(sluice.counts()[0].bytes, sum(&downloads));
    assert_eq!((sluice.counts()[0].refused, sluice.counts()[0].waiting), (0, 10));
    // Whoever came first has most of the burst; the rest is shared.
    let of_the_rate = downloads[1..].iter().map(|download| download.got);
    let (least, most) = (of_the_rate.clone().min().unwrap(), of_the_rate.max().unwrap());
    assert!(most - least <= PART + 5_000, "{least} and {most}");
}

#[test]
fn two_downloads_share_evenly_also_if_the_clock_is_looked_at_rarely() {
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
fn keys_do_not_hold_up_each_other() {
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
fn who_waits_is_served_first_in_first_out_and_nobody_passes() {
    let (sluice, clock) = sluice([total(1_000, 1_000)]);
    let meters = sluice.decide(&from(1)).meters();
    assert_eq!(meters.try_take(u64::MAX), 1_000);
    let mut tasks: Vec<_> = (0..3).map(|_| Task::new(meters.take(PART))).collect();
    assert!(tasks.iter_mut().all(|task| task.poll().is_pending()));
    clock.advance(Duration::from_millis(49));
    assert!(tasks.iter_mut().all(|task| task.poll_if_woken().is_none()));
    clock.advance(Duration::from_secs(1));
    assert_eq!(meters.try_take(1), 0, "three wait");
    let mut order = Vec::new();
    for _ in 0..3 {
        let next = tasks.iter_mut().enumerate().find_map(|(nth, task)| Some((nth, task.poll_if_woken()?)));
        order.push(next.unwrap());
    }
    assert_eq!(order, [(0, 50), (1, 50), (2, 50)]);
    assert_eq!(meters.try_take(u64::MAX), 850);
}

#[test]
fn dropping_somebody_in_line_takes_nothing_and_lets_the_next_go() {
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
    assert_eq!((sluice.counts()[0].waiting, clock.alarms(), sluice.counts()[0].bytes), (0, 0, 1_050));
    drop(meters.take(500));
    clock.advance(Duration::from_secs(5));
    assert_eq!(meters.try_take(u64::MAX), 1_000);
}

#[test]
fn crumbs_are_not_worth_a_piece_but_the_last_bytes_are() {
    let (sluice, clock) = sluice([total(1_000, 1_000)]);
    let meters = sluice.decide(&from(1)).meters();
    assert_eq!(meters.try_take(1_000), 1_000);
    clock.advance(Duration::from_millis(7));
    assert_eq!(meters.try_take(PART), 0);
    assert_eq!(meters.try_take(7), 7);
    assert_eq!(meters.try_take(0), 0);
    assert_eq!(Task::new(meters.take(0)).now(), 0);
}

#[test]
fn nothing_is_asked_of_a_request_when_it_is_decided() {
    let mut rule = per_ip(10, 10);
    rule.cost = Cost::Fixed(1_000);
    rule.ban = Some(Ban { after: 1, within: Duration::from_secs(9), lasting: Duration::from_secs(9) });
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
fn only_bandwidth_alone_paces() {
    let mixed = Rule::new("mixed", [bandwidth(1, 1), Limit::concurrency(5).unwrap()]);
    assert!(total(1, 1).is_metering() && !mixed.is_metering() && !Rule::new("none", []).is_metering());
    let (sluice, _clock) = sluice([mixed]);
    let outcome = sluice.decide(&from(1));
    assert!(outcome.is_admitted() && outcome.meters().is_empty());
    assert!(!sluice.decide(&from(1)).is_admitted());
}

#[test]
fn refused_requests_and_rules_that_watch_meter_nothing() {
    let watching = Rule { mode: Mode::Shadow, ..total(1, 1) };
    let (sluice, _clock) = sluice([watching, per_ip(1, 1), Rule::new("none", [Limit::concurrency(1).unwrap()])]);
    let first = sluice.decide(&from(1));
    assert_eq!(first.meters().try_take(5), 1, "the one per address paces");
    let second = sluice.decide(&from(1));
    assert!(!second.is_admitted() && second.meters().is_empty() && !second.is_held());
    assert_eq!(second.meters().try_take(5), 5, "what is not metered passes");
    let counts: Vec<u64> = sluice.counts().iter().map(|of_rule| of_rule.bytes).collect();
    assert_eq!(counts, [0, 1, 0]);
}

#[test]
fn several_rules_are_taken_from_together_or_not_at_all() {
    let (sluice, clock) = sluice([per_ip(1_000, 1_000), total(3_000, 1_500)]);
    let [mut one, mut two] = [[Download::of(&sluice, 1)], [Download::of(&sluice, 2)]];
    exhaust(&mut one);
    exhaust(&mut two);
    assert_eq!((sum(&one), sum(&two)), (1_000, 500));
    let bytes: Vec<u64> = sluice.counts().iter().map(|of_rule| of_rule.bytes).collect();
    assert_eq!(bytes, [1_500, 1_500], "what one rule refused was not taken from the other");
    let mut all: Vec<Download> = one.into_iter().chain(two).chain((3..6).map(|ip| Download::of(&sluice, ip))).collect();
    let start = sum(&all);
    watch(&clock, &mut all, Duration::from_secs(20), |gone, got| {
        assert!(u128::from(got - start) <= 3_000 * gone.as_nanos() / 1_000_000_000, "{got} after {gone:?}");
    });
    assert!(sum(&all) - start >= 60_000 - 5 * 50, "{}", sum(&all));
    for download in &all {
        assert!(download.got <= 1_000 + 20_000);
        assert!(download.got >= 10_000, "{}: five share three thousand a second", download.got);
    }
}

#[test]
fn who_waits_for_its_own_rate_does_not_hold_up_others() {
    let (sluice, clock) = sluice([per_ip(10, 10), total(1_000, 15)]);
    let mut slow = [Download::of(&sluice, 1)];
    exhaust(&mut slow);
    let mut quick = [Download::of(&sluice, 2), Download::of(&sluice, 3)];
    exhaust(&mut quick);
    assert_eq!((sum(&slow), sum(&quick)), (10, 5), "the total is spent, and two wait for it");
    for _ in 0..15 {
        clock.advance(Duration::from_millis(1));
        exhaust(&mut slow);
        exhaust(&mut quick);
    }
    assert_eq!((sum(&slow), sum(&quick)), (10, 20), "the one that waits for its own rate is in nobody's way");
    clock.advance(Duration::from_millis(85));
    exhaust(&mut slow);
    assert_eq!(sum(&slow), 11);
}

#[test]
fn another_rate_holds_for_downloads_under_way() {
    let (sluice, clock) = sluice([per_ip(1_000, 1_000)]);
    let mut downloads = [Download::of(&sluice, 1), Download::of(&sluice, 1)];
    exhaust(&mut downloads);
    sluice.replace(vec![per_ip(100_000, 20_000)], Lists::default()).unwrap();
    exhaust(&mut downloads);
    assert_eq!(sum(&downloads), 1_000, "a change is no free burst");
    let mut last = 0;
    watch(&clock, &mut downloads, Duration::from_secs(1), |_, got| last = got);
    assert_eq!(last, 101_000);
    // And down again, to less than a step of before at once.
    sluice.replace(vec![per_ip(100, 10)], Lists::default()).unwrap();
    let before = sum(&downloads);
    watch(&clock, &mut downloads, Duration::from_secs(10), |gone, got| {
        assert!(u128::from(got - before) <= 10 + gone.as_nanos() / 10_000_000, "{} after {gone:?}", got - before);
    });
    assert!(sum(&downloads) - before >= 980, "{}", sum(&downloads) - before);
}

#[test]
fn a_rule_that_is_gone_or_only_watches_lets_downloads_go() {
    let gone = || Vec::new();
    let watching = || vec![Rule { mode: Mode::Shadow, ..per_ip(1, 1) }];
    let other = || vec![Rule::new("per-ip", ["5/1m".parse().unwrap()])];
    for rules in [gone as fn() -> Vec<Rule>, watching, other] {
        let (sluice, _clock) = sluice([per_ip(1, 1)]);
        let mut download = Download::of(&sluice, 1);
        while download.go_on() {}
        assert_eq!(download.got, 1);
        sluice.replace(rules(), Lists::default()).unwrap();
        assert!(download.go_on() && download.go_on());
        assert!(download.got > PART);
        // Who comes back under the same name paces whom it finds.
        sluice.replace(vec![per_ip(1, 1)], Lists::default()).unwrap();
        assert!(sluice.decide(&from(2)).meters().try_take(5) == 1);
    }
}

#[test]
fn a_rule_that_watched_for_a_while_paces_the_same_downloads_again() {
    let (sluice, _clock) = sluice([per_ip(1, 1)]);
    let meters = sluice.decide(&from(1)).meters();
    sluice.replace(vec![Rule { mode: Mode::Shadow, ..per_ip(1, 1) }], Lists::default()).unwrap();
    assert_eq!(meters.try_take(100), 100);
    sluice.replace(vec![per_ip(1, 1)], Lists::default()).unwrap();
    assert_eq!(meters.try_take(100), 1);
    assert_eq!(meters.try_take(100), 0);
}

#[test]
fn meters_and_those_who_wait_may_go_anywhere() {
    fn anywhere<T: Send + Sync + Unpin + 'static>(_: &T) {}
    let (sluice, _clock) = sluice([total(1, 1)]);
    let meters = sluice.decide(&from(1)).meters();
    anywhere(&meters);
    anywhere(&meters.take(1));
    drop(sluice);
    assert_eq!((meters.clone().try_take(5), meters.try_take(5)), (1, 0), "clones are the same meters");
}

/// Locks are taken in one order, wakers are not lost, and what threads get between them keeps the bound.
#[test]
fn many_threads_on_two_rules_all_get_through() {
    let (rate, burst, each, threads) = (50_000, 5_000, 10_000, 8);
    // The total stands between the two rules per address.
    let (sluice, clock) =
        sluice([per_ip(20_000, 5_000), total(rate, burst), Rule { name: "a".into(), ..per_ip(90_000, 9_000) }]);
    let start = clock.now();
    let takers: Vec<_> = (0..threads)
        .map(|nth| {
            let meters = sluice.decide(&from(nth % 4)).meters();
            thread::spawn(move || {
                let mut got = 0;
                while got < each {
                    got += blocking(meters.take(each - got));
                }
                got
            })
        })
        .collect();
    let patience = Instant::now() + Duration::from_secs(60);
    while !takers.iter().all(thread::JoinHandle::is_finished) {
        assert!(Instant::now() < patience, "somebody sleeps on");
        match clock.next_alarm() {
            Some(next) => clock.set(next.max(clock.now())),
            None => thread::yield_now(),
        }
    }
    let got: u64 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
    assert_eq!(got, each * u64::from(threads));
    let most = u128::from(burst) + u128::from(rate) * (clock.now() - start).as_nanos() / 1_000_000_000;
    assert!(u128::from(got) <= most, "{got} of {most}");
    assert_eq!(clock.alarms(), 0);
}

/// Waits on this thread.
fn blocking(taking: TakingBytes) -> u64 {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut taking = pin!(taking);
    loop {
        match taking.as_mut().poll(&mut Context::from_waker(&waker)) {
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
    assert!(after.started_fresh().is_empty());
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
        |outcome: Outcome| outcome.decisions().map(|(_, said)| said.decision.status.remaining).collect::<Vec<_>>();
    assert_eq!(left(sluice.decide(&from(1))), [40, 0, 98]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes, goes and is changed in between: never more than the burst and the rate.
    #[test]
    fn random_downloads_keep_the_bound(
        rate in 1_u64..200_000,
        burst in 1_u64..100_000,
        acts in prop::collection::vec((0_u8..4, 0_u64..2_000), 1..120),
    ) {
        let (sluice, clock) = sluice([per_ip(rate, burst)]);
        let start = clock.now();
        let (mut downloads, mut gone) = (Vec::new(), 0);
        for (act, number) in acts {
            match act {
                0 => downloads.push(Download::of(&sluice, 1)),
                1 if !downloads.is_empty() => gone += downloads.swap_remove(number as usize % downloads.len()).got,
                2 => clock.advance(Duration::from_millis(number)),
                _ => if let Some(next) = clock.next_alarm() { clock.set(next.max(clock.now())) },
            }
            exhaust(&mut downloads);
            let most = u128::from(burst) + u128::from(rate) * (clock.now() - start).as_nanos() / 1_000_000_000;
            prop_assert!(u128::from(sum(&downloads) + gone) <= most);
        }
        let waiting = downloads.iter().filter(|download| download.waiting.is_some()).count();
        prop_assert_eq!(sluice.counts()[0].waiting, waiting);
        drop(downloads);
        prop_assert_eq!((sluice.counts()[0].waiting, clock.alarms()), (0, 0));
    }
}

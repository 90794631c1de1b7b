//! Limits under test and their generators.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_engine::algorithm::{AdmitMode, Algorithm, Alignment, Check, LimitCharge};
use sluicegate_engine::{Limit, Rate, Timestamp};
use sluicegate_testkit::arrivals::{Arrival, ArrivalScale, strategy};
use sluicegate_testkit::bound::ExactRate;

/// Limit with its state.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) limit: Limit,
    pub(crate) state: Vec<u64>,
}

impl Subject {
    pub(crate) fn new(limit: Limit) -> Self {
        let words = algorithm(&limit).words();
        Self { limit, state: vec![0; words] }
    }

    pub(crate) fn fresh(&self) -> Self {
        Self::new(self.limit)
    }

    pub(crate) fn check(&self, at: u64, cost: u64) -> Check {
        algorithm(&self.limit).check(&self.state, time(at), cost, AdmitMode::Reserve)
    }

    pub(crate) fn check_departure(&self, at: u64, cost: u64) -> Check {
        algorithm(&self.limit).check(&self.state, time(at), cost, AdmitMode::Immediate)
    }

    /// True if the cost is admitted, immediately or after a wait.
    pub(crate) fn admits(&self, at: u64, cost: u64) -> bool {
        admitted(self.check(at, cost))
    }

    pub(crate) fn commit(&mut self, at: u64, cost: u64, hold: bool) -> LimitCharge {
        let mark = algorithm(&self.limit).commit(&mut self.state, time(at), cost, hold);
        LimitCharge { at: time(at), cost, mark, reserved: hold }
    }

    /// Checks a cost and charges it if admitted.
    pub(crate) fn take(&mut self, at: u64, cost: u64) -> Check {
        let check = self.check(at, cost);
        if admitted(check) {
            self.commit(at, cost, false);
        }
        check
    }

    pub(crate) fn settle(&mut self, taken: LimitCharge, actual: u64, at: u64) {
        algorithm(&self.limit).settle(&mut self.state, taken, actual, time(at));
    }

    pub(crate) fn remaining(&self, at: u64) -> u64 {
        algorithm(&self.limit).status(&self.state, time(at)).remaining
    }

    pub(crate) fn reset(&self, at: u64) -> u64 {
        algorithm(&self.limit).status(&self.state, time(at)).reset
    }

    pub(crate) fn full_at(&self) -> u64 {
        algorithm(&self.limit).full_at(&self.state).as_nanos()
    }

    pub(crate) fn merge(&mut self, from: &Self) {
        algorithm(&self.limit).merge(&mut self.state, &from.state);
    }

    pub(crate) fn play(&mut self, arrivals: &[Arrival]) -> Vec<Check> {
        arrivals.iter().map(|one| self.take(one.at, one.cost)).collect()
    }

    /// True if it counts reservations.
    pub(crate) fn is_reservable(&self) -> bool {
        matches!(self.limit, Limit::TokenBucket(bucket) if bucket.is_reservable())
    }

    pub(crate) fn is_warm_up(&self) -> bool {
        matches!(self.limit, Limit::WarmUp(_))
    }

    /// True if it recovers with time alone.
    pub(crate) fn recovers_with_time(&self) -> bool {
        !self.limit.is_concurrency()
    }

    /// Shifting all times by a multiple of this changes nothing.
    pub(crate) fn grid(&self) -> u64 {
        match self.limit {
            Limit::FixedWindow(window) => nanos(window.window()),
            Limit::SlidingWindow(window) => nanos(window.window()).div_ceil(u64::from(window.cells())),
            Limit::InterpolatedWindow(window) => nanos(window.window()),
            _ => 1,
        }
    }

    /// Time and cost scale of this limit.
    pub(crate) fn scale(&self) -> ArrivalScale {
        let window = self.limit.window().map_or(1_000, nanos).max(1);
        let capacity = if self.is_warm_up() { 5 } else { self.limit.capacity() };
        ArrivalScale::window(window).with_max_cost(capacity).with_per_window(capacity.saturating_mul(2).clamp(4, 60))
    }
}

pub(crate) fn admitted(check: Check) -> bool {
    matches!(check, Check::Now | Check::After(_))
}

pub(crate) fn algorithm(limit: &Limit) -> &dyn Algorithm {
    match limit {
        Limit::TokenBucket(limit) => limit,
        Limit::Bandwidth(limit) => &**limit,
        Limit::LeakyBucket(limit) => limit,
        Limit::FixedWindow(limit) => limit,
        Limit::SlidingWindow(limit) => limit,
        Limit::InterpolatedWindow(limit) => limit,
        Limit::SlidingLog(limit) => limit,
        Limit::Concurrency(limit) => limit,
        Limit::WarmUp(limit) => limit,
        other => panic!("{other} is not under test: add it"),
    }
}

pub(crate) const fn time(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap()
}

pub(crate) fn pace(rate: Rate) -> ExactRate {
    ExactRate::new(rate.count(), nanos(rate.period()))
}

fn rate() -> impl Strategy<Value = Rate> {
    let period = prop_oneof![
        Just(1_000u64),
        Just(1_000_000),
        Just(1_000_000_000),
        Just(60_000_000_000),
        1_000..=5_000_000_000u64
    ];
    (1..=1_000u64, period).prop_map(|(count, period)| Rate::new(count, Duration::from_nanos(period)).unwrap())
}

fn window() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(1u64),
        2..=2_000u64,
        Just(1_000_000),
        Just(1_000_000_000),
        Just(60_000_000_000),
        1_000..=5_000_000_000u64,
    ]
    .prop_map(Duration::from_nanos)
}

/// Small counts and counts around the widths of a packed counter.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 1..=40u64, 1 => 250..=260u64, 1 => 65_530..=65_540u64]
}

fn warm_up() -> impl Strategy<Value = Limit> {
    (1..=50u64, 1_000_000..=10_000_000_000u64, 6..=60u64, 2..=10u32).prop_map(|(count, period, gaps, factor)| {
        let rate = Rate::new(count, Duration::from_nanos(period)).unwrap();
        Limit::warm_up(rate, rate.time_for(gaps), factor).unwrap()
    })
}

fn reservable() -> BoxedStrategy<Limit> {
    (rate(), count())
        .prop_map(|(rate, burst)| match Limit::token_bucket(rate, burst).unwrap() {
            Limit::TokenBucket(bucket) => Limit::TokenBucket(bucket.reservable()),
            other => other,
        })
        .boxed()
}

/// Every limit that counts amounts: all but warm-up, which only has a next admission time.
fn counting_limits() -> BoxedStrategy<Limit> {
    let alignment = prop_oneof![Just(Alignment::Epoch), Just(Alignment::FirstUse)];
    prop_oneof![
        (rate(), count()).prop_map(|(rate, burst)| Limit::token_bucket(rate, burst).unwrap()),
        reservable(),
        (rate(), count()).prop_map(|(rate, queue)| Limit::leaky_bucket(rate, queue).unwrap()),
        (count(), window(), alignment).prop_map(|(count, window, a)| Limit::fixed_window(count, window, a).unwrap()),
        (count(), window(), 1..=20u32).prop_map(|(count, window, cells)| {
            let cells = u32::try_from(nanos(window)).unwrap_or(u32::MAX).min(cells);
            Limit::sliding_window(count, window, cells).unwrap()
        }),
        (count(), window()).prop_map(|(count, window)| Limit::interpolated_window(count, window).unwrap()),
        (1..=40u64, window()).prop_map(|(count, window)| Limit::sliding_log(count, window).unwrap()),
        count().prop_map(|count| Limit::concurrency(count).unwrap()),
    ]
    .boxed()
}

/// Any limit, in its fresh state.
pub(crate) fn subjects() -> BoxedStrategy<Subject> {
    prop_oneof![8 => counting(), 1 => warm_up().prop_map(Subject::new)].boxed()
}

/// Any limit that counts amounts, in its fresh state.
pub(crate) fn counting() -> BoxedStrategy<Subject> {
    counting_limits().prop_map(Subject::new).boxed()
}

/// Limits with permits or reservations.
pub(crate) fn holdable() -> BoxedStrategy<Subject> {
    let permits = count().prop_map(|count| Limit::concurrency(count).unwrap());
    prop_oneof![3 => reservable(), 1 => permits].prop_map(Subject::new).boxed()
}

/// Limits with an arrival sequence each, on a clock that stalls, jumps and steps back.
pub(crate) fn with_arrivals(subjects: BoxedStrategy<Subject>) -> BoxedStrategy<(Subject, Vec<Arrival>)> {
    subjects.prop_flat_map(|subject| (Just(subject.clone()), wild_arrivals(&subject))).boxed()
}

/// Limits with two arrival sequences each, on a clock that never steps back.
pub(crate) fn with_two_orderly_runs(
    subjects: BoxedStrategy<Subject>,
) -> BoxedStrategy<(Subject, Vec<Arrival>, Vec<Arrival>)> {
    subjects
        .prop_flat_map(|subject| {
            let runs = (orderly_arrivals(&subject), orderly_arrivals(&subject));
            (Just(subject), runs).prop_map(|(subject, (first, second))| (subject, first, second))
        })
        .boxed()
}

pub(crate) fn wild_arrivals(subject: &Subject) -> BoxedStrategy<Vec<Arrival>> {
    from_anywhere(subject, strategy::arrivals)
}

pub(crate) fn orderly_arrivals(subject: &Subject) -> BoxedStrategy<Vec<Arrival>> {
    from_anywhere(subject, strategy::monotonic_arrivals)
}

type ArrivalStrategy = fn(ArrivalScale, std::ops::RangeInclusive<usize>) -> BoxedStrategy<Vec<Arrival>>;

fn from_anywhere(subject: &Subject, sequences: ArrivalStrategy) -> BoxedStrategy<Vec<Arrival>> {
    let scale = subject.scale();
    prop_oneof![Just(scale.start), Just(0), Just(300_000_000_000_000_000)]
        .prop_flat_map(move |start| sequences(scale.starting_at(start), 1..=150))
        .boxed()
}

/// Sample times after `now`: the next ones, and around a window later.
pub(crate) fn sample_times_from(subject: &Subject, now: u64) -> Vec<u64> {
    let window = subject.scale().window;
    [0, 1, 2, window / 7, window / 2, window - 1, window, window + 1, 2 * window, 3 * window + 5]
        .iter()
        .map(|ahead| now.saturating_add(*ahead))
        .collect()
}

/// Sample costs: the smallest, the largest, and some in between.
pub(crate) fn costs(subject: &Subject) -> Vec<u64> {
    let max = subject.scale().max_cost;
    let mut costs = vec![1, 2, 3, max / 4, max / 2, max - 1, max];
    costs.retain(|cost| (1..=max).contains(cost));
    costs.sort_unstable();
    costs.dedup();
    costs
}

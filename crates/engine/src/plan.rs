//! Several limits on one key, decided all or nothing.
//!
//! The states of a key's limits stand side by side in one row of words. Deciding asks every limit
//! first and only then takes from each, so a refusal by one spends nothing of the others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smallvec::SmallVec;

use crate::algorithm::gcra::{Gcra, nanos_covering, ticks};
use crate::algorithm::{Algorithm, Alignment, Check, Entry, Status, Taken};
use crate::decision::Decision;
use crate::limit::{Limit, LimitError, each_algorithm};
use crate::table::Place;
use crate::time::Timestamp;

/// The most limits one key can have.
pub const MOST_LIMITS: usize = 16;

/// Marks of what was taken, one per limit.
type Marks = SmallVec<[u64; 2]>;

/// The limits of one key and where each keeps its state.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Tells plans apart: what was taken under one is ended differently under another.
    id: u64,
    limits: SmallVec<[Limit; 2]>,
    /// Tells each limit from others, and is passed on to the one that replaces it: what was taken from a
    /// limit can be given back to whatever became of it, and to nothing else.
    lineage: SmallVec<[u64; 2]>,
    words: usize,
    /// Whether callers hold something that they must give back.
    permits: bool,
    /// Whether everything is permits, so that a cost means so many of them.
    only_permits: bool,
    /// The arithmetic of all limits, if they are plain token buckets of one word each. The commonest
    /// plan by far, and worth a way of its own.
    buckets: SmallVec<[Gcra; 2]>,
}

/// What all limits together say, before anything is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ruling {
    pub(crate) check: Check,
    /// The limit it hangs on.
    pub(crate) limit: usize,
}

impl Ruling {
    pub(crate) const fn admits(&self) -> bool {
        matches!(self.check, Check::Now | Check::After(_))
    }
}

impl Plan {
    /// A plan of these limits.
    pub(crate) fn new(limits: impl IntoIterator<Item = Limit>) -> Result<Self, LimitError> {
        let limits: SmallVec<[Limit; 2]> = limits.into_iter().collect();
        if limits.is_empty() {
            return Err(LimitError::NoLimits);
        }
        if limits.len() > MOST_LIMITS {
            return Err(LimitError::TooManyLimits { count: limits.len(), most: MOST_LIMITS });
        }
        Ok(Self::of(limits))
    }

    /// A plan of a single limit.
    pub(crate) fn of_one(limit: Limit) -> Self {
        Self::of(SmallVec::from_iter([limit]))
    }

    /// The same plan in place of another: limits go on where those they replace stood.
    #[must_use]
    pub(crate) fn succeeding(mut self, old: &Self) -> Self {
        for (lineage, predecessor) in self.lineage.iter_mut().zip(predecessors(&self.limits, &old.limits)) {
            if let Some(index) = predecessor {
                *lineage = old.lineage[index];
            }
        }
        self
    }

    /// What tells this plan from any other.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    fn of(limits: SmallVec<[Limit; 2]>) -> Self {
        let words = limits.iter().map(Limit::words).sum();
        let permits = limits.iter().any(Limit::is_concurrency);
        let only_permits = limits.iter().all(Limit::is_concurrency);
        static MADE: AtomicU64 = AtomicU64::new(0);
        let id = MADE.fetch_add(1 + limits.len() as u64, Ordering::Relaxed);
        let lineage = (1..).zip(&limits).map(|(nth, _)| id + nth).collect();
        let buckets: Option<_> = limits.iter().map(plain_bucket).collect();
        Self { id, limits, lineage, words, permits, only_permits, buckets: buckets.unwrap_or_default() }
    }

    /// The limits, in the order given.
    pub(crate) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The arithmetic of the only limit, if it is a token bucket in one word.
    pub(crate) fn single_bucket(&self) -> Option<Gcra> {
        match &*self.buckets {
            [bucket] => Some(*bucket),
            _ => None,
        }
    }

    /// Words of state per key.
    pub(crate) const fn words(&self) -> usize {
        self.words
    }

    #[inline]
    fn cost_of(&self, limit: &Limit, cost: u64) -> u64 {
        if limit.is_concurrency() { self.permits_of(cost) } else { cost }
    }

    /// Each limit with its part of the words.
    fn parts<'a>(&'a self, mut state: &'a [u64]) -> impl Iterator<Item = (&'a Limit, &'a [u64])> {
        self.limits.iter().map(move |limit| {
            let (part, rest) = state.split_at(limit.words());
            state = rest;
            (limit, part)
        })
    }

    /// Whether all limits admit `cost`.
    #[inline]
    pub(crate) fn check(&self, state: &[u64], now: Timestamp, cost: u64, entry: Entry) -> Ruling {
        if !self.buckets.is_empty() {
            return self.check_buckets(state, now, cost);
        }
        let mut ruling = Ruling { check: Check::Now, limit: 0 };
        for (index, (limit, part)) in self.parts(state).enumerate() {
            let cost = self.cost_of(limit, cost);
            let check = each_algorithm!(limit, algorithm => algorithm.check(part, now, cost, entry));
            if check.severity() > ruling.check.severity() {
                ruling = Ruling { check, limit: index };
            }
        }
        ruling
    }

    /// [`Plan::check`] for plain buckets.
    fn check_buckets(&self, state: &[u64], now: Timestamp, cost: u64) -> Ruling {
        let now = ticks(now);
        let mut ruling = Ruling { check: Check::Now, limit: 0 };
        for (index, (bucket, arrival)) in self.buckets.iter().zip(state).enumerate() {
            let check = if cost > bucket.burst() {
                Check::Never
            } else if let (Err(early), 1..) = (bucket.admit(*arrival, now, cost), cost) {
                Check::NotBefore(nanos_covering(early))
            } else {
                continue;
            };
            if check.severity() > ruling.check.severity() {
                ruling = Ruling { check, limit: index };
            }
        }
        ruling
    }

    /// [`Plan::commit`] for plain buckets.
    fn commit_buckets(&self, state: &mut [u64], now: Timestamp, cost: u64, marks: &mut Marks) {
        let now = ticks(now);
        for (bucket, arrival) in self.buckets.iter().zip(state) {
            if cost > 0 {
                *arrival = (*arrival).max(now).saturating_add(bucket.span(cost));
            }
            marks.push(*arrival);
        }
    }

    /// Takes `cost` from every limit, and adds the mark of each.
    #[inline]
    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, hold: bool, marks: &mut Marks) {
        if !self.buckets.is_empty() {
            return self.commit_buckets(state, now, cost, marks);
        }
        self.each_mut(state, |limit, part| {
            let cost = self.cost_of(limit, cost);
            marks.push(each_algorithm!(limit, algorithm => algorithm.commit(part, now, cost, hold)));
        });
    }

    /// Takes `cost` from every limit and puts down what is needed to end it.
    #[inline]
    pub(crate) fn take(&self, state: &mut [u64], now: Timestamp, cost: u64, hold: bool, taken: &mut Option<Taking>) {
        let holds = ((hold || self.permits) && cost > 0).then(|| self.holds_of(cost, hold));
        let marks = Marks::new();
        let taking = Taking { plan: self.id, at: now, cost, marks, held: hold, holds, place: Place::Own };
        // The marks are written where they stay: they are too fresh to be moved without waiting for them.
        self.commit(state, now, cost, hold, &mut taken.insert(taking).marks);
    }

    fn holds_of(&self, cost: u64, hold: bool) -> Box<[(u64, u64)]> {
        let holding = self.limits.iter().zip(&self.lineage).filter_map(|(limit, lineage)| match limit {
            Limit::Concurrency(_) => Some((*lineage, self.permits_of(cost))),
            Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) if hold && bucket.is_reservable() => {
                Some((*lineage, cost))
            }
            _ => None,
        });
        holding.collect()
    }

    /// Ends what was taken, from this plan or from one it replaced.
    pub(crate) fn end(&self, state: &mut [u64], taking: &Taking, actual: u64, now: Timestamp) {
        if taking.plan == self.id {
            self.settle(state, taking, actual, now);
        } else {
            self.release(state, taking);
        }
    }

    /// Decides at once and keeps hold of nothing: permits are given back on the spot.
    #[inline]
    pub(crate) fn decide(&self, state: &mut [u64], now: Timestamp, cost: u64) -> Decision {
        let ruling = self.check(state, now, cost, Entry::Enqueue);
        if ruling.admits() {
            self.commit(state, now, cost, false, &mut Marks::new());
        }
        let decision = self.decision(ruling, state, now);
        if self.permits && ruling.admits() {
            self.give_back_permits(state, self.permits_of(cost));
        }
        decision
    }

    /// Gives back so many permits of each concurrency limit.
    fn give_back_permits(&self, state: &mut [u64], permits: u64) {
        self.each_mut(state, |limit, part| {
            if limit.is_concurrency() {
                part[0] = part[0].saturating_sub(permits);
            }
        });
    }

    /// How many permits of each concurrency limit a cost takes. Requests are counted one by one where
    /// they are in flight, whatever else they cost.
    #[inline]
    const fn permits_of(&self, cost: u64) -> u64 {
        match (self.permits, self.only_permits, cost) {
            (false, ..) => 0,
            (true, true, cost) => cost,
            (true, false, 0) => 0,
            (true, false, _) => 1,
        }
    }

    /// Gives back what a request took under an older plan and still holds: its permits, and its claim
    /// on tokens as far as they are still counted.
    fn release(&self, state: &mut [u64], taking: &Taking) {
        let holds = taking.holds.as_deref().unwrap_or_default();
        let mut lineage = self.lineage.iter();
        self.each_mut(state, |limit, part| {
            let lineage = lineage.next();
            let Some((_, amount)) = holds.iter().find(|(of, _)| Some(of) == lineage) else { return };
            match (limit, part) {
                (Limit::Concurrency(_), [permits]) => *permits = permits.saturating_sub(*amount),
                (Limit::TokenBucket(_) | Limit::Bandwidth(_), [_, out]) => *out = out.saturating_sub(*amount),
                _ => {}
            }
        });
    }

    /// Forgets everything but what is held: whoever holds it will give it back.
    pub(crate) fn forgive(&self, state: &mut [u64], now: Timestamp) {
        self.each_mut(state, |limit, part| match (limit, part) {
            (Limit::Concurrency(_), _) => {}
            (Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket), [arrival, out]) => {
                *arrival = ticks(now).saturating_add(bucket.gcra().span(*out));
            }
            (_, part) => part.fill(0),
        });
    }

    /// What a stranger makes of the state it shares with forgotten keys: a window that opens with a
    /// key's first use opens now.
    pub(crate) fn estrange(&self, state: &mut [u64], now: Timestamp) {
        self.each_mut(state, |limit, part| {
            if let (Limit::FixedWindow(window), [end, _]) = (limit, part)
                && window.alignment() == Alignment::FirstUse
                && *end > now.as_nanos()
            {
                *end = (now + window.window()).as_nanos();
            }
        });
    }

    /// Empties whatever is held: after a restart nobody is left to give it back.
    pub(crate) fn drop_holds(&self, state: &mut [u64]) {
        self.each_mut(state, |limit, part| match (limit, part) {
            (Limit::Concurrency(_), part) => part.fill(0),
            (Limit::TokenBucket(_) | Limit::Bandwidth(_), [_, out]) => *out = 0,
            _ => {}
        });
    }

    fn each_mut(&self, state: &mut [u64], mut each: impl FnMut(&Limit, &mut [u64])) {
        let mut rest = state;
        for limit in &self.limits {
            let (part, tail) = rest.split_at_mut(limit.words());
            rest = tail;
            each(limit, part);
        }
    }

    /// Takes `cost` from the limits that bound their line, and from no other.
    pub(crate) fn fill_line(&self, state: &mut [u64], now: Timestamp, cost: u64) {
        self.each_mut(state, |limit, part| {
            if let Limit::LeakyBucket(bucket) = limit {
                bucket.commit(part, now, cost, false);
            }
        });
    }

    /// The longest wait the clock alone imposes, whatever is held by others.
    pub(crate) fn least_wait(&self, state: &[u64], now: Timestamp, cost: u64) -> Duration {
        let waits = self.parts(state).map(|(limit, part)| {
            let cost = self.cost_of(limit, cost);
            match each_algorithm!(limit, algorithm => algorithm.check(part, now, cost, Entry::Depart)) {
                Check::NotBefore(wait) => wait,
                _ => 0,
            }
        });
        Duration::from_nanos(waits.max().unwrap_or(0))
    }

    /// Whether a caller may join the line of every limit that bounds its line, given the state as it
    /// will be when those already waiting have left.
    pub(crate) fn line_has_room(&self, state: &[u64], now: Timestamp, cost: u64) -> bool {
        self.parts(state).all(|(limit, part)| match limit {
            Limit::LeakyBucket(bucket) => {
                matches!(bucket.check(part, now, cost, Entry::Enqueue), Check::Now | Check::After(_))
            }
            _ => true,
        })
    }

    /// Corrects every limit to what it really cost; permits go back.
    ///
    /// Where keys share a state, only what is held can be given back: the rest of it may be another's.
    fn settle(&self, state: &mut [u64], taking: &Taking, actual: u64, now: Timestamp) {
        let mut marks = taking.marks.iter();
        self.each_mut(state, |limit, part| {
            let Some(&mark) = marks.next() else { return };
            let cost = self.cost_of(limit, taking.cost);
            let taken = Taken { at: taking.at, cost, mark, held: taking.held };
            let actual = match limit {
                Limit::Concurrency(_) => 0,
                Limit::TokenBucket(_) | Limit::Bandwidth(_) if taking.held => actual,
                _ if taking.place == Place::Strict => actual.max(cost),
                _ => actual,
            };
            each_algorithm!(limit, algorithm => algorithm.settle(part, taken, actual, now));
        });
    }

    /// What is left of one limit.
    #[inline]
    pub(crate) fn status(&self, state: &[u64], index: usize, now: Timestamp) -> Status {
        let from: usize = self.limits[..index].iter().map(Limit::words).sum();
        let limit = &self.limits[index];
        let part = &state[from..from + limit.words()];
        each_algorithm!(limit, algorithm => algorithm.status(part, now))
    }

    /// What is left of every limit.
    pub(crate) fn statuses(&self, state: &[u64], now: Timestamp) -> Vec<Status> {
        self.parts(state)
            .map(|(limit, part)| each_algorithm!(limit, algorithm => algorithm.status(part, now)))
            .collect()
    }

    /// [`Plan::tightest`] for plain buckets.
    fn tightest_bucket(&self, state: &[u64], now: Timestamp) -> (usize, Status) {
        let now = ticks(now);
        let mut tightest = (0, u64::MAX);
        for (index, (bucket, arrival)) in self.buckets.iter().zip(state).enumerate() {
            let remaining = bucket.remaining(*arrival, now);
            if remaining < tightest.1 {
                tightest = (index, remaining);
            }
        }
        let (index, remaining) = tightest;
        let reset = nanos_covering(state[index].saturating_sub(now));
        (index, Status { limit: self.buckets[index].burst(), remaining, reset })
    }

    /// The limit with the least left, and what that is.
    #[inline]
    fn tightest(&self, state: &[u64], now: Timestamp) -> (usize, Status) {
        if !self.buckets.is_empty() {
            return self.tightest_bucket(state, now);
        }
        let mut tightest = (0, Status { limit: 0, remaining: u64::MAX, reset: 0 });
        for (index, (limit, part)) in self.parts(state).enumerate() {
            let status = each_algorithm!(limit, algorithm => algorithm.status(part, now));
            if index == 0 || status.remaining < tightest.1.remaining {
                tightest = (index, status);
            }
        }
        tightest
    }

    /// What is left of the limit a ruling hangs on, given the state after it. If nothing refuses, that
    /// is the limit with the least left.
    #[inline]
    pub(crate) fn report(&self, ruling: &mut Ruling, state: &[u64], now: Timestamp) -> Status {
        if ruling.check != Check::Now {
            return self.status(state, ruling.limit, now);
        }
        let (limit, status) = self.tightest(state, now);
        ruling.limit = limit;
        status
    }

    /// The decision to report for a ruling, given the state after it.
    #[inline]
    pub(crate) fn decision(&self, mut ruling: Ruling, state: &[u64], now: Timestamp) -> Decision {
        let status = self.report(&mut ruling, state, now);
        Decision { verdict: ruling.check.verdict(), limit: ruling.limit, status }
    }

    /// From when on the state equals the fresh one.
    #[inline]
    pub(crate) fn full_at(&self, state: &[u64]) -> Timestamp {
        self.parts(state)
            .map(|(limit, part)| each_algorithm!(limit, algorithm => algorithm.full_at(part)))
            .max()
            .unwrap_or(Timestamp::ZERO)
    }

    /// Makes `into` at least as strict as both.
    pub(crate) fn merge(&self, into: &mut [u64], from: &[u64]) {
        let mut rest = into;
        for (limit, from) in self.parts(from) {
            let (part, tail) = rest.split_at_mut(limit.words());
            rest = tail;
            each_algorithm!(limit, algorithm => algorithm.merge(part, from));
        }
    }

    /// When a caller of `cost` could leave if it came at `at`, and the state after that. `None` if no
    /// clock can tell, or never.
    pub(crate) fn forecast(&self, state: &mut [u64], at: Timestamp, cost: u64) -> Option<Timestamp> {
        let at = match self.check(state, at, cost, Entry::Depart).check {
            Check::Now | Check::After(_) => at,
            Check::NotBefore(wait) => at + Duration::from_nanos(wait),
            Check::Held | Check::Never => return None,
        };
        self.commit(state, at, cost, false, &mut Marks::new());
        Some(at)
    }

    /// The state these limits take over from other ones, so that a change of quota is no free burst.
    ///
    /// A limit that did not change keeps its state to the bit. A changed one starts with what was left
    /// of the one it replaces, and no more; permits and reservations that are out stay out.
    pub(crate) fn adopt(&self, old: &Self, old_state: &[u64], now: Timestamp) -> SmallVec<[u64; 8]> {
        let mut state = SmallVec::from_elem(0, self.words);
        let mut rest: &mut [u64] = &mut state;
        let predecessors = predecessors(&self.limits, &old.limits);
        for (limit, predecessor) in self.limits.iter().zip(predecessors) {
            let (part, tail) = rest.split_at_mut(limit.words());
            rest = tail;
            let Some((old_limit, old_part)) = predecessor.and_then(|index| old.parts(old_state).nth(index)) else {
                continue;
            };
            adopt_one(limit, part, old_limit, old_part, now);
        }
        state
    }
}

/// For each limit the position of the old one it stands for: the same, else one of its kind, else
/// whichever is left over.
fn predecessors(limits: &[Limit], old: &[Limit]) -> SmallVec<[Option<usize>; 2]> {
    let mut free: SmallVec<[bool; 4]> = SmallVec::from_elem(true, old.len());
    let mut found: SmallVec<[Option<usize>; 2]> = SmallVec::from_elem(None, limits.len());
    let alike: [fn(&Limit, &Limit) -> bool; 3] =
        [|a, b| a == b, |a, b| a.algorithm() == b.algorithm(), |a, b| !a.is_concurrency() && !b.is_concurrency()];
    for alike in alike {
        for (limit, slot) in limits.iter().zip(&mut found) {
            if slot.is_none() {
                let index = (0..free.len()).find(|&index| free[index] && alike(limit, &old[index]));
                if let Some(index) = index {
                    free[index] = false;
                    *slot = Some(index);
                }
            }
        }
    }
    found
}

/// The arithmetic of a limit that is a token bucket in one word.
fn plain_bucket(limit: &Limit) -> Option<Gcra> {
    match limit {
        Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) if !bucket.is_reservable() => Some(*bucket.gcra()),
        _ => None,
    }
}

fn adopt_one(limit: &Limit, state: &mut [u64], old: &Limit, old_state: &[u64], now: Timestamp) {
    if limit == old || (limit.is_concurrency() && old.is_concurrency()) {
        state.copy_from_slice(old_state);
        return;
    }
    if old_state.iter().all(|word| *word == 0) {
        return;
    }
    let left = each_algorithm!(old, algorithm => algorithm.status(old_state, now)).remaining;
    let wait = match each_algorithm!(old, algorithm => algorithm.check(old_state, now, 1, Entry::Depart)) {
        Check::NotBefore(wait) => wait,
        _ => 0,
    };
    let taken = match (limit, old) {
        // A paced rate knows no amount left; it starts cold.
        (Limit::WarmUp(_), _) => u64::from(wait > 0),
        // And leaves none behind: what comes after it starts with one, or none.
        (_, Limit::WarmUp(_)) => limit.capacity().saturating_sub(u64::from(wait == 0)),
        _ => limit.capacity().saturating_sub(left).saturating_add(overdraft(old, old_state, now)),
    };
    each_algorithm!(limit, algorithm => algorithm.commit(state, now, taken, false));
    match (limit, &mut *state) {
        (Limit::WarmUp(_), [next, _]) => *next = (*next).max((now + Duration::from_nanos(wait)).as_nanos()),
        // Full, but not fresh: the next change must not take it for never used.
        (Limit::TokenBucket(_) | Limit::Bandwidth(_) | Limit::LeakyBucket(_), [arrival, ..]) => {
            *arrival = (*arrival).max(ticks(now));
        }
        _ => {}
    }
    if let ([_, out], [_, old_out]) = (state, old_state)
        && matches!(limit, Limit::TokenBucket(_) | Limit::Bandwidth(_))
        && matches!(old, Limit::TokenBucket(_) | Limit::Bandwidth(_))
    {
        *out = *old_out;
    }
}

/// What was charged to a bucket beyond what it holds.
fn overdraft(limit: &Limit, state: &[u64], now: Timestamp) -> u64 {
    match (limit, state) {
        (Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket), [arrival, ..]) => {
            bucket.gcra().overdraft(*arrival, ticks(now))
        }
        _ => 0,
    }
}

/// What was taken from a plan's limits and where it stands, to be ended later.
#[derive(Clone, Debug)]
pub(crate) struct Taking {
    /// The plan it was taken from.
    plan: u64,
    at: Timestamp,
    pub(crate) cost: u64,
    marks: Marks,
    /// Whether tokens count as out until it ends.
    held: bool,
    /// What must be given back whatever happens, by the lineage of the limit it belongs to: permits, and
    /// tokens that count as out.
    holds: Option<Box<[(u64, u64)]>>,
    pub(crate) place: Place,
}

impl Taking {
    /// Whether somebody waits for it to end.
    pub(crate) const fn is_held(&self) -> bool {
        self.holds.is_some()
    }
}

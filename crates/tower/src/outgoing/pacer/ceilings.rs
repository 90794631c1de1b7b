//! How many may be sent until when, as several answers said it.

use std::time::Duration;

use sluicegate_engine::Timestamp;

/// The most ceilings kept.
const MOST: usize = 8;

/// Until `until`, no more than `total` may have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ceiling {
    pub(super) total: u64,
    pub(super) until: Timestamp,
    /// How many there are from one reset to the next; at least 1.
    pub(super) quota: u64,
    /// Time from one reset to the next.
    pub(super) window: Duration,
    /// The answer it comes from; `None` if it is only supposed.
    pub(super) told: Option<Told>,
}

/// What an answer said, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// What it said remained.
    pub(super) remaining: u64,
    /// The number of the last request that was sent before it arrived.
    pub(super) after: u64,
    /// How far the ceiling may rise: to what remained beyond all that was sent then, and no further than
    /// the answers allowed whose place it took.
    pub(super) most: u64,
    /// The number of the last request that `most` counts as sent.
    pub(super) counted: u64,
}

impl Ceiling {
    pub(super) const fn left(&self, sent: u64) -> u64 {
        self.total.saturating_sub(sent)
    }

    /// It takes the place of another, which must go on to hold.
    fn rise_no_further_than(&mut self, other: &Self) {
        if let (Some(told), Some(other)) = (&mut self.told, &other.told) {
            told.most = told.most.min(other.most);
            told.counted = told.counted.max(other.counted);
        }
    }

    /// The first reset after `now`, which is not before its own.
    pub(super) fn reset_after(&self, now: Timestamp) -> Timestamp {
        let window = self.window.as_nanos().max(1);
        let passed = (now - self.until).as_nanos() / window + 1;
        self.until + Duration::from_nanos(u64::try_from(passed * window).unwrap_or(u64::MAX))
    }

    /// When the next request after `ahead` others is due, if what is left is spread over the time from
    /// the last one to the reset.
    pub(super) fn even_turn(&self, sent: u64, last: Timestamp, ahead: u64) -> Timestamp {
        let parts = u128::from(self.left(sent)) + 1;
        let between = (self.until - last).as_nanos().div_ceil(parts);
        let nanos = between.saturating_mul(u128::from(ahead) + 1);
        last + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Ceilings of which each said something that the others did not, by the moment of their reset.
///
/// Answers of one window seldom agree on its end to the second, and a window that slides has another
/// end with each answer. If there are too many, the two that end closest together become one that is
/// as strict as both.
#[derive(Clone, Debug, Default)]
pub(super) struct Ceilings(Vec<Ceiling>);

impl Ceilings {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Ceiling> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, mut new: Ceiling) {
        let stricter = |old: &&mut Ceiling| old.total <= new.total && old.until >= new.until;
        if let Some(old) = self.0.iter_mut().find(stricter) {
            old.rise_no_further_than(&new);
            return;
        }
        self.0.retain(|old| {
            let kept = old.total < new.total || old.until > new.until;
            if !kept {
                new.rise_no_further_than(old);
            }
            kept
        });
        let at = self.0.partition_point(|old| old.until < new.until);
        self.0.insert(at, new);
        if self.0.len() > MOST {
            self.join_closest();
        }
    }

    /// A request was answered. If it was in flight when a ceiling was told, and was left with more than
    /// that ceiling was, the server had counted it before.
    pub(super) fn hear_of(&mut self, number: u64, remaining: u64) {
        for Ceiling { total, told, .. } in &mut self.0 {
            if told.is_some_and(|told| number <= told.after && remaining > told.remaining && *total < told.most) {
                *total += 1;
            }
        }
    }

    /// A request was never sent after all: where it was counted, what remained beyond it is one less.
    pub(super) fn unsend(&mut self, number: u64) {
        for Ceiling { total, told, .. } in &mut self.0 {
            if let Some(told) = told.as_mut().filter(|told| number <= told.counted) {
                told.most = told.most.saturating_sub(1);
                *total = told.most.min(*total);
            }
        }
    }

    /// Drops what has passed at `now`, and answers the last of it.
    pub(super) fn drop_passed(&mut self, now: Timestamp) -> Option<Ceiling> {
        let passed = self.0.partition_point(|ceiling| ceiling.until <= now);
        self.0.drain(..passed).next_back()
    }

    fn join_closest(&mut self) {
        let gap = |at: &usize| self.0[at + 1].until - self.0[*at].until;
        if let Some(at) = (0..self.0.len().saturating_sub(1)).min_by_key(gap) {
            let later = self.0.remove(at + 1);
            let joined = &mut self.0[at];
            joined.total = joined.total.min(later.total);
            joined.until = later.until;
            joined.rise_no_further_than(&later);
            // It is no longer that of one answer, to which others could be compared.
            if let Some(told) = &mut joined.told {
                told.remaining = u64::MAX;
            }
        }
    }
}

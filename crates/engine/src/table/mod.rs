//! Keyed state in a table of fixed size.
//!
//! Peers keep a map from key to a pointer to state: two or three cache misses per decision, a copy of
//! every key, and memory that grows with every new key an attacker thinks of. Here a key is hashed
//! once and never stored. The hash picks one bucket, a few neighbouring cache lines; 32 further bits of
//! it tell the keys of a bucket apart. The bucket's lock guards its states, so any algorithm and any
//! number of limits per key are decided as one step.
//!
//! **Forgetting.** When a bucket is full, the key that has recovered completely goes first: a fresh
//! state in its place is the same. If none has, the one that would recover soonest goes, and its state
//! is folded into the bucket's *strict slot*. Every key the bucket does not know starts from there, so
//! a forgotten key can come back, but not with a new burst: whatever is forgotten, no key is ever
//! admitted more than its limit. What this costs is that strangers in such a bucket start with less
//! than a fresh key would; [`Table::forgotten`] counts how often it happened.
//!
//! **Flood.** A million random keys of one request each recover soonest and so push out each other. A
//! key that is being limited is the last in its bucket to recover, and stays.
//!
//! **Held keys** (permits out, reservations not settled) are never forgotten. If a bucket is full of
//! them, further keys share the strict slot, which then counts for all of them together.
//!
//! Two keys whose 64 bits of hash agree in bucket and tag share one state, which is stricter than
//! either alone. The seed is random per table, so nobody can choose such keys.

mod bucket;
mod huge_pages;
mod prefetch;
mod storage;

use std::collections::TryReserveError;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use rapidhash::quality::RapidHasher;

use crate::clock::ClockHandle;
use crate::limit::LimitError;
use crate::limiter::KeyedCore;
use crate::plan::Plan;
use crate::time::Timestamp;
pub(crate) use bucket::Place;
use bucket::{Bucket, SLOTS};
use prefetch::Extent;
use storage::{Heap, Inline, Storage};

/// How many keys a bucket has to hold on average when the table is at capacity. Far enough below
/// [`SLOTS`] that hardly a bucket overflows: three keys in ten thousand by Poisson's law.
const KEYS_PER_BUCKET: f64 = 9.2;

/// The largest states, in words, that stand within their bucket.
const LARGEST_INLINE: usize = 16;

/// The most keys a table can be built for.
const MOST_KEYS: usize = 1 << 32;

/// A table for one plan's states, whatever their size.
pub(crate) struct Table {
    slots: Slots,
    buckets: usize,
    seed: u64,
    counts: Counts,
    /// Whether what is forgotten early is really forgotten, instead of being folded into the strict
    /// slot. For states where too strict is worse than too lax.
    lenient: bool,
    /// Where buckets that moved have gone, while the table is being replaced. Afterwards whoever still
    /// knows this table has to ask for the present one.
    pub(crate) successor: ArcSwapOption<KeyedCore>,
}

/// What a table counts of itself.
#[derive(Default)]
pub(crate) struct Counts {
    /// Keys that were forgotten before they had recovered.
    forgotten: AtomicU64,
    /// Far slots that have been given out.
    far: AtomicU64,
}

/// Buckets by size of state. One word is the common case and called directly; the others behind a
/// pointer, as their work outweighs it.
enum Slots {
    One(Box<[Bucket<Inline<1>>]>),
    Many(Box<dyn Buckets>),
}

/// What a table does with one bucket.
pub(crate) trait Buckets: Send + Sync {
    fn bytes(&self) -> usize;
    fn prefetch(&self, index: usize, extent: Extent);
    fn visit(&self, index: usize, ask: &Ask<'_>, act: &mut dyn FnMut(&mut [u64]) -> bool) -> Visit;
    fn at_place(&self, index: usize, tag: u32, place: Place, act: &mut dyn FnMut(&mut [u64])) -> Visit;
    fn export(&self, index: usize, each: &mut dyn FnMut(u32, &[u64]));
    fn import(&self, index: usize, ask: &Ask<'_>, state: &[u64]);
    fn hand_over(&self, index: usize, each: &mut dyn FnMut(u32, &[u64]));
}

/// What a visit needs to know besides the key.
pub(crate) struct Ask<'a> {
    pub(crate) tag: u32,
    pub(crate) now: Timestamp,
    pub(crate) plan: &'a Plan,
    pub(crate) counts: &'a Counts,
    pub(crate) lenient: bool,
}

/// How a visit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// Done; the state stands here.
    Done(Place),
    /// This bucket's keys live in the table's successor now.
    Moved,
}

impl<S: Storage<Near: 'static, Far: 'static>> Buckets for Box<[Bucket<S>]> {
    fn bytes(&self) -> usize {
        size_of_val::<[Bucket<S>]>(self) + self.iter().map(Bucket::heap_bytes).sum::<usize>()
    }

    fn prefetch(&self, index: usize, extent: Extent) {
        prefetch::prefetch(&self[index], extent);
    }

    fn visit(&self, index: usize, ask: &Ask<'_>, act: &mut dyn FnMut(&mut [u64]) -> bool) -> Visit {
        self[index].visit(ask, act)
    }

    fn at_place(&self, index: usize, tag: u32, place: Place, act: &mut dyn FnMut(&mut [u64])) -> Visit {
        self[index].at_place(tag, place, act)
    }

    fn export(&self, index: usize, each: &mut dyn FnMut(u32, &[u64])) {
        self[index].export(each);
    }

    fn import(&self, index: usize, ask: &Ask<'_>, state: &[u64]) {
        self[index].import(ask, state);
    }

    fn hand_over(&self, index: usize, each: &mut dyn FnMut(u32, &[u64])) {
        self[index].hand_over(each);
    }
}

/// A key's place: which bucket, and what tells it apart there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash(pub(crate) u64);

impl KeyHash {
    /// The tag; zero marks an empty slot.
    #[inline]
    const fn tag(self) -> u32 {
        let tag = self.0 as u32;
        if tag == 0 { 1 } else { tag }
    }

    /// The bucket among `count`, by the upper half of the hash.
    #[inline]
    const fn bucket(self, count: usize) -> usize {
        (((self.0 >> 32) * count as u64) >> 32) as usize
    }
}

impl Table {
    /// How many buckets `capacity` keys need.
    pub(crate) fn buckets_for(capacity: usize) -> Result<usize, LimitError> {
        if capacity == 0 || capacity > MOST_KEYS {
            return Err(LimitError::Capacity { keys: capacity, most: MOST_KEYS });
        }
        Ok((capacity as f64 / KEYS_PER_BUCKET).ceil() as usize)
    }

    /// A table with exactly so many buckets.
    pub(crate) fn with_buckets(plan: &Plan, buckets: usize, seed: u64) -> Result<Self, LimitError> {
        fn boxed<S: Storage + 'static>(words: usize, buckets: usize) -> Result<Slots, TryReserveError> {
            Ok(Slots::Many(Box::new(Bucket::<S>::row(words, buckets)?)))
        }
        let words = plan.words();
        let slots = match words {
            1 => Bucket::row(1, buckets).map(Slots::One),
            2 => boxed::<Inline<2>>(words, buckets),
            3 => boxed::<Inline<3>>(words, buckets),
            4 => boxed::<Inline<4>>(words, buckets),
            5..=6 => boxed::<Inline<6>>(words, buckets),
            7..=8 => boxed::<Inline<8>>(words, buckets),
            9..=12 => boxed::<Inline<12>>(words, buckets),
            13..=LARGEST_INLINE => boxed::<Inline<16>>(words, buckets),
            _ => boxed::<Heap>(words, buckets),
        };
        let slots = slots.map_err(|_| LimitError::Memory { keys: (buckets as f64 * KEYS_PER_BUCKET) as usize })?;
        Ok(Self { slots, buckets, seed, counts: Counts::default(), lenient: false, successor: ArcSwapOption::empty() })
    }

    /// The same table, made to forget without a trace.
    #[must_use]
    pub(crate) const fn lenient(mut self) -> Self {
        self.lenient = true;
        self
    }

    pub(crate) const fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Bytes a key takes at capacity whose state has so many words.
    pub(crate) fn bytes_per_key(words: usize) -> usize {
        const SAMPLE: usize = 1_000;
        let bucket = match words {
            ..=1 => size_of::<Bucket<Inline<1>>>(),
            2 => size_of::<Bucket<Inline<2>>>(),
            3 => size_of::<Bucket<Inline<3>>>(),
            4 => size_of::<Bucket<Inline<4>>>(),
            5..=6 => size_of::<Bucket<Inline<6>>>(),
            7..=8 => size_of::<Bucket<Inline<8>>>(),
            9..=12 => size_of::<Bucket<Inline<12>>>(),
            13..=LARGEST_INLINE => size_of::<Bucket<Inline<16>>>(),
            _ => size_of::<Bucket<Heap>>() + words * size_of::<u64>() * (SLOTS + 1),
        };
        (bucket * SAMPLE).div_ceil((KEYS_PER_BUCKET * SAMPLE as f64) as usize)
    }

    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) const fn buckets(&self) -> usize {
        self.buckets
    }

    /// Bytes the table takes, whatever is in it.
    pub(crate) fn bytes(&self) -> usize {
        match &self.slots {
            Slots::One(buckets) => buckets.bytes(),
            Slots::Many(buckets) => buckets.bytes(),
        }
    }

    /// How many keys were forgotten before they had recovered.
    pub(crate) fn forgotten(&self) -> u64 {
        self.counts.forgotten.load(Ordering::Relaxed)
    }

    pub(crate) fn add_forgotten(&self, count: u64) {
        self.counts.forgotten.fetch_add(count, Ordering::Relaxed);
    }

    /// How much of a bucket is worth fetching. While hardly a bucket has keys in its far slots, fetching those
    /// would only drive out of the cache what is needed.
    #[inline(always)]
    fn extent(&self) -> Extent {
        match self.counts.far.load(Ordering::Relaxed) < self.buckets as u64 / 8 {
            true => Extent::Near,
            false => Extent::All,
        }
    }

    /// Starts fetching a key's bucket from memory.
    #[inline(always)]
    pub(crate) fn prefetch(&self, key: KeyHash) {
        match &self.slots {
            Slots::One(buckets) => prefetch::prefetch(&buckets[key.bucket(buckets.len())], self.extent()),
            Slots::Many(buckets) => buckets.prefetch(key.bucket(self.buckets), self.extent()),
        }
    }

    #[inline(always)]
    const fn asking<'a>(&'a self, plan: &'a Plan, tag: u32, now: Timestamp) -> Ask<'a> {
        Ask { tag, now, plan, counts: &self.counts, lenient: self.lenient }
    }

    /// Hands the key's state to `act`, which says whether it changed it. An unknown key is given the
    /// state of a stranger and takes up room only if `act` changed that.
    #[inline]
    pub(crate) fn visit(
        &self,
        plan: &Plan,
        key: KeyHash,
        now: Timestamp,
        mut act: impl FnMut(&mut [u64]) -> bool,
    ) -> Visit {
        let ask = self.asking(plan, key.tag(), now);
        match &self.slots {
            Slots::One(buckets) => buckets[key.bucket(buckets.len())].visit(&ask, &mut act),
            Slots::Many(buckets) => buckets.visit(key.bucket(self.buckets), &ask, &mut act),
        }
    }

    /// [`Table::visit`] for states of one word, without detours.
    #[inline(always)]
    pub(crate) fn visit_word(
        &self,
        plan: &Plan,
        key: KeyHash,
        now: Timestamp,
        mut act: impl FnMut(&mut u64) -> bool,
    ) -> Visit {
        match &self.slots {
            Slots::One(buckets) => {
                let ask = self.asking(plan, key.tag(), now);
                buckets[key.bucket(buckets.len())].visit(&ask, &mut |state: &mut [u64]| act(&mut state[0]))
            }
            Slots::Many(_) => self.visit(plan, key, now, |state| act(&mut state[0])),
        }
    }

    /// Hands over the state of a key that was visited before and is held there.
    pub(crate) fn at_place(&self, key: KeyHash, place: Place, mut act: impl FnMut(&mut [u64])) -> Visit {
        match &self.slots {
            Slots::One(buckets) => buckets[key.bucket(buckets.len())].at_place(key.tag(), place, &mut act),
            Slots::Many(buckets) => buckets.at_place(key.bucket(self.buckets), key.tag(), place, &mut act),
        }
    }

    fn many(&self) -> &dyn Buckets {
        match &self.slots {
            Slots::One(buckets) => buckets,
            Slots::Many(buckets) => &**buckets,
        }
    }

    /// Shows every state of a bucket with its tag; tag 0 is the strict slot.
    pub(crate) fn export(&self, bucket: usize, mut each: impl FnMut(u32, &[u64])) {
        self.many().export(bucket, &mut each);
    }

    /// Puts a state under a tag; tag 0 is the strict slot.
    pub(crate) fn import(&self, plan: &Plan, bucket: usize, tag: u32, state: &[u64], now: Timestamp) {
        self.many().import(bucket, &self.asking(plan, tag, now), state);
    }

    /// Moves one bucket to another table, converting its states on the way.
    pub(crate) fn move_bucket(&self, bucket: usize, to: &Self, to_plan: &Plan, from_plan: &Plan, clock: &ClockHandle) {
        self.many().hand_over(bucket, &mut |tag, state| {
            // The time is read with the bucket in hand: nothing can be taken after it.
            let now = clock.now();
            let state = to_plan.adopt(from_plan, state, now);
            to.import_from(to_plan, self.buckets, bucket, tag, &state, now);
        });
    }

    /// Takes in a state from a bucket of a table with another number of them.
    ///
    /// A bucket's number tells only the upper bits of a key's hash, so the key may belong to one of
    /// several buckets here. All of them get the state: the right one is then among them, and the others
    /// hold a key that nobody will ask for and that recovers like any other.
    pub(crate) fn import_from(
        &self,
        plan: &Plan,
        buckets: usize,
        bucket: usize,
        tag: u32,
        state: &[u64],
        now: Timestamp,
    ) {
        // The least and the greatest upper half of a hash that falls into the bucket there.
        let least = |bucket: usize| ((bucket as u128) << 32).div_ceil(buckets as u128);
        let (least, greatest) = (least(bucket), least(bucket + 1).saturating_sub(1));
        let here = |upper: u128| ((upper * self.buckets as u128) >> 32) as usize;
        for bucket in here(least)..=here(greatest).min(self.buckets - 1) {
            self.import(plan, bucket, tag, state, now);
        }
    }
}

/// The hash of a key under a seed.
#[inline]
pub(crate) fn hash_with(seed: u64, key: &(impl Hash + ?Sized)) -> KeyHash {
    let mut hasher = KeyHasher::new(seed);
    key.hash(&mut hasher.0);
    hasher.key()
}

/// Hashes a key that comes in parts.
pub(crate) struct KeyHasher(RapidHasher<'static>);

impl KeyHasher {
    #[inline]
    pub(crate) fn new(seed: u64) -> Self {
        Self(RapidHasher::new(seed))
    }

    #[inline]
    pub(crate) fn key(&self) -> KeyHash {
        KeyHash(self.0.finish())
    }
}

impl Hasher for KeyHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// A seed nobody can guess.
pub(crate) fn random_seed() -> u64 {
    use std::hash::BuildHasher;
    std::collections::hash_map::RandomState::new().hash_one(0u8)
}

const _: () = assert!(KEYS_PER_BUCKET < SLOTS as f64);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limit::Limit;

    /// What is reckoned for a key is what a table takes.
    #[test]
    fn a_key_takes_what_was_reckoned() {
        for length in 1..40 {
            let log = Limit::sliding_log(length, Duration::from_secs(1)).unwrap();
            let plan = Plan::of_one(log);
            let words = plan.words();
            let table = Table::with_buckets(&plan, 50, 7).unwrap();
            if words > LARGEST_INLINE {
                // Heap rows come with their keys: fill them all.
                for key in 0..5_000u64 {
                    table.visit(&plan, hash_with(7, &key), Timestamp::from_nanos(1), |state| {
                        state[0] = 1;
                        true
                    });
                }
            }
            let reckoned = Table::bytes_per_key(words) as f64;
            let taken = table.bytes() as f64 / (50.0 * KEYS_PER_BUCKET);
            assert!((taken / reckoned - 1.0).abs() < 0.01, "{words} words: {taken} of {reckoned}");
        }
    }
}

//! Fixed-size hash table of per-key state.
//!
//! Other limiters map each key to a pointer to its state: two or three cache misses per decision, a copy of
//! every key, and memory that grows with every new key an attacker sends. Here a key is hashed once and never
//! stored. The hash selects one bucket, a few adjacent cache lines; 32 further bits of it, the tag, distinguish
//! the keys of a bucket. The bucket's lock guards its states, so any algorithm and any number of limits per key
//! are decided atomically.
//!
//! **Eviction.** If a bucket is full, a fully recovered key is evicted first: a fresh state is the same. If
//! there is none, the key that recovers soonest is evicted, and its state is merged into the bucket's *overflow
//! slot*. Every key unknown to the bucket starts from there, so an evicted key can come back, but not with a new
//! burst: whatever is evicted, no key is ever admitted more than its limit. The cost is that unknown keys in such
//! a bucket start with less than a fresh key would; [`Table::early_evictions`] counts these evictions.
//!
//! **Flood.** A million random keys of one request each recover soonest and so evict each other. A key that is
//! being limited is the last in its bucket to recover, and stays.
//!
//! **Held keys** (with held permits or open reservations) are never evicted. If a bucket is full of them,
//! further keys share the overflow slot, which then counts for all of them together.
//!
//! Two keys with the same bucket and tag share one state, which is stricter than either alone. The hash seed is
//! random per table, so such keys cannot be chosen.

mod bucket;
mod huge_pages;
mod prefetch;
mod storage;

use std::collections::TryReserveError;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use rapidhash::quality::RapidHasher;

use crate::clock::ClockHandle;
use crate::limit::LimitError;
use crate::limit_set::{LimitSet, SlotLocation};
use crate::time::Timestamp;
use bucket::{Bucket, SLOTS};
use prefetch::PrefetchExtent;
use storage::{Heap, Inline, StateStorage};

/// Average number of keys per bucket at capacity. Far enough below [`SLOTS`] that few keys overflow: three in
/// ten thousand by the Poisson distribution.
const KEYS_PER_BUCKET: f64 = 9.2;

/// Maximum size of a state, in words, stored within its bucket.
const MAX_INLINE_WORDS: usize = 16;

/// Maximum capacity of a table, in keys.
const MAX_KEYS: usize = 1 << 32;

/// Hash table for the states of one limit set, of any state size.
pub(crate) struct Table {
    storage: BucketStorage,
    buckets: usize,
    seed: u64,
    counters: TableCounters,
    /// If set, the state of an early evicted key is dropped instead of merged into the overflow slot. For states
    /// that should rather be too lax than too strict.
    drop_evicted: bool,
}

/// Counters of a table.
#[derive(Default)]
pub(crate) struct TableCounters {
    /// Keys evicted before they had recovered.
    early_evictions: AtomicU64,
    /// Secondary slots in use.
    secondary_used: AtomicU64,
}

/// Buckets by size of state. One word is the common case and called directly; the others are behind dynamic
/// dispatch, which their work outweighs.
enum BucketStorage {
    OneWord(Box<[Bucket<Inline<1>>]>),
    Wide(Box<dyn BucketArray>),
}

/// Operations of a table on one of its buckets.
pub(crate) trait BucketArray: Send + Sync {
    fn bytes(&self) -> usize;
    fn prefetch(&self, index: usize, extent: PrefetchExtent);
    fn with_state(
        &self,
        index: usize,
        context: &SlotContext<'_>,
        act: &mut dyn FnMut(&mut [u64]) -> bool,
    ) -> StateAccess;
    fn with_state_at(
        &self,
        index: usize,
        tag: u32,
        location: SlotLocation,
        act: &mut dyn FnMut(&mut [u64]),
    ) -> StateAccess;
    fn export(&self, index: usize, each: &mut dyn FnMut(u32, &[u64]));
    fn import(&self, index: usize, context: &SlotContext<'_>, state: &[u64]);
    fn export_and_move(&self, index: usize, each: &mut dyn FnMut(u32, &[u64]));
}

/// Context of an access to one key's state.
pub(crate) struct SlotContext<'a> {
    pub(crate) tag: u32,
    pub(crate) now: Timestamp,
    pub(crate) limit_set: &'a LimitSet,
    pub(crate) counters: &'a TableCounters,
    pub(crate) drop_evicted: bool,
}

/// Result of a state access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateAccess {
    /// Done; the state has this location.
    Done(SlotLocation),
    /// The keys of this bucket have moved to the table's successor.
    Moved,
}

impl<S: StateStorage<Primary: 'static, Secondary: 'static>> BucketArray for Box<[Bucket<S>]> {
    fn bytes(&self) -> usize {
        size_of_val::<[Bucket<S>]>(self) + self.iter().map(Bucket::heap_bytes).sum::<usize>()
    }

    fn prefetch(&self, index: usize, extent: PrefetchExtent) {
        prefetch::prefetch(&self[index], extent);
    }

    fn with_state(
        &self,
        index: usize,
        context: &SlotContext<'_>,
        act: &mut dyn FnMut(&mut [u64]) -> bool,
    ) -> StateAccess {
        self[index].with_state(context, act)
    }

    fn with_state_at(
        &self,
        index: usize,
        tag: u32,
        location: SlotLocation,
        act: &mut dyn FnMut(&mut [u64]),
    ) -> StateAccess {
        self[index].with_state_at(tag, location, act)
    }

    fn export(&self, index: usize, each: &mut dyn FnMut(u32, &[u64])) {
        self[index].export(each);
    }

    fn import(&self, index: usize, context: &SlotContext<'_>, state: &[u64]) {
        self[index].import(context, state);
    }

    fn export_and_move(&self, index: usize, each: &mut dyn FnMut(u32, &[u64])) {
        self[index].export_and_move(each);
    }
}

/// Hash of a key: selects the bucket and the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash(pub(crate) u64);

impl KeyHash {
    /// Tag of the key; zero marks an empty slot.
    #[inline]
    const fn tag(self) -> u32 {
        let tag = self.0 as u32;
        if tag == 0 { 1 } else { tag }
    }

    /// Bucket index among `count` buckets, from the upper half of the hash.
    #[inline]
    const fn bucket(self, count: usize) -> usize {
        (((self.0 >> 32) * count as u64) >> 32) as usize
    }
}

impl Table {
    /// Number of buckets for `capacity` keys.
    pub(crate) fn buckets_for(capacity: usize) -> Result<usize, LimitError> {
        if capacity == 0 || capacity > MAX_KEYS {
            return Err(LimitError::Capacity { keys: capacity, max: MAX_KEYS });
        }
        Ok((capacity as f64 / KEYS_PER_BUCKET).ceil() as usize)
    }

    /// Creates a table with this number of buckets.
    pub(crate) fn with_buckets(limit_set: &LimitSet, buckets: usize, seed: u64) -> Result<Self, LimitError> {
        fn boxed<S: StateStorage + 'static>(words: usize, buckets: usize) -> Result<BucketStorage, TryReserveError> {
            Ok(BucketStorage::Wide(Box::new(Bucket::<S>::row(words, buckets)?)))
        }
        let words = limit_set.words();
        let slots = match words {
            1 => Bucket::row(1, buckets).map(BucketStorage::OneWord),
            2 => boxed::<Inline<2>>(words, buckets),
            3 => boxed::<Inline<3>>(words, buckets),
            4 => boxed::<Inline<4>>(words, buckets),
            5..=6 => boxed::<Inline<6>>(words, buckets),
            7..=8 => boxed::<Inline<8>>(words, buckets),
            9..=12 => boxed::<Inline<12>>(words, buckets),
            13..=MAX_INLINE_WORDS => boxed::<Inline<16>>(words, buckets),
            _ => boxed::<Heap>(words, buckets),
        };
        let slots = slots.map_err(|_| LimitError::Memory { keys: (buckets as f64 * KEYS_PER_BUCKET) as usize })?;
        Ok(Self { storage: slots, buckets, seed, counters: TableCounters::default(), drop_evicted: false })
    }

    /// The same table, dropping evicted states instead of merging them.
    #[must_use]
    pub(crate) const fn drop_evicted(mut self) -> Self {
        self.drop_evicted = true;
        self
    }

    pub(crate) const fn drops_evicted(&self) -> bool {
        self.drop_evicted
    }

    /// Bytes per key at capacity, for states of this many words.
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
            13..=MAX_INLINE_WORDS => size_of::<Bucket<Inline<16>>>(),
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

    /// Size of the table in bytes, independent of its contents.
    pub(crate) fn bytes(&self) -> usize {
        match &self.storage {
            BucketStorage::OneWord(buckets) => buckets.bytes(),
            BucketStorage::Wide(buckets) => buckets.bytes(),
        }
    }

    /// Number of keys evicted before they had recovered.
    pub(crate) fn early_evictions(&self) -> u64 {
        self.counters.early_evictions.load(Ordering::Relaxed)
    }

    pub(crate) fn add_early_evictions(&self, count: u64) {
        self.counters.early_evictions.fetch_add(count, Ordering::Relaxed);
    }

    /// Part of a bucket worth prefetching. While few secondary slots are in use, fetching them would only evict
    /// useful cache lines.
    #[inline(always)]
    fn prefetch_extent(&self) -> PrefetchExtent {
        match self.counters.secondary_used.load(Ordering::Relaxed) < self.buckets as u64 / 8 {
            true => PrefetchExtent::FirstLine,
            false => PrefetchExtent::All,
        }
    }

    /// Prefetches a key's bucket.
    #[inline(always)]
    pub(crate) fn prefetch(&self, key: KeyHash) {
        match &self.storage {
            BucketStorage::OneWord(buckets) => {
                prefetch::prefetch(&buckets[key.bucket(buckets.len())], self.prefetch_extent());
            }
            BucketStorage::Wide(buckets) => buckets.prefetch(key.bucket(self.buckets), self.prefetch_extent()),
        }
    }

    #[inline(always)]
    const fn slot_context<'a>(&'a self, limit_set: &'a LimitSet, tag: u32, now: Timestamp) -> SlotContext<'a> {
        SlotContext { tag, now, limit_set, counters: &self.counters, drop_evicted: self.drop_evicted }
    }

    /// Calls `act` with the key's state; `act` returns true if it changed the state. An unknown key gets the
    /// initial state for unknown keys and takes a slot only if `act` changed it.
    #[inline]
    pub(crate) fn with_state(
        &self,
        limit_set: &LimitSet,
        key: KeyHash,
        now: Timestamp,
        mut act: impl FnMut(&mut [u64]) -> bool,
    ) -> StateAccess {
        let context = self.slot_context(limit_set, key.tag(), now);
        match &self.storage {
            BucketStorage::OneWord(buckets) => buckets[key.bucket(buckets.len())].with_state(&context, &mut act),
            BucketStorage::Wide(buckets) => buckets.with_state(key.bucket(self.buckets), &context, &mut act),
        }
    }

    /// [`Table::with_state`] for states of one word, without dynamic dispatch.
    #[inline(always)]
    pub(crate) fn with_word(
        &self,
        limit_set: &LimitSet,
        key: KeyHash,
        now: Timestamp,
        mut act: impl FnMut(&mut u64) -> bool,
    ) -> StateAccess {
        match &self.storage {
            BucketStorage::OneWord(buckets) => {
                let context = self.slot_context(limit_set, key.tag(), now);
                buckets[key.bucket(buckets.len())].with_state(&context, &mut |state: &mut [u64]| act(&mut state[0]))
            }
            BucketStorage::Wide(_) => self.with_state(limit_set, key, now, |state| act(&mut state[0])),
        }
    }

    /// Calls `act` with the state at the location of an earlier access.
    pub(crate) fn with_state_at(
        &self,
        key: KeyHash,
        location: SlotLocation,
        mut act: impl FnMut(&mut [u64]),
    ) -> StateAccess {
        match &self.storage {
            BucketStorage::OneWord(buckets) => {
                buckets[key.bucket(buckets.len())].with_state_at(key.tag(), location, &mut act)
            }
            BucketStorage::Wide(buckets) => {
                buckets.with_state_at(key.bucket(self.buckets), key.tag(), location, &mut act)
            }
        }
    }

    fn as_array(&self) -> &dyn BucketArray {
        match &self.storage {
            BucketStorage::OneWord(buckets) => buckets,
            BucketStorage::Wide(buckets) => &**buckets,
        }
    }

    /// Exports every state of a bucket with its tag; tag 0 is the overflow slot.
    pub(crate) fn export(&self, bucket: usize, mut each: impl FnMut(u32, &[u64])) {
        self.as_array().export(bucket, &mut each);
    }

    /// Stores a state under a tag; tag 0 is the overflow slot.
    pub(crate) fn import(&self, limit_set: &LimitSet, bucket: usize, tag: u32, state: &[u64], now: Timestamp) {
        self.as_array().import(bucket, &self.slot_context(limit_set, tag, now), state);
    }

    /// Moves one bucket to another table and converts its states.
    pub(crate) fn move_bucket(
        &self,
        bucket: usize,
        to: &Self,
        to_limit_set: &LimitSet,
        from_limit_set: &LimitSet,
        clock: &ClockHandle,
    ) {
        self.as_array().export_and_move(bucket, &mut |tag, state| {
            // Read the time while holding the bucket: nothing can be taken after it.
            let now = clock.now();
            let state = to_limit_set.migrate(from_limit_set, state, now);
            to.import_from(to_limit_set, self.buckets, bucket, tag, &state, now);
        });
    }

    /// Imports a state from a bucket of a table with another number of buckets.
    ///
    /// A bucket index determines only the upper bits of a key's hash, so the key may belong to one of several
    /// buckets here. All of them get the state: the right one is among them, and the others hold an entry that is
    /// never looked up and that recovers like any other.
    pub(crate) fn import_from(
        &self,
        limit_set: &LimitSet,
        buckets: usize,
        bucket: usize,
        tag: u32,
        state: &[u64],
        now: Timestamp,
    ) {
        // Lowest and highest upper half of a hash that falls into that bucket.
        let lowest = |bucket: usize| ((bucket as u128) << 32).div_ceil(buckets as u128);
        let (lowest, highest) = (lowest(bucket), lowest(bucket + 1).saturating_sub(1));
        let local_bucket = |upper: u128| ((upper * self.buckets as u128) >> 32) as usize;
        for bucket in local_bucket(lowest)..=local_bucket(highest).min(self.buckets - 1) {
            self.import(limit_set, bucket, tag, state, now);
        }
    }
}

/// Hash of a key with a seed.
#[inline]
pub(crate) fn hash_with(seed: u64, key: &(impl Hash + ?Sized)) -> KeyHash {
    let mut hasher = KeyHasher::new(seed);
    key.hash(&mut hasher.0);
    hasher.key()
}

/// Hasher for keys of several parts.
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

/// Unpredictable hash seed.
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

    /// The estimated size per key matches the real size of a table.
    #[test]
    fn bytes_per_key_matches_the_table() {
        for length in 1..40 {
            let log = Limit::sliding_log(length, Duration::from_secs(1)).unwrap();
            let limit_set = LimitSet::single(log);
            let words = limit_set.words();
            let table = Table::with_buckets(&limit_set, 50, 7).unwrap();
            if words > MAX_INLINE_WORDS {
                // Heap rows are allocated with their keys: fill them all.
                for key in 0..5_000u64 {
                    table.with_state(&limit_set, hash_with(7, &key), Timestamp::from_nanos(1), |state| {
                        state[0] = 1;
                        true
                    });
                }
            }
            let estimated = Table::bytes_per_key(words) as f64;
            let taken = table.bytes() as f64 / (50.0 * KEYS_PER_BUCKET);
            assert!((taken / estimated - 1.0).abs() < 0.01, "{words} words: {taken} of {estimated}");
        }
    }
}

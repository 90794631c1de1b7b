//! Frequent-items sketch: counts the most frequent keys in bounded memory.
//!
//! A sketch has a fixed number of counters. A key with a counter is counted exactly. A key without one gets a
//! free counter; if there is none, the median of all counts is subtracted from every counter, and those that
//! reach zero become free. The sum of these subtractions is `max_error`: no key is undercounted by more.
//!
//! **Guarantee.** For every key, its counter (zero if it has none) is at most its true count and at least its
//! true count minus `max_error`. `max_error` is at most `2 × total / counters` for any order of keys: each
//! subtraction of the median m takes m from at least half of the counters. This is the algorithm of Misra and
//! Gries with the purge by median of Anderson and others ("A high-performance algorithm for identifying
//! frequent items in data streams", 2017). The median here is exact, not sampled, so that the bound is certain.
//!
//! **Names.** Keys are identified by their hashes. Names cost memory and time, and most keys of a flood never
//! return: after the first purge a name is requested only if the key returns while it has a counter.

use std::sync::Arc;

/// Initial number of slots.
const INITIAL_SLOTS: usize = 16;

/// Counts of the most frequent keys.
pub(super) struct Sketch {
    /// Open-addressing table with linear probing: a power of two of slots, at most half of them occupied; empty
    /// until the first key.
    slots: Vec<SketchSlot>,
    occupied: usize,
    /// Number of counters.
    counters: usize,
    total: u64,
    /// Maximum undercount of any key.
    max_error: u64,
}

#[derive(Clone, Default)]
struct SketchSlot {
    hash: u64,
    /// Zero for a free slot.
    count: u64,
    name: Option<Arc<str>>,
}

/// Key with its counter.
pub(super) struct SketchEntry<'a> {
    pub(super) hash: u64,
    pub(super) count: u64,
    pub(super) name: Option<&'a Arc<str>>,
}

impl Sketch {
    /// Sketch with this number of counters, at least two.
    pub(super) const fn new(counters: usize) -> Self {
        let counters = if counters < 2 { 2 } else { counters };
        Self { slots: Vec::new(), occupied: 0, counters, total: 0, max_error: 0 }
    }

    /// Bytes per counter without the name.
    pub(super) const fn bytes_per_counter() -> usize {
        2 * size_of::<SketchSlot>()
    }

    /// Counts a key. Returns true if its name is needed.
    #[inline]
    pub(super) fn record(&mut self, hash: u64) -> bool {
        self.total += 1;
        if !self.slots.is_empty() {
            let at = self.find(hash);
            let slot = &mut self.slots[at];
            if slot.count > 0 {
                slot.count += 1;
                return slot.name.is_none();
            }
        }
        self.insert(hash)
    }

    /// Inserts a key. Returns true if its name is needed.
    #[cold]
    fn insert(&mut self, hash: u64) -> bool {
        if self.occupied >= self.counters {
            self.purge();
        } else if self.occupied * 2 >= self.slots.len() {
            let slots = (self.slots.len() * 2).max(INITIAL_SLOTS);
            self.rehash(slots);
        }
        self.insert_slot(SketchSlot { hash, count: 1, name: None });
        self.max_error == 0
    }

    /// Subtracts the median of all counts from each.
    fn purge(&mut self) {
        let median = self.median();
        self.max_error += median;
        let mut retained = Vec::with_capacity(self.counters / 2);
        for slot in self.slots.iter_mut().filter(|slot| slot.count > 0) {
            let SketchSlot { hash, count, name } = std::mem::take(slot);
            if count > median {
                retained.push(SketchSlot { hash, count: count - median, name });
            }
        }
        self.occupied = 0;
        retained.into_iter().for_each(|slot| self.insert_slot(slot));
    }

    fn median(&self) -> u64 {
        let counts = self.slots.iter().map(|slot| slot.count).filter(|count| *count > 0);
        let middle = self.occupied / 2;
        // Shortcut for floods, which purge most often.
        if counts.clone().filter(|count| *count == 1).count() > middle {
            return 1;
        }
        let mut counts: Vec<u64> = counts.collect();
        *counts.select_nth_unstable(middle).1
    }

    /// Moves all counters to a table with this number of slots.
    fn rehash(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![SketchSlot::default(); slots]);
        self.occupied = 0;
        old.into_iter().filter(|slot| slot.count > 0).for_each(|slot| self.insert_slot(slot));
    }

    fn insert_slot(&mut self, slot: SketchSlot) {
        let at = self.find(slot.hash);
        self.slots[at] = slot;
        self.occupied += 1;
    }

    /// Slot of a key, or the free slot for it. There always is one.
    #[inline]
    fn find(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].count > 0 && self.slots[at].hash != hash {
            at = (at + 1) & mask;
        }
        at
    }

    /// Sets the name of a key that has a counter.
    pub(super) fn name(&mut self, hash: u64, name: &Arc<str>) {
        if !self.slots.is_empty() {
            let at = self.find(hash);
            let slot = &mut self.slots[at];
            if slot.count > 0 && slot.name.is_none() {
                slot.name = Some(Arc::clone(name));
            }
        }
    }

    /// Keys that have a counter.
    pub(super) fn entries(&self) -> impl Iterator<Item = SketchEntry<'_>> {
        let taken = self.slots.iter().filter(|slot| slot.count > 0);
        taken.map(|slot| SketchEntry { hash: slot.hash, count: slot.count, name: slot.name.as_ref() })
    }

    /// Requests of all keys.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Maximum count of an unnamed key, provided that every requested name was set: `max_error` plus one.
    pub(super) const fn max_unnamed_count(&self) -> u64 {
        if self.max_error == 0 { 0 } else { self.max_error + 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Counts these keys, names those requested, and checks all guarantees.
    fn check_bounds(counters: usize, keys: impl IntoIterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::new(counters);
        let mut exact: HashMap<u64, u64> = HashMap::new();
        for key in keys {
            *exact.entry(key).or_default() += 1;
            if sketch.record(key) {
                sketch.name(key, &Arc::from(key.to_string()));
            }
        }
        let known: HashMap<u64, u64> = sketch.entries().map(|entry| (entry.hash, entry.count)).collect();
        let total: u64 = exact.values().sum();
        assert!(known.len() <= sketch.counters && sketch.slots.len() <= (4 * sketch.counters).max(INITIAL_SLOTS));
        assert_eq!(sketch.total(), total);
        assert!(sketch.max_error * sketch.counters as u64 <= 2 * total, "{} of {total}", sketch.max_error);
        for (key, count) in &exact {
            let counted = known.get(key).copied().unwrap_or(0);
            assert!(counted <= *count && *count <= counted + sketch.max_error, "{key}: {counted} of {count}");
        }
        assert!(known.keys().all(|key| exact.contains_key(key)));
        let named: HashMap<u64, &str> =
            sketch.entries().filter_map(|entry| Some((entry.hash, &**entry.name?))).collect();
        assert!(named.iter().all(|(key, name)| key.to_string() == *name));
        assert!(exact.iter().all(|(key, count)| *count <= sketch.max_unnamed_count() || named.contains_key(key)));
        sketch
    }

    /// Pseudo-random number from a counter.
    fn pseudo_random(n: u64) -> u64 {
        crate::table::hash_with(7, &n).0
    }

    /// The nth key of a stream with a Zipf distribution: the kth key has about 1/k of the frequency of the first.
    fn zipf(n: u64) -> u64 {
        let uniform = (pseudo_random(n) >> 11) as f64 / (1u64 << 53) as f64;
        (10_000f64.powf(uniform)) as u64
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let sketch = check_bounds(8, (0..8_000).map(|n| n % 8));
        assert_eq!((sketch.max_error, sketch.max_unnamed_count()), (0, 0));
        assert!(sketch.entries().all(|entry| entry.count == 1_000 && entry.name.is_some()));
    }

    #[test]
    fn heavy_keys_are_found_in_any_distribution() {
        let sketch = check_bounds(64, (0..100_000).map(zipf));
        let heaviest = sketch.entries().max_by_key(|entry| entry.count).unwrap();
        assert_eq!(heaviest.hash, 1);
        check_bounds(64, (0..100_000).map(pseudo_random));
        check_bounds(64, (0..100_000).map(|n| pseudo_random(n) % 100));
        // One key in ten is the same.
        let sketch = check_bounds(64, (0..100_000).map(|n| if n % 10 == 0 { 7 } else { pseudo_random(n) }));
        let known = sketch.entries().find(|entry| entry.hash == 7).unwrap();
        assert!(known.count + sketch.max_error >= 10_000 && known.name.is_some());
    }

    #[test]
    fn error_bound_holds_for_any_order() {
        let heavy_first = (0..64).flat_map(|key| std::iter::repeat_n(key, 1_000)).chain(1_000..60_000);
        check_bounds(64, heavy_first);
        let heavy_last = (1_000..60_000).chain((0..64).flat_map(|key| std::iter::repeat_n(key, 1_000)));
        check_bounds(64, heavy_last);
        // Each key has just enough requests to be purged next.
        check_bounds(16, (0..60_000).map(|n| n / 3));
        check_bounds(16, (0..60_000).map(|n| n % 17));
        // All keys hash to the same slot.
        check_bounds(16, (0..60_000).map(|n| (n % 40) << 32));
    }

    #[test]
    fn flood_of_unique_keys_requests_no_names() {
        let mut sketch = Sketch::new(64);
        let requested = (0..100_000).filter(|n| sketch.record(pseudo_random(*n))).count();
        assert_eq!(requested, 64);
    }

    proptest! {
        #[test]
        fn error_bound_holds_for_any_stream(keys in prop::collection::vec(0..60u64, 0..600), counters in 0..24usize) {
            check_bounds(counters, keys);
        }
    }
}

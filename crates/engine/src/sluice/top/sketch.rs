//! Which keys come often, counted in little room.
//!
//! A sketch has a fixed number of counters. A key that has one is counted exactly. A key that has none gets a
//! free one; when there is none left, the median of all counts is taken from every counter, and those that
//! fall to zero are free again. What was taken that way is remembered as `lost`: no key can have lost more
//! than that.
//!
//! **Guarantee.** For every key: its counter (zero if it has none) is at most its true count, and at least that
//! less `lost`. And `lost` is at most `2 × total / counters`, in whatever order keys come: each time the median m is
//! taken, at least half of the counters lose m. This is the algorithm of Misra and Gries with the purge by
//! median of Anderson and others ("A high-performance algorithm for identifying frequent items in data
//! streams", 2017); the median here is the true one, not that of a sample, so that the bound is certain.
//!
//! **Names.** Keys are told apart by their hashes. Their names cost memory and time, and most keys of a flood
//! are never seen again: once counters have had to be freed, a key is only asked for its name when it comes
//! again while it has a counter.

use std::sync::Arc;

/// Slots a sketch begins with.
const FIRST_SLOTS: usize = 16;

/// Counts of the keys that come most often.
pub(super) struct Sketch {
    /// A power of two of slots, at most half of them taken, each at or after the place its hash says; empty until
    /// the first key comes.
    slots: Vec<Slot>,
    taken: usize,
    /// How many counters there are.
    counters: usize,
    total: u64,
    /// The most that any key's counter falls short of its true count.
    lost: u64,
}

#[derive(Clone, Default)]
struct Slot {
    hash: u64,
    /// Zero: the slot is free.
    count: u64,
    name: Option<Arc<str>>,
}

/// What is known of a key.
pub(super) struct Entry<'a> {
    pub(super) hash: u64,
    pub(super) count: u64,
    pub(super) name: Option<&'a Arc<str>>,
}

impl Sketch {
    /// A sketch of so many counters, two at least.
    pub(super) const fn new(counters: usize) -> Self {
        let counters = if counters < 2 { 2 } else { counters };
        Self { slots: Vec::new(), taken: 0, counters, total: 0, lost: 0 }
    }

    /// What a counter takes, but for the name.
    pub(super) const fn bytes_per_counter() -> usize {
        2 * size_of::<Slot>()
    }

    /// Counts a key. Answers whether its name is wanted.
    #[inline]
    pub(super) fn hit(&mut self, hash: u64) -> bool {
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

    /// Gives a key a counter. Answers whether its name is wanted.
    #[cold]
    fn insert(&mut self, hash: u64) -> bool {
        if self.taken >= self.counters {
            self.purge();
        } else if self.taken * 2 >= self.slots.len() {
            let slots = (self.slots.len() * 2).max(FIRST_SLOTS);
            self.resettle(slots);
        }
        self.settle(Slot { hash, count: 1, name: None });
        self.lost == 0
    }

    /// Takes the median of all counts from each.
    fn purge(&mut self) {
        let median = self.median();
        self.lost += median;
        let mut kept = Vec::with_capacity(self.counters / 2);
        for slot in self.slots.iter_mut().filter(|slot| slot.count > 0) {
            let Slot { hash, count, name } = std::mem::take(slot);
            if count > median {
                kept.push(Slot { hash, count: count - median, name });
            }
        }
        self.taken = 0;
        kept.into_iter().for_each(|slot| self.settle(slot));
    }

    fn median(&self) -> u64 {
        let counts = self.slots.iter().map(|slot| slot.count).filter(|count| *count > 0);
        let middle = self.taken / 2;
        // So it is in a flood, which frees counters most often.
        if counts.clone().filter(|count| *count == 1).count() > middle {
            return 1;
        }
        let mut counts: Vec<u64> = counts.collect();
        *counts.select_nth_unstable(middle).1
    }

    /// Puts everything that counts in its place among so many slots.
    fn resettle(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        self.taken = 0;
        old.into_iter().filter(|slot| slot.count > 0).for_each(|slot| self.settle(slot));
    }

    fn settle(&mut self, slot: Slot) {
        let at = self.find(slot.hash);
        self.slots[at] = slot;
        self.taken += 1;
    }

    /// The slot of a key, or the free one where it belongs. There always is one.
    #[inline]
    fn find(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].count > 0 && self.slots[at].hash != hash {
            at = (at + 1) & mask;
        }
        at
    }

    /// Names a key, if it has a counter.
    pub(super) fn name(&mut self, hash: u64, name: &Arc<str>) {
        if !self.slots.is_empty() {
            let at = self.find(hash);
            let slot = &mut self.slots[at];
            if slot.count > 0 && slot.name.is_none() {
                slot.name = Some(Arc::clone(name));
            }
        }
    }

    /// The keys that have a counter.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let taken = self.slots.iter().filter(|slot| slot.count > 0);
        taken.map(|slot| Entry { hash: slot.hash, count: slot.count, name: slot.name.as_ref() })
    }

    /// How often all keys came together.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// The most often that a key can have come which has no name here, if all were named that were asked for: what
    /// is lost, and once more.
    pub(super) const fn unnamed(&self) -> u64 {
        if self.lost == 0 { 0 } else { self.lost + 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Counts these keys, naming those that are asked for, and checks everything that is promised.
    fn check(counters: usize, keys: impl IntoIterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::new(counters);
        let mut exact: HashMap<u64, u64> = HashMap::new();
        for key in keys {
            *exact.entry(key).or_default() += 1;
            if sketch.hit(key) {
                sketch.name(key, &Arc::from(key.to_string()));
            }
        }
        let known: HashMap<u64, u64> = sketch.entries().map(|entry| (entry.hash, entry.count)).collect();
        let total: u64 = exact.values().sum();
        assert!(known.len() <= sketch.counters && sketch.slots.len() <= (4 * sketch.counters).max(FIRST_SLOTS));
        assert_eq!(sketch.total(), total);
        assert!(sketch.lost * sketch.counters as u64 <= 2 * total, "{} of {total}", sketch.lost);
        for (key, count) in &exact {
            let counted = known.get(key).copied().unwrap_or(0);
            assert!(counted <= *count && *count <= counted + sketch.lost, "{key}: {counted} of {count}");
        }
        assert!(known.keys().all(|key| exact.contains_key(key)));
        let named: HashMap<u64, &str> =
            sketch.entries().filter_map(|entry| Some((entry.hash, &**entry.name?))).collect();
        assert!(named.iter().all(|(key, name)| key.to_string() == *name));
        assert!(exact.iter().all(|(key, count)| *count <= sketch.unnamed() || named.contains_key(key)));
        sketch
    }

    /// A number nobody can see through, from a counter.
    fn scattered(n: u64) -> u64 {
        crate::table::hash_with(7, &n).0
    }

    /// The nth key of a stream where the kth comes about 1/k as often as the first.
    fn zipf(n: u64) -> u64 {
        let uniform = (scattered(n) >> 11) as f64 / (1u64 << 53) as f64;
        (10_000f64.powf(uniform)) as u64
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let sketch = check(8, (0..8_000).map(|n| n % 8));
        assert_eq!((sketch.lost, sketch.unnamed()), (0, 0));
        assert!(sketch.entries().all(|entry| entry.count == 1_000 && entry.name.is_some()));
    }

    #[test]
    fn heavy_keys_stand_out_of_any_crowd() {
        let sketch = check(64, (0..100_000).map(zipf));
        let heaviest = sketch.entries().max_by_key(|entry| entry.count).unwrap();
        assert_eq!(heaviest.hash, 1);
        check(64, (0..100_000).map(scattered));
        check(64, (0..100_000).map(|n| scattered(n) % 100));
        // One in ten is the same.
        let sketch = check(64, (0..100_000).map(|n| if n % 10 == 0 { 7 } else { scattered(n) }));
        let known = sketch.entries().find(|entry| entry.hash == 7).unwrap();
        assert!(known.count + sketch.lost >= 10_000 && known.name.is_some());
    }

    #[test]
    fn no_order_breaks_the_bound() {
        let heavy_first = (0..64).flat_map(|key| std::iter::repeat_n(key, 1_000)).chain(1_000..60_000);
        check(64, heavy_first);
        let heavy_last = (1_000..60_000).chain((0..64).flat_map(|key| std::iter::repeat_n(key, 1_000)));
        check(64, heavy_last);
        // Each key comes just often enough to be the next to go.
        check(16, (0..60_000).map(|n| n / 3));
        check(16, (0..60_000).map(|n| n % 17));
        // All fall to the same place of the table.
        check(16, (0..60_000).map(|n| (n % 40) << 32));
    }

    #[test]
    fn a_flood_asks_for_no_names() {
        let mut sketch = Sketch::new(64);
        let asked = (0..100_000).filter(|n| sketch.hit(scattered(*n))).count();
        assert_eq!(asked, 64);
    }

    proptest! {
        #[test]
        fn any_stream_keeps_the_bound(keys in prop::collection::vec(0..60u64, 0..600), counters in 0..24usize) {
            check(counters, keys);
        }
    }
}

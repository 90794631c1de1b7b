//! Heavy-hitter tracker of one rule, sharded by thread.
//!
//! Every thread has a preferred shard, and each shard has its own pair of sketches: requests and refusals. If
//! the shard is locked, the next free one is used, because sketches can be merged: their counts and their error
//! bounds add up. Counts cover the current minute and the previous one, so that a result covers one to two
//! minutes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::sketch::Sketch;
use super::{TopKey, TopKeys, TopList};
use crate::table::KeyHash;
use crate::time::{Timestamp, saturating_nanos};

/// Time span of one sketch.
const WINDOW: Duration = Duration::from_secs(60);

/// Memory for all rules together; exceeded only if every tracker has its minimum size ([`MIN_COUNTERS`]).
const MAX_MEMORY_BYTES: usize = 64 << 20;
/// Maximum counters per sketch.
const MAX_COUNTERS: usize = 256;
const MIN_COUNTERS: usize = 16;
/// Minimum number of counters for an additional shard.
const MIN_COUNTERS_PER_SHARD: usize = 64;
/// Maximum shards per rule.
const MAX_SHARDS: usize = 16;
/// Typical length of a name.
const TYPICAL_NAME_BYTES: usize = 64;
/// Sketches per shard: requests and refusals, current and previous.
const SKETCHES_PER_SHARD: usize = 4;

/// Size of a rule's tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sluice) struct TrackerSize {
    shards: usize,
    counters: usize,
}

impl TrackerSize {
    /// Size that fits the memory for this number of rules and threads.
    pub(in crate::sluice) fn for_rules(rules: usize, threads: usize) -> Self {
        let per_counter = SKETCHES_PER_SHARD * (Sketch::bytes_per_counter() + TYPICAL_NAME_BYTES);
        let counters = MAX_MEMORY_BYTES / rules.max(1) / per_counter;
        let affordable = (counters / MIN_COUNTERS_PER_SHARD).clamp(1, MAX_SHARDS);
        // A power of two, so that a thread finds its shard without a division.
        let shards = threads.next_power_of_two().min(1 << affordable.ilog2());
        // Also a power of two, so that no slot of a sketch stays unused.
        Self { shards, counters: 1 << (counters / shards).clamp(MIN_COUNTERS, MAX_COUNTERS).ilog2() }
    }
}

/// Heavy-hitter tracker of a rule.
pub(in crate::sluice) struct KeyTracker {
    shards: Box<[TrackerShard]>,
    since: Timestamp,
    /// Counters per sketch for sketches created from now on.
    counters: AtomicUsize,
}

#[repr(align(128))]
struct TrackerShard(Mutex<RecentWindow>);

/// Counts of one shard in the current and the previous window.
struct RecentWindow {
    window: u64,
    current: SketchPair,
    previous: SketchPair,
}

struct SketchPair {
    requested: Sketch,
    refused: Sketch,
}

impl SketchPair {
    const fn new(counters: usize) -> Self {
        Self { requested: Sketch::new(counters), refused: Sketch::new(counters) }
    }
}

impl KeyTracker {
    /// Empty tracker.
    pub(in crate::sluice) fn new(size: TrackerSize, now: Timestamp) -> Self {
        let recent = || RecentWindow {
            window: window_index(now),
            current: SketchPair::new(size.counters),
            previous: SketchPair::new(size.counters),
        };
        let shards = (0..size.shards).map(|_| TrackerShard(Mutex::new(recent()))).collect();
        Self { shards, since: now, counters: AtomicUsize::new(size.counters) }
    }

    /// Changes the size from the next window on.
    pub(in crate::sluice) fn resize(&self, size: TrackerSize) {
        let counters = size.counters * size.shards / self.shards.len();
        self.counters.store(counters.clamp(MIN_COUNTERS, MAX_COUNTERS), Ordering::Relaxed);
    }

    /// Counts a request. The name is built only if it is needed, without holding a lock.
    #[inline]
    pub(in crate::sluice) fn record(
        &self,
        key: KeyHash,
        refused: bool,
        now: Timestamp,
        name: impl FnOnce() -> Option<String>,
    ) {
        let (shard, mut recent) = self.lock_shard();
        recent.advance_to(window_index(now), &self.counters);
        let mut wanted = recent.current.requested.record(key.0);
        if refused {
            wanted |= recent.current.refused.record(key.0);
        }
        drop(recent);
        if wanted && let Some(name) = name() {
            shard.name(key, &name);
        }
    }

    /// Locks a free shard, preferably that of this thread.
    #[inline]
    fn lock_shard(&self) -> (&TrackerShard, MutexGuard<'_, RecentWindow>) {
        let own = thread_shard() & (self.shards.len() - 1);
        let (others, from_own) = self.shards.split_at(own);
        for shard in from_own.iter().chain(others) {
            if let Some(recent) = shard.0.try_lock() {
                return (shard, recent);
            }
        }
        let shard = &self.shards[own];
        (shard, shard.0.lock())
    }

    /// Returns the heaviest keys.
    pub(in crate::sluice) fn top(&self, now: Timestamp) -> TopKeys {
        let window = window_index(now);
        let (mut requested, mut refused) = (MergedSketch::default(), MergedSketch::default());
        for shard in &self.shards {
            let mut recent = shard.0.lock();
            recent.advance_to(window, &self.counters);
            for sketches in [&recent.current, &recent.previous] {
                requested.add(&sketches.requested);
                refused.add(&sketches.refused);
            }
        }
        let since = Timestamp::from_nanos(window.saturating_sub(1).saturating_mul(saturating_nanos(WINDOW)));
        TopKeys { over: now - since.max(self.since), requested: requested.list(), refused: refused.list() }
    }
}

impl TrackerShard {
    #[cold]
    fn name(&self, key: KeyHash, name: &str) {
        let name = Arc::from(name);
        let mut recent = self.0.lock();
        let RecentWindow { current, previous, .. } = &mut *recent;
        // The window may have ended since the name was requested.
        for SketchPair { requested, refused } in [current, previous] {
            requested.name(key.0, &name);
            refused.name(key.0, &name);
        }
    }
}

impl RecentWindow {
    /// Starts a new window if it is due. A clock that steps back changes nothing.
    #[inline]
    fn advance_to(&mut self, window: u64, counters: &AtomicUsize) {
        if window > self.window {
            self.start_window(window, counters.load(Ordering::Relaxed));
        }
    }

    #[cold]
    fn start_window(&mut self, window: u64, counters: usize) {
        let last = std::mem::replace(&mut self.current, SketchPair::new(counters));
        self.previous = if window == self.window + 1 { last } else { SketchPair::new(counters) };
        self.window = window;
    }
}

/// Sum of several sketches.
#[derive(Default)]
struct MergedSketch {
    total: u64,
    error: u64,
    keys: HashMap<u64, (u64, Option<Arc<str>>)>,
}

impl MergedSketch {
    fn add(&mut self, sketch: &Sketch) {
        self.total += sketch.total();
        self.error += sketch.max_unnamed_count();
        for entry in sketch.entries() {
            let (count, name) = self.keys.entry(entry.hash).or_default();
            *count += entry.count;
            if name.is_none() {
                *name = entry.name.cloned();
            }
        }
    }

    fn list(self) -> TopList {
        let Self { total, error, keys } = self;
        let named = keys.into_values().filter_map(|(count, name)| Some(TopKey { key: name?.to_string(), count }));
        let mut keys: Vec<TopKey> = named.collect();
        keys.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        TopList { total, error, keys }
    }
}

fn window_index(now: Timestamp) -> u64 {
    now.as_nanos() / saturating_nanos(WINDOW)
}

/// Preferred shard of this thread, in every tracker.
#[inline]
fn thread_shard() -> usize {
    static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: usize = NEXT_SHARD.fetch_add(1, Ordering::Relaxed));
    // A terminating thread may use any shard.
    SHARD.try_with(|shard| *shard).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};

    fn new_tracker(shards: usize, counters: usize, clock: &ManualClock) -> KeyTracker {
        KeyTracker::new(TrackerSize { shards, counters }, clock.now())
    }

    fn record(tracker: &KeyTracker, key: u64, refused: bool, clock: &ManualClock) {
        tracker.record(KeyHash(key), refused, clock.now(), || Some(format!("k{key}")));
    }

    fn listed(list: &TopList) -> Vec<(&str, u64)> {
        list.keys.iter().map(|top| (top.key.as_str(), top.count)).collect()
    }

    #[test]
    fn counts_cover_one_to_two_minutes() {
        let clock = ManualClock::starting_at(Timestamp::from_nanos(600_000_000_000));
        let tracker = new_tracker(1, 8, &clock);
        let over = || tracker.top(clock.now()).over;
        record(&tracker, 1, false, &clock);
        assert_eq!(over(), Duration::ZERO);
        clock.advance(Duration::from_secs(59));
        record(&tracker, 2, true, &clock);
        clock.advance(Duration::from_secs(2));
        record(&tracker, 2, true, &clock);
        let top = tracker.top(clock.now());
        assert_eq!(top.over, Duration::from_secs(61), "since it began");
        assert_eq!(listed(&top.requested), [("k2", 2), ("k1", 1)]);
        assert_eq!(listed(&top.refused), [("k2", 2)]);

        clock.advance(Duration::from_secs(59));
        let top = tracker.top(clock.now());
        assert_eq!(
            (top.over, listed(&top.requested)),
            (Duration::from_secs(60), vec![("k2", 1)]),
            "the first minute has expired"
        );
        clock.advance(Duration::from_millis(59_999));
        assert_eq!(over(), Duration::from_millis(119_999));
        clock.advance(Duration::from_millis(1));
        let top = tracker.top(clock.now());
        assert_eq!((top.over, top.requested), (Duration::from_secs(60), TopList::default()));
        record(&tracker, 3, false, &clock);
        clock.advance(Duration::from_secs(3_600));
        assert_eq!(tracker.top(clock.now()).requested, TopList::default(), "no request for more than two windows");

        record(&tracker, 4, false, &clock);
        clock.set(Timestamp::from_nanos(1));
        record(&tracker, 4, false, &clock);
        assert_eq!(listed(&tracker.top(clock.now()).requested), [("k4", 2)], "a clock that steps back drops no counts");
    }

    #[test]
    fn names_are_requested_once_and_only_when_needed() {
        let clock = ManualClock::new();
        let tracker = new_tracker(1, 16, &clock);
        let mut named = 0;
        for key in 1..=100_000u64 {
            tracker.record(KeyHash(crate::table::hash_with(1, &key).0), false, clock.now(), || {
                named += 1;
                Some(String::new())
            });
        }
        assert_eq!(named, 16, "a flood of unique keys");
        named = 0;
        for _ in 0..100 {
            tracker.record(KeyHash(5), false, clock.now(), || {
                named += 1;
                Some("five".to_owned())
            });
        }
        assert_eq!(named, 1);
        let top = tracker.top(clock.now());
        assert_eq!(top.requested.keys[0].key, "five");
        assert!(top.requested.keys[0].count <= 100 && 100 <= top.requested.keys[0].count + top.requested.error);
    }

    /// Each thread counts its part, and the sum keeps the guarantee of each.
    #[test]
    fn counts_of_all_threads_are_summed() {
        const EACH: u64 = 20_000;
        let clock = ManualClock::new();
        let tracker = new_tracker(4, 32, &clock);
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let (tracker, clock) = (&tracker, &clock);
                scope.spawn(move || {
                    for n in 0..EACH {
                        let key = if n % 4 == 0 { 1 + thread % 3 } else { 1_000 + thread * EACH + n };
                        record(tracker, key, n % 8 == 0, clock);
                    }
                });
            }
        });
        let top = tracker.top(clock.now());
        assert_eq!((top.requested.total, top.refused.total), (6 * EACH, 6 * EACH / 8));
        assert!(top.requested.error <= 2 * top.requested.total / 32 + 4, "{}", top.requested.error);
        for (list, truth) in [(&top.requested, EACH / 2), (&top.refused, EACH / 4)] {
            assert!(truth > list.error, "otherwise the test proves nothing");
            for key in 1..=3u64 {
                let name = format!("k{key}");
                let count = list.keys.iter().find(|top| top.key == name).expect("above the error").count;
                assert!(count <= truth && truth <= count + list.error, "{name}: {count} of {truth}");
            }
        }
        assert!(top.requested.keys.is_sorted_by(|a, b| a.count >= b.count));
    }

    #[test]
    fn memory_is_bounded_for_many_rules() {
        for rules in [1, 10, 100, 1_000, 2_000, 10_000] {
            for threads in [1, 2, 3, 16, 128] {
                let TrackerSize { shards, counters } = TrackerSize::for_rules(rules, threads);
                assert!(
                    shards.is_power_of_two()
                        && shards <= MAX_SHARDS
                        && (MIN_COUNTERS..=MAX_COUNTERS).contains(&counters)
                );
                let bytes =
                    rules * shards * counters * SKETCHES_PER_SHARD * (Sketch::bytes_per_counter() + TYPICAL_NAME_BYTES);
                assert!(bytes <= MAX_MEMORY_BYTES || (shards, counters) == (1, MIN_COUNTERS), "{rules} rules: {bytes}");
            }
        }
        assert_eq!(TrackerSize::for_rules(10, 2), TrackerSize { shards: 2, counters: MAX_COUNTERS });
    }
}

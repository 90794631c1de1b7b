//! Who comes to one rule, watched from many threads.
//!
//! Every thread has a seat, and each seat a sketch pair of its own: who asks, and who is refused. Where the
//! seat is taken at the moment, the next one serves as well, as sketches can be added up: their counts, and what
//! they may have lost. Counts are kept for this minute and the one before, so that an answer reaches back one
//! to two minutes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::sketch::Sketch;
use super::{TopKey, TopKeys, TopList};
use crate::table::KeyHash;
use crate::time::{Timestamp, saturating_nanos};

/// How long one sketch counts before the next begins.
const TERM: Duration = Duration::from_secs(60);

/// Memory for all rules together, as long as each has [`FEWEST`] counters.
const MEMORY: usize = 64 << 20;
/// Counters of one sketch.
const MOST: usize = 256;
const FEWEST: usize = 16;
/// Fewer counters than this are not worth a seat of their own.
const WORTH_A_SEAT: usize = 64;
/// Seats of one rule.
const MOST_SEATS: usize = 16;
/// What a name usually takes.
const USUAL_NAME: usize = 64;
/// Sketches of one seat: of those who ask and of those who are refused, now and before.
const SKETCHES: usize = 4;

/// How much of a rule's traffic is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sluice) struct Detail {
    seats: usize,
    counters: usize,
}

impl Detail {
    /// What there is room for if so many rules are watched by so many threads at a time.
    pub(in crate::sluice) fn of(rules: usize, threads: usize) -> Self {
        let per_counter = SKETCHES * (Sketch::bytes_per_counter() + USUAL_NAME);
        let counters = MEMORY / rules.max(1) / per_counter;
        let affordable = (counters / WORTH_A_SEAT).clamp(1, MOST_SEATS);
        // A power of two, so that a thread finds its own without dividing.
        let seats = threads.next_power_of_two().min(1 << affordable.ilog2());
        // Another one, so that no slot of a sketch stays empty for want of counters.
        Self { seats, counters: 1 << (counters / seats).clamp(FEWEST, MOST).ilog2() }
    }
}

/// Who comes to a rule.
pub(in crate::sluice) struct Watch {
    seats: Box<[Seat]>,
    began: Timestamp,
    /// Counters of sketches still to be made.
    counters: AtomicUsize,
}

#[repr(align(128))]
struct Seat(Mutex<Lately>);

/// What was seen from one seat in this term and the one before.
struct Lately {
    term: u64,
    present: Sketches,
    before: Sketches,
}

struct Sketches {
    asked: Sketch,
    refused: Sketch,
}

impl Sketches {
    const fn new(counters: usize) -> Self {
        Self { asked: Sketch::new(counters), refused: Sketch::new(counters) }
    }
}

impl Watch {
    /// Sees nobody yet.
    pub(in crate::sluice) fn new(detail: Detail, now: Timestamp) -> Self {
        let lately = || Lately {
            term: term_of(now),
            present: Sketches::new(detail.counters),
            before: Sketches::new(detail.counters),
        };
        let seats = (0..detail.seats).map(|_| Seat(Mutex::new(lately()))).collect();
        Self { seats, began: now, counters: AtomicUsize::new(detail.counters) }
    }

    /// Remembers more or less from the next term on.
    pub(in crate::sluice) fn refine(&self, detail: Detail) {
        let counters = detail.counters * detail.seats / self.seats.len();
        self.counters.store(counters.clamp(FEWEST, MOST), Ordering::Relaxed);
    }

    /// Counts somebody. The name is made only if it is wanted, and with nothing locked.
    #[inline]
    pub(in crate::sluice) fn note(
        &self,
        key: KeyHash,
        refused: bool,
        now: Timestamp,
        name: impl FnOnce() -> Option<String>,
    ) {
        let (seat, mut lately) = self.sit_down();
        lately.turn_to(term_of(now), &self.counters);
        let mut wanted = lately.present.asked.hit(key.0);
        if refused {
            wanted |= lately.present.refused.hit(key.0);
        }
        drop(lately);
        if wanted && let Some(name) = name() {
            seat.name(key, &name);
        }
    }

    /// A seat that nobody else uses right now: this thread's own, if possible.
    #[inline]
    fn sit_down(&self) -> (&Seat, MutexGuard<'_, Lately>) {
        let own = own_seat() & (self.seats.len() - 1);
        let (others, from_own) = self.seats.split_at(own);
        for seat in from_own.iter().chain(others) {
            if let Some(lately) = seat.0.try_lock() {
                return (seat, lately);
            }
        }
        let seat = &self.seats[own];
        (seat, seat.0.lock())
    }

    /// The heaviest keys.
    pub(in crate::sluice) fn top(&self, now: Timestamp) -> TopKeys {
        let term = term_of(now);
        let (mut asked, mut refused) = (Sum::default(), Sum::default());
        for seat in &self.seats {
            let mut lately = seat.0.lock();
            lately.turn_to(term, &self.counters);
            for sketches in [&lately.present, &lately.before] {
                asked.add(&sketches.asked);
                refused.add(&sketches.refused);
            }
        }
        let since = Timestamp::from_nanos(term.saturating_sub(1).saturating_mul(saturating_nanos(TERM)));
        TopKeys { over: now - since.max(self.began), asked: asked.list(), refused: refused.list() }
    }
}

impl Seat {
    #[cold]
    fn name(&self, key: KeyHash, name: &str) {
        let name = Arc::from(name);
        let mut lately = self.0.lock();
        let Lately { present, before, .. } = &mut *lately;
        // The term may have ended since the name was asked for.
        for Sketches { asked, refused } in [present, before] {
            asked.name(key.0, &name);
            refused.name(key.0, &name);
        }
    }
}

impl Lately {
    /// Begins another term, if it has come. A clock that steps back changes nothing.
    #[inline]
    fn turn_to(&mut self, term: u64, counters: &AtomicUsize) {
        if term > self.term {
            self.begin(term, counters.load(Ordering::Relaxed));
        }
    }

    #[cold]
    fn begin(&mut self, term: u64, counters: usize) {
        let last = std::mem::replace(&mut self.present, Sketches::new(counters));
        self.before = if term == self.term + 1 { last } else { Sketches::new(counters) };
        self.term = term;
    }
}

/// Several sketches added up.
#[derive(Default)]
struct Sum {
    total: u64,
    error: u64,
    keys: HashMap<u64, (u64, Option<Arc<str>>)>,
}

impl Sum {
    fn add(&mut self, sketch: &Sketch) {
        self.total += sketch.total();
        self.error += sketch.unnamed();
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

fn term_of(now: Timestamp) -> u64 {
    now.as_nanos() / saturating_nanos(TERM)
}

/// Where this thread sits, in every watch.
#[inline]
fn own_seat() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SEAT: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    // A thread that is ending sits anywhere.
    SEAT.try_with(|seat| *seat).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};

    fn watch(seats: usize, counters: usize, clock: &ManualClock) -> Watch {
        Watch::new(Detail { seats, counters }, clock.now())
    }

    fn note(watch: &Watch, key: u64, refused: bool, clock: &ManualClock) {
        watch.note(KeyHash(key), refused, clock.now(), || Some(format!("k{key}")));
    }

    fn listed(list: &TopList) -> Vec<(&str, u64)> {
        list.keys.iter().map(|top| (top.key.as_str(), top.count)).collect()
    }

    #[test]
    fn an_answer_reaches_back_one_to_two_minutes() {
        let clock = ManualClock::starting_at(Timestamp::from_nanos(600_000_000_000));
        let watch = watch(1, 8, &clock);
        let over = || watch.top(clock.now()).over;
        note(&watch, 1, false, &clock);
        assert_eq!(over(), Duration::ZERO);
        clock.advance(Duration::from_secs(59));
        note(&watch, 2, true, &clock);
        clock.advance(Duration::from_secs(2));
        note(&watch, 2, true, &clock);
        let top = watch.top(clock.now());
        assert_eq!(top.over, Duration::from_secs(61), "since it began");
        assert_eq!(listed(&top.asked), [("k2", 2), ("k1", 1)]);
        assert_eq!(listed(&top.refused), [("k2", 2)]);

        clock.advance(Duration::from_secs(59));
        let top = watch.top(clock.now());
        assert_eq!(
            (top.over, listed(&top.asked)),
            (Duration::from_secs(60), vec![("k2", 1)]),
            "the first minute is gone"
        );
        clock.advance(Duration::from_millis(59_999));
        assert_eq!(over(), Duration::from_millis(119_999));
        clock.advance(Duration::from_millis(1));
        let top = watch.top(clock.now());
        assert_eq!((top.over, top.asked), (Duration::from_secs(60), TopList::default()));
        note(&watch, 3, false, &clock);
        clock.advance(Duration::from_secs(3_600));
        assert_eq!(watch.top(clock.now()).asked, TopList::default(), "nobody came for long");

        note(&watch, 4, false, &clock);
        clock.set(Timestamp::from_nanos(1));
        note(&watch, 4, false, &clock);
        assert_eq!(listed(&watch.top(clock.now()).asked), [("k4", 2)], "a clock that steps back loses nothing");
    }

    #[test]
    fn names_are_asked_for_once_and_only_where_wanted() {
        let clock = ManualClock::new();
        let watch = watch(1, 16, &clock);
        let mut named = 0;
        for key in 1..=100_000u64 {
            watch.note(KeyHash(crate::table::hash_with(1, &key).0), false, clock.now(), || {
                named += 1;
                Some(String::new())
            });
        }
        assert_eq!(named, 16, "a flood of strangers");
        named = 0;
        for _ in 0..100 {
            watch.note(KeyHash(5), false, clock.now(), || {
                named += 1;
                Some("five".to_owned())
            });
        }
        assert_eq!(named, 1);
        let top = watch.top(clock.now());
        assert_eq!(top.asked.keys[0].key, "five");
        assert!(top.asked.keys[0].count <= 100 && 100 <= top.asked.keys[0].count + top.asked.error);
    }

    /// Every thread sees its own part, and the sum keeps what each promised.
    #[test]
    fn what_threads_saw_is_added_up() {
        const EACH: u64 = 20_000;
        let clock = ManualClock::new();
        let watch = watch(4, 32, &clock);
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let (watch, clock) = (&watch, &clock);
                scope.spawn(move || {
                    for n in 0..EACH {
                        let key = if n % 4 == 0 { 1 + thread % 3 } else { 1_000 + thread * EACH + n };
                        note(watch, key, n % 8 == 0, clock);
                    }
                });
            }
        });
        let top = watch.top(clock.now());
        assert_eq!((top.asked.total, top.refused.total), (6 * EACH, 6 * EACH / 8));
        assert!(top.asked.error <= 2 * top.asked.total / 32 + 4, "{}", top.asked.error);
        for (list, truth) in [(&top.asked, EACH / 2), (&top.refused, EACH / 4)] {
            assert!(truth > list.error, "otherwise the test shows nothing");
            for key in 1..=3u64 {
                let name = format!("k{key}");
                let count = list.keys.iter().find(|top| top.key == name).expect("above the error").count;
                assert!(count <= truth && truth <= count + list.error, "{name}: {count} of {truth}");
            }
        }
        assert!(top.asked.keys.is_sorted_by(|a, b| a.count >= b.count));
    }

    #[test]
    fn many_rules_take_no_more_room() {
        for rules in [1, 10, 100, 1_000, 2_000, 10_000] {
            for threads in [1, 2, 3, 16, 128] {
                let Detail { seats, counters } = Detail::of(rules, threads);
                assert!(seats.is_power_of_two() && seats <= MOST_SEATS && (FEWEST..=MOST).contains(&counters));
                let bytes = rules * seats * counters * SKETCHES * (Sketch::bytes_per_counter() + USUAL_NAME);
                assert!(bytes <= MEMORY || (seats, counters) == (1, FEWEST), "{rules} rules: {bytes}");
            }
        }
        assert_eq!(Detail::of(10, 2), Detail { seats: 2, counters: MOST });
    }
}

//! One bucket: a few keys, their states, and the strict slot for keys it had to forget.

use std::collections::TryReserveError;

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::storage::Storage;
use super::{Ask, Visit, huge_pages};
use crate::algorithm::NEVER_FULL;
use crate::plan::Plan;
use crate::time::Timestamp;
use std::sync::atomic::Ordering;

/// Keys a bucket can hold. With one word of state each, a bucket is four cache lines.
pub(crate) const SLOTS: usize = 19;

/// The state's place behind the slots that all forgotten keys share.
const STRICT: usize = SLOTS;

/// Where in its bucket a key's state stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a slot of its own.
    Own,
    /// In the strict slot, with others.
    Strict,
}

/// A bucket behind its lock. The lock is held for the few nanoseconds of one decision; whoever waits
/// longer sleeps.
#[repr(align(64))]
pub(crate) struct Bucket<S>(Mutex<Shelf<S>>);

struct Shelf<S> {
    /// Tags of the keys, 0 where a slot is empty.
    tags: [u32; SLOTS],
    /// Whether the keys have moved to the table's successor.
    moved: bool,
    states: S,
}

impl<S: Storage> Bucket<S> {
    /// A row of empty buckets.
    pub(super) fn row(words: usize, count: usize) -> Result<Box<[Self]>, TryReserveError> {
        let mut row = Vec::new();
        row.try_reserve_exact(count)?;
        huge_pages::advise(row.spare_capacity_mut());
        row.resize_with(count, || Self(Mutex::new(Shelf { tags: [0; SLOTS], moved: false, states: S::zeroed(words) })));
        Ok(row.into_boxed_slice())
    }

    #[inline]
    pub(super) fn visit(&self, ask: &Ask<'_>, act: &mut (impl FnMut(&mut [u64]) -> bool + ?Sized)) -> Visit {
        let mut shelf = self.0.lock();
        if shelf.moved {
            return Visit::Moved;
        }
        match shelf.find(ask.tag) {
            Some(slot) => {
                act(shelf.states.state_mut(slot));
                Visit::Done(Place::Own)
            }
            None => Visit::Done(shelf.visit_stranger(ask, act)),
        }
    }

    pub(super) fn at_place(&self, tag: u32, place: Place, act: &mut dyn FnMut(&mut [u64])) -> Visit {
        let mut shelf = self.0.lock();
        if shelf.moved {
            return Visit::Moved;
        }
        let slot = match place {
            Place::Own => shelf.find(tag),
            Place::Strict => Some(STRICT),
        };
        if let Some(slot) = slot {
            act(shelf.states.state_mut(slot));
        }
        Visit::Done(place)
    }

    pub(super) fn export(&self, each: &mut dyn FnMut(u32, &[u64])) {
        self.0.lock().export(each);
    }

    /// Shows every state and declares in the same step that the keys have moved.
    pub(super) fn hand_over(&self, each: &mut dyn FnMut(u32, &[u64])) {
        let mut shelf = self.0.lock();
        shelf.export(each);
        shelf.moved = true;
    }

    pub(super) fn import(&self, plan: &Plan, tag: u32, state: &[u64], now: Timestamp, lenient: bool) {
        let mut shelf = self.0.lock();
        let state = &state[..plan.words()];
        if tag == 0 {
            return shelf.fold(plan, state, now);
        }
        if let Some(slot) = shelf.find(tag) {
            // Copies of one key from several buckets of the old table: the strictest is the real one.
            return plan.unite(&mut shelf.states.state_mut(slot)[..state.len()], state);
        }
        let soonest = || (0..SLOTS).map(|slot| (shelf.full_at(plan, slot), slot)).min();
        match (shelf.find(0), soonest()) {
            (Some(slot), _) => shelf.put(slot, tag, state),
            (None, Some((full_at, slot))) if full_at < plan.full_at(state) => {
                if full_at > now && !lenient {
                    let victim: SmallVec<[u64; 16]> = SmallVec::from_slice(&shelf.states.state(slot)[..state.len()]);
                    shelf.fold(plan, &victim, now);
                }
                shelf.put(slot, tag, state);
            }
            _ if lenient => {}
            _ => shelf.fold(plan, state, now),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.lock().states.heap_bytes()
    }
}

impl<S: Storage> Shelf<S> {
    /// The slot with this tag. Looks at all of them without branching, which is faster than stopping
    /// early at an unpredictable place.
    #[inline]
    fn find(&self, tag: u32) -> Option<usize> {
        let mut found = 0u32;
        for (slot, known) in self.tags.iter().enumerate() {
            found |= u32::from(*known == tag) << slot;
        }
        (found != 0).then_some(found.trailing_zeros() as usize)
    }

    fn export(&self, each: &mut dyn FnMut(u32, &[u64])) {
        for (slot, tag) in self.tags.iter().enumerate() {
            if *tag != 0 {
                each(*tag, self.states.state(slot));
            }
        }
        let strict = self.states.state(STRICT);
        if strict.iter().any(|word| *word != 0) {
            each(0, strict);
        }
    }

    /// A key that is not here: new, or forgotten.
    #[inline(never)]
    fn visit_stranger(&mut self, ask: &Ask<'_>, act: &mut (impl FnMut(&mut [u64]) -> bool + ?Sized)) -> Place {
        let strict_full_at = self.full_at(ask.plan, STRICT);
        if strict_full_at == NEVER_FULL {
            // Keys without a slot hold something here; this may be one of them.
            act(self.states.state_mut(STRICT));
            return Place::Strict;
        }
        let mut state: SmallVec<[u64; 16]> = SmallVec::from_elem(0, ask.plan.words());
        if strict_full_at > ask.now {
            let words = ask.plan.words();
            state.copy_from_slice(&self.states.state(STRICT)[..words]);
            ask.plan.estrange(&mut state, ask.now);
        }
        if act(&mut state) { self.keep(ask, &state) } else { Place::Own }
    }

    /// Finds room for a state, forgetting another one if need be.
    fn keep(&mut self, ask: &Ask<'_>, state: &[u64]) -> Place {
        if let Some(slot) = self.find(0) {
            self.put(slot, ask.tag, state);
            return Place::Own;
        }
        let (soonest, slot) =
            (0..SLOTS).map(|slot| (self.full_at(ask.plan, slot), slot)).min().unwrap_or((NEVER_FULL, STRICT));
        if soonest <= ask.now {
            self.put(slot, ask.tag, state);
            return Place::Own;
        }
        ask.forgotten.fetch_add(1, Ordering::Relaxed);
        if ask.lenient {
            self.put(slot, ask.tag, state);
            return Place::Own;
        }
        if soonest < ask.plan.full_at(state) {
            let words = ask.plan.words();
            let victim: SmallVec<[u64; 16]> = SmallVec::from_slice(&self.states.state(slot)[..words]);
            self.fold(ask.plan, &victim, ask.now);
            self.put(slot, ask.tag, state);
            Place::Own
        } else {
            self.fold(ask.plan, state, ask.now);
            Place::Strict
        }
    }

    fn put(&mut self, slot: usize, tag: u32, state: &[u64]) {
        self.tags[slot] = tag;
        self.states.state_mut(slot)[..state.len()].copy_from_slice(state);
    }

    /// Folds a state into the strict slot.
    fn fold(&mut self, plan: &Plan, state: &[u64], now: Timestamp) {
        let recovered = self.full_at(plan, STRICT) <= now;
        let strict = &mut self.states.state_mut(STRICT)[..plan.words()];
        if recovered {
            strict.copy_from_slice(state);
        } else {
            plan.merge(strict, state);
        }
    }

    fn full_at(&self, plan: &Plan, slot: usize) -> Timestamp {
        match self.states.state(slot) {
            [] => Timestamp::ZERO,
            state => plan.full_at(state),
        }
    }
}

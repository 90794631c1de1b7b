//! One bucket: a few keys, their states, and the strict slot for keys it had to forget.
//!
//! Most buckets of most tables have few keys: a table is built for more of them than usually come. So a
//! bucket's first slots are *near*: with one word of state each, their tags, their states and the lock share
//! the bucket's first cache line, and asking for one of these keys touches nothing else. The *far* slots are
//! given out once the near ones are taken, and looked at only for keys that are not there.

use std::collections::TryReserveError;

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::storage::{Row, Storage};
use super::{Ask, Visit, huge_pages};
use crate::algorithm::NEVER_FULL;
use crate::plan::Plan;
use crate::time::Timestamp;
use std::sync::atomic::Ordering;

/// Slots beside the lock.
pub(crate) const NEAR: usize = 4;

/// Slots in the lines behind.
pub(crate) const FAR: usize = 15;

/// Keys a bucket can hold. With one word of state each, a bucket is four cache lines.
pub(crate) const SLOTS: usize = NEAR + FAR;

/// The state's place behind the slots that all forgotten keys share.
const STRICT: usize = SLOTS;

/// A copy of one state.
type Copied = SmallVec<[u64; 16]>;

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
pub(crate) struct Bucket<S: Storage>(Mutex<Shelf<S>>);

/// The order is that of memory, and the lock stands before it.
#[repr(C)]
struct Shelf<S: Storage> {
    /// Whether the keys have moved to the table's successor.
    moved: bool,
    /// Tags of the keys in near slots, 0 where a slot is empty.
    near_tags: [u32; NEAR],
    near: S::Near,
    far_tags: [u32; FAR],
    /// States of the far slots, and the strict one.
    far: S::Far,
}

impl<S: Storage> Bucket<S> {
    /// A row of empty buckets.
    pub(super) fn row(words: usize, count: usize) -> Result<Box<[Self]>, TryReserveError> {
        let mut row = Vec::new();
        row.try_reserve_exact(count)?;
        huge_pages::advise(row.spare_capacity_mut());
        row.resize_with(count, || Self(Mutex::new(Shelf::empty(words))));
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
                act(shelf.state_mut(slot));
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
            act(shelf.state_mut(slot));
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

    /// Takes in a state from another table; tag 0 is the strict slot.
    pub(super) fn import(&self, ask: &Ask<'_>, state: &[u64]) {
        let mut shelf = self.0.lock();
        let state = &state[..ask.plan.words()];
        if ask.tag == 0 {
            return shelf.fold(ask, state);
        }
        if let Some(slot) = shelf.find(ask.tag) {
            // Copies of one key from several buckets of the old table: the strictest is the real one.
            return ask.plan.unite(&mut shelf.state_mut(slot)[..state.len()], state);
        }
        if let Some(slot) = shelf.find(0) {
            return shelf.put(slot, ask, state);
        }
        match shelf.soonest(ask.plan) {
            (full_at, slot) if full_at < ask.plan.full_at(state) => {
                if full_at > ask.now && !ask.lenient {
                    let victim = Copied::from_slice(&shelf.state(slot)[..state.len()]);
                    shelf.fold(ask, &victim);
                }
                shelf.put(slot, ask, state);
            }
            _ if ask.lenient => {}
            _ => shelf.fold(ask, state),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let shelf = self.0.lock();
        shelf.near.heap_bytes() + shelf.far.heap_bytes()
    }
}

impl<S: Storage> Shelf<S> {
    fn empty(words: usize) -> Self {
        let (far, near) = (S::Far::zeroed(words), S::Near::zeroed(words));
        Self { moved: false, near_tags: [0; NEAR], near, far_tags: [0; FAR], far }
    }

    /// The slot with this tag, a near one first.
    #[inline]
    fn find(&self, tag: u32) -> Option<usize> {
        position(&self.near_tags, tag).or_else(|| position(&self.far_tags, tag).map(|slot| NEAR + slot))
    }

    #[inline]
    fn state(&self, slot: usize) -> &[u64] {
        if slot < NEAR { self.near.state(slot) } else { self.far.state(slot - NEAR) }
    }

    #[inline]
    fn state_mut(&mut self, slot: usize) -> &mut [u64] {
        if slot < NEAR { self.near.state_mut(slot) } else { self.far.state_mut(slot - NEAR) }
    }

    fn export(&self, each: &mut dyn FnMut(u32, &[u64])) {
        for (slot, tag) in self.near_tags.iter().chain(&self.far_tags).enumerate() {
            if *tag != 0 {
                each(*tag, self.state(slot));
            }
        }
        let strict = self.state(STRICT);
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
            act(self.state_mut(STRICT));
            return Place::Strict;
        }
        let mut state = Copied::from_elem(0, ask.plan.words());
        if strict_full_at > ask.now {
            let words = ask.plan.words();
            state.copy_from_slice(&self.state(STRICT)[..words]);
            ask.plan.estrange(&mut state, ask.now);
        }
        if act(&mut state) { self.keep(ask, &state) } else { Place::Own }
    }

    /// Finds room for a state, forgetting another one if need be.
    fn keep(&mut self, ask: &Ask<'_>, state: &[u64]) -> Place {
        if let Some(slot) = self.find(0) {
            self.put(slot, ask, state);
            return Place::Own;
        }
        let (soonest, slot) = self.soonest(ask.plan);
        if soonest <= ask.now {
            self.put(slot, ask, state);
            return Place::Own;
        }
        ask.counts.forgotten.fetch_add(1, Ordering::Relaxed);
        if ask.lenient {
            self.put(slot, ask, state);
            return Place::Own;
        }
        if soonest < ask.plan.full_at(state) {
            let words = ask.plan.words();
            let victim = Copied::from_slice(&self.state(slot)[..words]);
            self.fold(ask, &victim);
            self.put(slot, ask, state);
            Place::Own
        } else {
            self.fold(ask, state);
            Place::Strict
        }
    }

    /// The slot whose key has recovered first, and when.
    fn soonest(&self, plan: &Plan) -> (Timestamp, usize) {
        (0..SLOTS).map(|slot| (self.full_at(plan, slot), slot)).min().unwrap_or((NEVER_FULL, STRICT))
    }

    fn put(&mut self, slot: usize, ask: &Ask<'_>, state: &[u64]) {
        let tag = match slot.checked_sub(NEAR) {
            None => &mut self.near_tags[slot],
            Some(slot) => &mut self.far_tags[slot],
        };
        if slot >= NEAR && *tag == 0 {
            ask.counts.far.fetch_add(1, Ordering::Relaxed);
        }
        *tag = ask.tag;
        self.state_mut(slot)[..state.len()].copy_from_slice(state);
    }

    /// Folds a state into the strict slot.
    fn fold(&mut self, ask: &Ask<'_>, state: &[u64]) {
        let recovered = self.full_at(ask.plan, STRICT) <= ask.now;
        let strict = &mut self.state_mut(STRICT)[..ask.plan.words()];
        if recovered {
            strict.copy_from_slice(state);
        } else {
            ask.plan.merge(strict, state);
        }
    }

    fn full_at(&self, plan: &Plan, slot: usize) -> Timestamp {
        match self.state(slot) {
            [] => Timestamp::ZERO,
            state => plan.full_at(state),
        }
    }
}

/// Where a tag stands. Looks at all of them without branching, which is faster than stopping early at an
/// unpredictable place.
#[inline]
fn position(tags: &[u32], tag: u32) -> Option<usize> {
    let mut found = 0u32;
    for (slot, known) in tags.iter().enumerate() {
        found |= u32::from(*known == tag) << slot;
    }
    (found != 0).then_some(found.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::ptr;

    use super::super::storage::Inline;
    use super::*;

    /// What the speed of sparse tables hangs on.
    #[test]
    fn near_slots_share_a_cache_line_with_the_lock() {
        const LINE: usize = 64;
        let bucket = Bucket::<Inline<1>>(Mutex::new(Shelf::empty(1)));
        assert_eq!(size_of_val(&bucket), 4 * LINE);
        let start = ptr::from_ref(&bucket).addr();
        let shelf = bucket.0.lock();
        assert_eq!(ptr::from_ref(&*shelf).addr() - start + offset_of!(Shelf<Inline<1>>, far_tags), LINE);
    }
}

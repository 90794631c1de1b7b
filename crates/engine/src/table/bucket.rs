//! Hash bucket: slots for a few keys with their states, and an overflow slot for evicted keys.
//!
//! Most buckets hold few keys, because a table is built for more keys than usually come. The *primary* slots of
//! a bucket have their tags, their states (if one word each) and the lock on the bucket's first cache line, so
//! a decision on one of these keys touches no other line. The *secondary* slots are used once the primary ones
//! are taken, and are searched only for keys not found there.

use std::collections::TryReserveError;

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::storage::{StateRow, StateStorage};
use super::{SlotContext, StateAccess, huge_pages};
use crate::algorithm::NEVER_FULL;
use crate::limit_set::{LimitSet, SlotLocation};
use crate::time::Timestamp;
use std::sync::atomic::Ordering;

/// Slots on the cache line of the lock.
pub(crate) const PRIMARY_SLOTS: usize = 4;

/// Slots on the following cache lines.
pub(crate) const SECONDARY_SLOTS: usize = 15;

/// Maximum number of keys of a bucket. With one word of state each, a bucket is four cache lines.
pub(crate) const SLOTS: usize = PRIMARY_SLOTS + SECONDARY_SLOTS;

/// Index of the overflow slot, shared by all evicted keys; it follows the other slots.
const OVERFLOW: usize = SLOTS;

/// Copy of one state.
type StateCopy = SmallVec<[u64; 16]>;

/// Bucket behind its lock. The lock is held for the few nanoseconds of one decision; a longer wait parks the
/// thread.
#[repr(align(64))]
pub(crate) struct Bucket<S: StateStorage>(Mutex<BucketSlots<S>>);

/// Fields are in memory order, after the lock.
#[repr(C)]
struct BucketSlots<S: StateStorage> {
    /// Set once the keys have moved to the table's successor.
    moved: bool,
    /// Tags of the keys in primary slots, 0 for an empty slot.
    primary_tags: [u32; PRIMARY_SLOTS],
    primary: S::Primary,
    secondary_tags: [u32; SECONDARY_SLOTS],
    /// States of the secondary slots and the overflow slot.
    secondary: S::Secondary,
}

impl<S: StateStorage> Bucket<S> {
    /// Allocates empty buckets.
    pub(super) fn row(words: usize, count: usize) -> Result<Box<[Self]>, TryReserveError> {
        let mut row = Vec::new();
        row.try_reserve_exact(count)?;
        huge_pages::advise(row.spare_capacity_mut());
        row.resize_with(count, || Self(Mutex::new(BucketSlots::empty(words))));
        Ok(row.into_boxed_slice())
    }

    #[inline]
    pub(super) fn with_state(
        &self,
        context: &SlotContext<'_>,
        act: &mut (impl FnMut(&mut [u64]) -> bool + ?Sized),
    ) -> StateAccess {
        let mut slots = self.0.lock();
        if slots.moved {
            return StateAccess::Moved;
        }
        match slots.find(context.tag) {
            Some(slot) => {
                act(slots.state_mut(slot));
                StateAccess::Done(SlotLocation::Own)
            }
            None => StateAccess::Done(slots.with_unknown_key(context, act)),
        }
    }

    pub(super) fn with_state_at(
        &self,
        tag: u32,
        location: SlotLocation,
        act: &mut dyn FnMut(&mut [u64]),
    ) -> StateAccess {
        let mut slots = self.0.lock();
        if slots.moved {
            return StateAccess::Moved;
        }
        let slot = match location {
            SlotLocation::Own => slots.find(tag),
            SlotLocation::Overflow => Some(OVERFLOW),
        };
        if let Some(slot) = slot {
            act(slots.state_mut(slot));
        }
        StateAccess::Done(location)
    }

    pub(super) fn export(&self, each: &mut dyn FnMut(u32, &[u64])) {
        self.0.lock().export(each);
    }

    /// Exports every state and atomically marks the keys as moved.
    pub(super) fn export_and_move(&self, each: &mut dyn FnMut(u32, &[u64])) {
        let mut slots = self.0.lock();
        slots.export(each);
        slots.moved = true;
    }

    /// Imports a state from another table; tag 0 is the overflow slot.
    pub(super) fn import(&self, context: &SlotContext<'_>, state: &[u64]) {
        let mut slots = self.0.lock();
        let state = &state[..context.limit_set.words()];
        if context.tag == 0 {
            return slots.merge_into_overflow(context, state);
        }
        if let Some(slot) = slots.find(context.tag) {
            // Copies of one key from several buckets of the old table: the strictest is the real one.
            return context.limit_set.merge_copies(&mut slots.state_mut(slot)[..state.len()], state);
        }
        if let Some(slot) = slots.find(0) {
            return slots.store(slot, context, state);
        }
        match slots.next_to_recover(context.limit_set) {
            (full_at, slot) if full_at < context.limit_set.full_at(state) => {
                if full_at > context.now && !context.drop_evicted {
                    let evicted = StateCopy::from_slice(&slots.state(slot)[..state.len()]);
                    slots.merge_into_overflow(context, &evicted);
                }
                slots.store(slot, context, state);
            }
            _ if context.drop_evicted => {}
            _ => slots.merge_into_overflow(context, state),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let slots = self.0.lock();
        slots.primary.heap_bytes() + slots.secondary.heap_bytes()
    }
}

impl<S: StateStorage> BucketSlots<S> {
    fn empty(words: usize) -> Self {
        let (far, near) = (S::Secondary::zeroed(words), S::Primary::zeroed(words));
        Self {
            moved: false,
            primary_tags: [0; PRIMARY_SLOTS],
            primary: near,
            secondary_tags: [0; SECONDARY_SLOTS],
            secondary: far,
        }
    }

    /// Slot with this tag, primary slots first.
    #[inline]
    fn find(&self, tag: u32) -> Option<usize> {
        position(&self.primary_tags, tag)
            .or_else(|| position(&self.secondary_tags, tag).map(|slot| PRIMARY_SLOTS + slot))
    }

    #[inline]
    fn state(&self, slot: usize) -> &[u64] {
        if slot < PRIMARY_SLOTS { self.primary.state(slot) } else { self.secondary.state(slot - PRIMARY_SLOTS) }
    }

    #[inline]
    fn state_mut(&mut self, slot: usize) -> &mut [u64] {
        if slot < PRIMARY_SLOTS { self.primary.state_mut(slot) } else { self.secondary.state_mut(slot - PRIMARY_SLOTS) }
    }

    fn export(&self, each: &mut dyn FnMut(u32, &[u64])) {
        for (slot, tag) in self.primary_tags.iter().chain(&self.secondary_tags).enumerate() {
            if *tag != 0 {
                each(*tag, self.state(slot));
            }
        }
        let overflow = self.state(OVERFLOW);
        if overflow.iter().any(|word| *word != 0) {
            each(0, overflow);
        }
    }

    /// Handles a key that is not in the bucket: new or evicted.
    #[inline(never)]
    fn with_unknown_key(
        &mut self,
        context: &SlotContext<'_>,
        act: &mut (impl FnMut(&mut [u64]) -> bool + ?Sized),
    ) -> SlotLocation {
        let overflow_full_at = self.full_at(context.limit_set, OVERFLOW);
        if overflow_full_at == NEVER_FULL {
            // Keys without a slot hold permits or reservations here; this may be one of them.
            act(self.state_mut(OVERFLOW));
            return SlotLocation::Overflow;
        }
        let mut state = StateCopy::from_elem(0, context.limit_set.words());
        if overflow_full_at > context.now {
            let words = context.limit_set.words();
            state.copy_from_slice(&self.state(OVERFLOW)[..words]);
            context.limit_set.restart_first_use_windows(&mut state, context.now);
        }
        if act(&mut state) { self.insert(context, &state) } else { SlotLocation::Own }
    }

    /// Stores a state, evicting another key if necessary.
    fn insert(&mut self, context: &SlotContext<'_>, state: &[u64]) -> SlotLocation {
        if let Some(slot) = self.find(0) {
            self.store(slot, context, state);
            return SlotLocation::Own;
        }
        let (recovers_at, slot) = self.next_to_recover(context.limit_set);
        if recovers_at <= context.now {
            self.store(slot, context, state);
            return SlotLocation::Own;
        }
        context.counters.early_evictions.fetch_add(1, Ordering::Relaxed);
        if context.drop_evicted {
            self.store(slot, context, state);
            return SlotLocation::Own;
        }
        if recovers_at < context.limit_set.full_at(state) {
            let words = context.limit_set.words();
            let evicted = StateCopy::from_slice(&self.state(slot)[..words]);
            self.merge_into_overflow(context, &evicted);
            self.store(slot, context, state);
            SlotLocation::Own
        } else {
            self.merge_into_overflow(context, state);
            SlotLocation::Overflow
        }
    }

    /// The slot that recovers first, and the time of recovery.
    fn next_to_recover(&self, limit_set: &LimitSet) -> (Timestamp, usize) {
        (0..SLOTS).map(|slot| (self.full_at(limit_set, slot), slot)).min().unwrap_or((NEVER_FULL, OVERFLOW))
    }

    fn store(&mut self, slot: usize, context: &SlotContext<'_>, state: &[u64]) {
        let tag = match slot.checked_sub(PRIMARY_SLOTS) {
            None => &mut self.primary_tags[slot],
            Some(slot) => &mut self.secondary_tags[slot],
        };
        if slot >= PRIMARY_SLOTS && *tag == 0 {
            context.counters.secondary_used.fetch_add(1, Ordering::Relaxed);
        }
        *tag = context.tag;
        self.state_mut(slot)[..state.len()].copy_from_slice(state);
    }

    /// Merges a state into the overflow slot.
    fn merge_into_overflow(&mut self, context: &SlotContext<'_>, state: &[u64]) {
        let recovered = self.full_at(context.limit_set, OVERFLOW) <= context.now;
        let overflow = &mut self.state_mut(OVERFLOW)[..context.limit_set.words()];
        if recovered {
            overflow.copy_from_slice(state);
        } else {
            context.limit_set.merge(overflow, state);
        }
    }

    fn full_at(&self, limit_set: &LimitSet, slot: usize) -> Timestamp {
        match self.state(slot) {
            [] => Timestamp::ZERO,
            state => limit_set.full_at(state),
        }
    }
}

/// Index of a tag. Compares all tags without branches, which is faster than an unpredictable early exit.
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

    /// The speed of sparse tables depends on this layout.
    #[test]
    fn primary_slots_share_a_cache_line_with_the_lock() {
        const CACHE_LINE: usize = 64;
        let bucket = Bucket::<Inline<1>>(Mutex::new(BucketSlots::empty(1)));
        assert_eq!(size_of_val(&bucket), 4 * CACHE_LINE);
        let start = ptr::from_ref(&bucket).addr();
        let slots = bucket.0.lock();
        assert_eq!(
            ptr::from_ref(&*slots).addr() - start + offset_of!(BucketSlots<Inline<1>>, secondary_tags),
            CACHE_LINE
        );
    }
}

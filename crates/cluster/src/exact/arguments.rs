//! Script arguments: each key and limit set is sent once, checks refer to them by index.

use std::sync::Arc;

use bytes::Bytes;
use rapidhash::RapidHashMap;

use crate::decision::PermitId;
use crate::encoded_limits::EncodedLimits;
use crate::invocation::{Invocation, Script};
use crate::keys::StoreKey;

/// Index of the first limit set among the arguments, counted from one.
const FIRST_SET_INDEX: u32 = 3;

/// Flag on a check's set index: the next check belongs to the same decision.
const MORE_FLAG: u32 = 1 << 31;

/// Lua numbers are exact below 2^53. No limit reaches that, so a higher cost never fits
/// either way.
const MAX_EXACT: u64 = (1 << 53) - 1;

/// Builder of a script call.
#[derive(Default)]
pub(super) struct ScriptArguments<'a> {
    keys: Vec<Bytes>,
    secondary_keys: Vec<Bytes>,
    /// Per key: its index, the index of its first secondary key, and its limit set.
    key_indices: RapidHashMap<&'a Bytes, KeyIndex>,
    sets: Vec<LimitSetArgument<'a>>,
    set_indices: RapidHashMap<*const EncodedLimits, u32>,
    checks: Vec<u8>,
    /// Offsets in `checks` of secondary-key indices: they count from the last primary key on.
    secondary_refs: Vec<usize>,
}

#[derive(Clone, Copy)]
struct KeyIndex {
    key: u32,
    secondary: u32,
    set: u32,
}

struct LimitSetArgument<'a> {
    limits: &'a EncodedLimits,
    /// True if the short form suffices: every check of the set is alone in its decision, and no key is shared with
    /// another set.
    short_form: bool,
}

/// Position of a check in its decision: the only one, the last, or followed by others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckPosition {
    Only,
    Last,
    NotLast,
}

impl<'a> ScriptArguments<'a> {
    /// Adds a check: its key, its limits and its numbers.
    pub(super) fn add_check(
        &mut self,
        key: &'a StoreKey,
        limits: &'a Arc<EncodedLimits>,
        position: CheckPosition,
        numbers: &[u64],
        permit: Option<PermitId>,
    ) {
        let set = self.set_index(limits);
        let index = self.key_index(key, limits, set);
        if position != CheckPosition::Only {
            self.sets[set as usize].short_form = false;
        }
        if index.set != set {
            self.sets[index.set as usize].short_form = false;
            self.sets[set as usize].short_form = false;
        }
        let more = if position == CheckPosition::NotLast { MORE_FLAG } else { 0 };
        self.checks.extend(index.key.to_le_bytes());
        self.checks.extend((FIRST_SET_INDEX + set + more).to_le_bytes());
        for number in numbers {
            self.checks.extend(&(*number).min(MAX_EXACT).to_le_bytes()[..7]);
        }
        if !limits.secondary_suffixes().is_empty() {
            self.secondary_refs.push(self.checks.len());
            self.checks.extend(index.secondary.to_le_bytes());
        }
        if limits.has_permits() {
            self.checks.extend(permit.map_or(0, |permit| permit.0).to_le_bytes());
        }
    }

    fn set_index(&mut self, limits: &'a Arc<EncodedLimits>) -> u32 {
        let next = self.sets.len() as u32;
        let index = *self.set_indices.entry(Arc::as_ptr(limits)).or_insert(next);
        if index == next {
            self.sets.push(LimitSetArgument { limits, short_form: true });
        }
        index
    }

    fn key_index(&mut self, key: &'a StoreKey, limits: &EncodedLimits, set: u32) -> KeyIndex {
        let next = self.keys.len() as u32 + 1;
        let second = self.secondary_keys.len() as u32 + 1;
        let index = *self.key_indices.entry(&key.0).or_insert(KeyIndex { key: next, secondary: second, set });
        if index.key == next {
            self.keys.push(key.0.clone());
            self.secondary_keys.extend(limits.secondary_suffixes().iter().map(|suffix| key.secondary(suffix)));
        }
        index
    }

    /// Builds the call of `script` at time `now`, or at the store's own time.
    pub(super) fn into_invocation(mut self, script: &'static Script, now: Option<u64>) -> Invocation {
        let count = self.keys.len() as u32;
        for at in self.secondary_refs {
            if let Some(count_bytes) = self.checks[at..].first_chunk_mut::<4>() {
                *count_bytes = (u32::from_le_bytes(*count_bytes) + count).to_le_bytes();
            }
        }
        let mut keys = self.keys;
        keys.append(&mut self.secondary_keys);
        let mut checks = Vec::with_capacity(4 + self.checks.len());
        checks.extend(count.to_le_bytes());
        checks.append(&mut self.checks);
        let mut arguments = Vec::with_capacity(2 + self.sets.len());
        arguments.push(timestamp_argument(now));
        arguments.push(checks.into());
        arguments.extend(self.sets.iter().map(|set| match set.limits.short_bucket() {
            Some(bucket) if set.short_form => bucket.clone(),
            _ => set.limits.encoded().clone(),
        }));
        Invocation { script, keys, arguments }
    }
}

/// A timestamp as a script argument.
pub(super) fn timestamp_argument(now: Option<u64>) -> Bytes {
    now.map_or_else(Bytes::new, |now| now.min(MAX_EXACT / 2).to_string().into())
}

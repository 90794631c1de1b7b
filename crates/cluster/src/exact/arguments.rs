//! Arguments of the scripts: keys and sets of limits named once, units by reference to them.

use std::sync::Arc;

use bytes::Bytes;
use rapidhash::RapidHashMap;

use crate::ask::PermitId;
use crate::invocation::{Invocation, Script};
use crate::keys::StoreKey;
use crate::prepared::PreparedLimits;

/// Where sets of limits begin among the arguments, counted from one.
const FIRST_SET: u32 = 3;

/// Set on the set of a unit whose ask goes on with the next unit.
const MORE: u32 = 1 << 31;

/// Numbers in the scripts are exact below 2^53. No limit reaches that, so what costs more never fits
/// either way.
const HIGHEST: u64 = (1 << 53) - 1;

/// What a call is put together from.
#[derive(Default)]
pub(super) struct Arguments<'a> {
    keys: Vec<Bytes>,
    seconds: Vec<Bytes>,
    /// Key by key: its place, where its second keys begin, and the set it came with.
    places: RapidHashMap<&'a Bytes, Place>,
    sets: Vec<Set<'a>>,
    places_of_sets: RapidHashMap<*const PreparedLimits, u32>,
    units: Vec<u8>,
    /// Where in the units places of second keys stand: they count from the last key on.
    references: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Place {
    key: u32,
    second: u32,
    set: u32,
}

struct Set<'a> {
    limits: &'a PreparedLimits,
    /// Whether the short form will do: no unit with it is one of several, or shares its key with another set.
    alone: bool,
}

/// Whether a unit is the last of its ask, and whether it is the only one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Alone,
    Last,
    BeforeOthers,
}

impl<'a> Arguments<'a> {
    /// Adds a unit: its key, its limits and some numbers.
    pub(super) fn unit(
        &mut self,
        key: &'a StoreKey,
        limits: &'a Arc<PreparedLimits>,
        standing: Standing,
        numbers: &[u64],
        permit: Option<PermitId>,
    ) {
        let set = self.set(limits);
        let place = self.place(key, limits, set);
        if standing != Standing::Alone {
            self.sets[set as usize].alone = false;
        }
        if place.set != set {
            self.sets[place.set as usize].alone = false;
            self.sets[set as usize].alone = false;
        }
        let more = if standing == Standing::BeforeOthers { MORE } else { 0 };
        self.units.extend(place.key.to_le_bytes());
        self.units.extend((FIRST_SET + set + more).to_le_bytes());
        for number in numbers {
            self.units.extend(&(*number).min(HIGHEST).to_le_bytes()[..7]);
        }
        if !limits.seconds().is_empty() {
            self.references.push(self.units.len());
            self.units.extend(place.second.to_le_bytes());
        }
        if limits.has_permits() {
            self.units.extend(permit.map_or(0, |permit| permit.0).to_le_bytes());
        }
    }

    fn set(&mut self, limits: &'a Arc<PreparedLimits>) -> u32 {
        let next = self.sets.len() as u32;
        let place = *self.places_of_sets.entry(Arc::as_ptr(limits)).or_insert(next);
        if place == next {
            self.sets.push(Set { limits, alone: true });
        }
        place
    }

    fn place(&mut self, key: &'a StoreKey, limits: &PreparedLimits, set: u32) -> Place {
        let next = self.keys.len() as u32 + 1;
        let second = self.seconds.len() as u32 + 1;
        let place = *self.places.entry(&key.0).or_insert(Place { key: next, second, set });
        if place.key == next {
            self.keys.push(key.0.clone());
            self.seconds.extend(limits.seconds().iter().map(|suffix| key.second(suffix)));
        }
        place
    }

    /// The call of `script` at `now`, or at whatever moment the store has.
    pub(super) fn invoke(mut self, script: &'static Script, now: Option<u64>) -> Invocation {
        let count = self.keys.len() as u32;
        for at in self.references {
            if let Some(place) = self.units[at..].first_chunk_mut::<4>() {
                *place = (u32::from_le_bytes(*place) + count).to_le_bytes();
            }
        }
        let mut keys = self.keys;
        keys.append(&mut self.seconds);
        let mut units = Vec::with_capacity(4 + self.units.len());
        units.extend(count.to_le_bytes());
        units.append(&mut self.units);
        let mut arguments = Vec::with_capacity(2 + self.sets.len());
        arguments.push(moment(now));
        arguments.push(units.into());
        arguments.extend(self.sets.iter().map(|set| match set.limits.bucket() {
            Some(bucket) if set.alone => bucket.clone(),
            _ => set.limits.described().clone(),
        }));
        Invocation { script, keys, arguments }
    }
}

/// A moment as the scripts take it.
pub(super) fn moment(now: Option<u64>) -> Bytes {
    now.map_or_else(Bytes::new, |now| now.min(HIGHEST / 2).to_string().into())
}

//! Finding the limit for a descriptor's entries.
//!
//! The first entry is looked up among a domain's descriptors, the next among those nested below what was found,
//! and so on. At each level an exact value comes before the first wildcard that fits, in the order of the file, and
//! that before the key alone. What was chosen stays chosen, also if nothing fits further down. A limit holds only
//! for as many entries as it is deep.
//!
//! The reference looks up `key_value`, so that `a_b` with `c` and `a` with `b_c` are the same to it. Here they are
//! not.

use rapidhash::RapidHashMap;

use super::key;
use super::limit::DescriptorLimit;
use super::wildcard::Wildcard;

/// Descriptors beside each other, by their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    keys: RapidHashMap<Box<str>, Choices>,
}

/// The descriptors of one key beside each other.
#[derive(Clone, Debug, Default)]
struct Choices {
    /// By value as it is written; those with stars, too.
    values: RapidHashMap<Box<str>, Descriptor>,
    /// Those with stars, in the order of the file, with the value as it is written.
    wildcards: Vec<(Wildcard, Box<str>)>,
    /// Without a value.
    any: Option<Box<Descriptor>>,
}

/// One descriptor.
#[derive(Clone, Debug, Default)]
pub(super) struct Descriptor {
    pub(super) limit: Option<DescriptorLimit>,
    /// Which of the entries on the way vary under its limit: the lowest bit is the first entry.
    pub(super) varying: u64,
    /// Which of them statistics tell apart by their values, in the same way.
    pub(super) told: u64,
    pub(super) below: Level,
}

/// A limit that applies to a descriptor's entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Match<'d> {
    /// The limit.
    pub limit: &'d DescriptorLimit,
    /// What is counted apart under its rule: the entries whose values vary, such as
    /// `path=/a,remote_address=10.0.0.1`, with `\` before `,`, `=` and `\` that belong to an entry. Empty if
    /// nothing varies or nothing is counted.
    pub key: String,
    /// What statistics tell apart under the limit, written in the same way: all entries by `detailed_metric`, or those
    /// with `value_to_metric`, but for values that share a threshold. `None` if the file asks for nothing of the kind.
    pub series: Option<String>,
}

impl Level {
    /// Adds a descriptor; an empty value stands for any. False if there is one like it already.
    pub(super) fn add(&mut self, key: &str, value: &str, descriptor: Descriptor) -> bool {
        let choices = match self.keys.get_mut(key) {
            Some(choices) => choices,
            None => self.keys.entry(key.into()).or_default(),
        };
        if value.is_empty() {
            let free = choices.any.is_none();
            choices.any.get_or_insert_with(|| Box::new(descriptor));
            return free;
        }
        if choices.values.contains_key(value) {
            return false;
        }
        choices.wildcards.extend(Wildcard::new(value).map(|wildcard| (wildcard, value.into())));
        choices.values.insert(value.into(), descriptor);
        true
    }

    /// The limit for these entries, all of them.
    pub(super) fn find<'a>(&self, entries: impl IntoIterator<Item = (&'a str, &'a str)> + Clone) -> Option<Match<'_>> {
        let mut level = self;
        let mut found = None;
        for (key, value) in entries.clone() {
            let descriptor = level.keys.get(key)?.choose(value)?;
            found = Some(descriptor);
            level = &descriptor.below;
        }
        let Descriptor { limit, varying, told, .. } = found?;
        let limit = limit.as_ref()?;
        let series = (*told != 0).then(|| key::written(entries.clone(), *told));
        let key = if *varying == 0 || limit.rule.is_none() { String::new() } else { key::written(entries, *varying) };
        Some(Match { limit, key, series })
    }
}

impl Choices {
    fn choose(&self, value: &str) -> Option<&Descriptor> {
        let wildcard = || self.wildcards.iter().find(|(wildcard, _)| wildcard.matches(value));
        self.values
            .get(value)
            .or_else(|| wildcard().and_then(|(_, written)| self.values.get(written)))
            .or(self.any.as_deref())
    }
}

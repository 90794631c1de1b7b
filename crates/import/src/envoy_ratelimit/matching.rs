//! Matches a descriptor's entries to a limit.
//!
//! The first entry is looked up among the domain's descriptors, the next among those nested below the match,
//! and so on. At each level an exact value takes precedence over the first matching wildcard in file order,
//! and a wildcard over the key alone. There is no backtracking. A limit applies only to as many entries as
//! its depth.
//!
//! envoyproxy/ratelimit looks up `key_value`, so `a_b` with `c` equals `a` with `b_c` there. Here they are
//! distinct.

use rapidhash::RapidHashMap;

use super::key;
use super::limit::DescriptorLimit;
use super::wildcard::Wildcard;

/// Sibling descriptors, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct DescriptorLevel {
    keys: RapidHashMap<Box<str>, KeyDescriptors>,
}

/// Sibling descriptors with one key.
#[derive(Clone, Debug, Default)]
struct KeyDescriptors {
    /// By value as written, including wildcards.
    values: RapidHashMap<Box<str>, Descriptor>,
    /// Wildcards in file order, with the value as written.
    wildcards: Vec<(Wildcard, Box<str>)>,
    /// The descriptor without a value.
    any: Option<Box<Descriptor>>,
}

/// A descriptor.
#[derive(Clone, Debug, Default)]
pub(super) struct Descriptor {
    pub(super) limit: Option<DescriptorLimit>,
    /// Bit set of the entries on the path that vary under its limit; the lowest bit is the first entry.
    pub(super) varying: u64,
    /// Bit set of the entries whose values statistics distinguish.
    pub(super) metric_entries: u64,
    pub(super) below: DescriptorLevel,
}

/// The limit that applies to a descriptor's entries.
#[derive(Clone, Debug, PartialEq)]
pub struct DescriptorMatch<'d> {
    /// The limit.
    pub limit: &'d DescriptorLimit,
    /// Counter key under the rule: the entries with varying values, such as `path=/a,remote_address=10.0.0.1`,
    /// with `\` before `,`, `=` and `\` inside an entry. Empty if nothing varies or nothing is counted.
    pub key: String,
    /// Statistics series under the limit, in the same format: all entries with `detailed_metric`, or those with
    /// `value_to_metric`, except values with a shared threshold. `None` if neither is configured.
    pub series: Option<String>,
}

impl DescriptorLevel {
    /// Adds a descriptor; an empty value matches any. Returns false for a duplicate.
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

    /// Finds the limit for exactly these entries.
    pub(super) fn find<'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Option<DescriptorMatch<'_>> {
        let mut level = self;
        let mut found = None;
        for (key, value) in entries.clone() {
            let descriptor = level.keys.get(key)?.choose(value)?;
            found = Some(descriptor);
            level = &descriptor.below;
        }
        let Descriptor { limit, varying, metric_entries, .. } = found?;
        let limit = limit.as_ref()?;
        let series = (*metric_entries != 0).then(|| key::format_key(entries.clone(), *metric_entries));
        let key =
            if *varying == 0 || limit.rule.is_none() { String::new() } else { key::format_key(entries, *varying) };
        Some(DescriptorMatch { limit, key, series })
    }
}

impl KeyDescriptors {
    fn choose(&self, value: &str) -> Option<&Descriptor> {
        let wildcard = || self.wildcards.iter().find(|(wildcard, _)| wildcard.matches(value));
        self.values
            .get(value)
            .or_else(|| wildcard().and_then(|(_, written)| self.values.get(written)))
            .or(self.any.as_deref())
    }
}

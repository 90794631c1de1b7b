//! Stat names of limits: Envoy's dotted paths, such as `messaging.message_type_marketing.to_number`.
//!
//! In envoyproxy/ratelimit two descriptors can have the same name (`a_b` with `c`, and `a` with `b_c`), and
//! names have no length limit. Here a repeated name gets a numeric suffix, and a name too long for a metric
//! or a log line is truncated and ends in a hash.

use std::collections::HashMap;
use std::fmt::Write;

/// Maximum length of an untruncated name, in bytes.
const MAX_BYTES: usize = 256;

/// Path from a domain to a descriptor. Appending costs only the length of the new part.
#[derive(Clone, Debug)]
pub(super) struct StatPath {
    /// The name, truncated to [`MAX_BYTES`].
    text: String,
    truncated: bool,
    /// FNV-1a of the complete name, stable across machines and versions.
    hash: u64,
}

impl StatPath {
    pub(super) fn new(domain: &str) -> Self {
        let mut path = Self { text: String::new(), truncated: false, hash: 0xcbf2_9ce4_8422_2325 };
        path.push(domain);
        path
    }

    /// Path of a nested descriptor.
    pub(super) fn child(&self, key: &str, value: &str) -> Self {
        let mut path = self.clone();
        path.push(".");
        path.push(key);
        if !value.is_empty() {
            path.push("_");
            path.push(value);
        }
        path
    }

    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let available = if self.truncated { 0 } else { MAX_BYTES - self.text.len() };
        let end = text.floor_char_boundary(available);
        self.text.push_str(&text[..end]);
        self.truncated |= end < text.len();
    }

    /// The name, without characters that could break a line.
    pub(super) fn name(&self) -> String {
        let mut name: String = self.text.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
        if self.truncated {
            // Writing to a `String` cannot fail.
            let _ = write!(name, "~{:016x}", self.hash);
        }
        name
    }
}

/// Names in use.
#[derive(Debug, Default)]
pub(super) struct UniqueNames {
    /// Next suffix to try for each name.
    used: HashMap<String, usize>,
}

impl UniqueNames {
    /// Returns the name, or the name with the first free numeric suffix.
    pub(super) fn unique(&mut self, name: String) -> String {
        let Some(mut number) = self.used.get(&name).copied() else {
            self.used.insert(name.clone(), 2);
            return name;
        };
        loop {
            let numbered = format!("{name}~{number}");
            number += 1;
            if !self.used.contains_key(&numbered) {
                self.used.insert(name, number);
                self.used.insert(numbered.clone(), 2);
                return numbered;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_envoy_stat_path() {
        let path = StatPath::new("messaging").child("message_type", "marketing").child("to_number", "");
        assert_eq!(path.name(), "messaging.message_type_marketing.to_number");
        assert_eq!(StatPath::new("a\nb").name(), "a_b");
    }

    #[test]
    fn long_names_are_truncated_and_stay_distinct() {
        let long = "ü".repeat(MAX_BYTES);
        let path = StatPath::new("d").child("k", &long);
        let (one, other) = (path.child("x", ""), path.child("y", ""));
        assert!(one.name().len() <= MAX_BYTES + 17);
        assert_ne!(one.name(), other.name());
        assert_eq!(one.name(), path.child("x", "").name());
    }

    #[test]
    fn names_are_unique() {
        let mut names = UniqueNames::default();
        let mut given = |name: &str| names.unique(name.to_owned());
        assert_eq!(
            [given("a"), given("a~2"), given("a"), given("a"), given("a~2")],
            ["a", "a~2", "a~3", "a~4", "a~2~2"]
        );
    }
}

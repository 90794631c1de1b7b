//! The names of limits: the reference's dotted paths, such as `messaging.message_type_marketing.to_number`.
//!
//! The reference lets two descriptors have the same name (`a_b` with `c`, and `a` with `b_c`), and a name may be
//! as long as the file. Here a later one of the same name gets a number, and a name too long for a metric or a
//! log line ends in a hash of what was cut off.

use std::collections::HashMap;
use std::fmt::Write;

/// The longest name that is kept whole, in bytes.
const LONGEST: usize = 256;

/// The way from a domain to a descriptor. Adding to it costs no more than what is added.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// The name, no longer than [`LONGEST`].
    shown: String,
    cut: bool,
    /// Of the whole name: FNV-1a, the same on every machine and in every version.
    hash: u64,
}

impl Path {
    pub(super) fn new(domain: &str) -> Self {
        let mut path = Self { shown: String::new(), cut: false, hash: 0xcbf2_9ce4_8422_2325 };
        path.push(domain);
        path
    }

    /// The way to a descriptor below.
    pub(super) fn below(&self, key: &str, value: &str) -> Self {
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
        let room = if self.cut { 0 } else { LONGEST - self.shown.len() };
        let end = text.floor_char_boundary(room);
        self.shown.push_str(&text[..end]);
        self.cut |= end < text.len();
    }

    /// The name, without what could break a line where it is shown.
    pub(super) fn name(&self) -> String {
        let mut name: String = self.shown.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
        if self.cut {
            // Writing to a string does not fail.
            let _ = write!(name, "~{:016x}", self.hash);
        }
        name
    }
}

/// The names given so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Each with the number the next of the same name tries.
    given: HashMap<String, usize>,
}

impl Names {
    /// The name, or if it is taken, the name with the first number that is free.
    pub(super) fn unique(&mut self, name: String) -> String {
        let Some(mut number) = self.given.get(&name).copied() else {
            self.given.insert(name.clone(), 2);
            return name;
        };
        loop {
            let numbered = format!("{name}~{number}");
            number += 1;
            if !self.given.contains_key(&numbered) {
                self.given.insert(name, number);
                self.given.insert(numbered.clone(), 2);
                return numbered;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_references_path() {
        let path = Path::new("messaging").below("message_type", "marketing").below("to_number", "");
        assert_eq!(path.name(), "messaging.message_type_marketing.to_number");
        assert_eq!(Path::new("a\nb").name(), "a_b");
    }

    #[test]
    fn long_names_are_cut_and_told_apart() {
        let long = "ü".repeat(LONGEST);
        let path = Path::new("d").below("k", &long);
        let (one, other) = (path.below("x", ""), path.below("y", ""));
        assert!(one.name().len() <= LONGEST + 17);
        assert_ne!(one.name(), other.name());
        assert_eq!(one.name(), path.below("x", "").name());
    }

    #[test]
    fn no_name_is_given_twice() {
        let mut names = Names::default();
        let mut given = |name: &str| names.unique(name.to_owned());
        assert_eq!(
            [given("a"), given("a~2"), given("a"), given("a"), given("a~2")],
            ["a", "a~2", "a~3", "a~4", "a~2~2"]
        );
    }
}

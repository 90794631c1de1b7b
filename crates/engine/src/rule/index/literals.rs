//! Children of a path tree node, by literal segment.

use rapidhash::RapidHashMap;

/// Maximum number of segments compared one by one: faster than hashing.
const MAX_LINEAR: usize = 8;

/// Segments and their child nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Literals {
    linear: Vec<(Box<str>, usize)>,
    /// All segments, once there are more than `MAX_LINEAR`. Clients choose the lookup keys, hence the seeded hash.
    by_text: RapidHashMap<Box<str>, usize>,
}

impl Literals {
    pub(super) fn is_empty(&self) -> bool {
        self.linear.is_empty() && self.by_text.is_empty()
    }

    /// Child node of a segment.
    #[inline]
    pub(super) fn get(&self, segment: &str) -> Option<usize> {
        if self.by_text.is_empty() {
            return self.linear.iter().find(|(known, _)| **known == *segment).map(|(_, node)| *node);
        }
        self.by_text.get(segment).copied()
    }

    /// Child node of a segment; inserts `new` if there is none.
    pub(super) fn get_or_insert(&mut self, segment: &str, new: usize) -> usize {
        if let Some(node) = self.get(segment) {
            return node;
        }
        if self.by_text.is_empty() && self.linear.len() < MAX_LINEAR {
            self.linear.push((segment.into(), new));
        } else {
            self.by_text.extend(self.linear.drain(..));
            self.by_text.insert(segment.into(), new);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_is_the_same_in_both_forms() {
        let mut literals = Literals::default();
        for nth in 0..40 {
            assert_eq!(literals.get(&format!("s{nth}")), None);
            assert_eq!(literals.get_or_insert(&format!("s{nth}"), nth), nth);
            assert_eq!(literals.get_or_insert(&format!("s{nth}"), 99), nth);
            assert!((0..=nth).all(|known| literals.get(&format!("s{known}")) == Some(known)));
        }
    }
}

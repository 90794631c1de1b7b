//! The next segments a place in the tree can have, by their text.

use rapidhash::RapidHashMap;

/// So many are compared one by one: quicker than hashing one text.
const FEW: usize = 8;

/// Segments and the nodes they lead to.
#[derive(Clone, Debug, Default)]
pub(super) struct Literals {
    few: Vec<(Box<str>, usize)>,
    /// All of them, once they are not few any more. Clients choose what is looked up, hence the seeded
    /// hash.
    many: RapidHashMap<Box<str>, usize>,
}

impl Literals {
    pub(super) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    /// The node a segment leads to.
    #[inline]
    pub(super) fn get(&self, segment: &str) -> Option<usize> {
        if self.many.is_empty() {
            return self.few.iter().find(|(known, _)| **known == *segment).map(|(_, node)| *node);
        }
        self.many.get(segment).copied()
    }

    /// The node a segment leads to; `new` if it led nowhere.
    pub(super) fn get_or_insert(&mut self, segment: &str, new: usize) -> usize {
        if let Some(node) = self.get(segment) {
            return node;
        }
        if self.many.is_empty() && self.few.len() < FEW {
            self.few.push((segment.into(), new));
        } else {
            self.many.extend(self.few.drain(..));
            self.many.insert(segment.into(), new);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_found_alike() {
        let mut literals = Literals::default();
        for nth in 0..40 {
            assert_eq!(literals.get(&format!("s{nth}")), None);
            assert_eq!(literals.get_or_insert(&format!("s{nth}"), nth), nth);
            assert_eq!(literals.get_or_insert(&format!("s{nth}"), 99), nth);
            assert!((0..=nth).all(|known| literals.get(&format!("s{known}")) == Some(known)));
        }
    }
}

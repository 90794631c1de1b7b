//! What waits to be sent, by slot.
//!
//! Slots take turns in the order in which something was first asked of them; within a slot the first asked is
//! the first sent.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use rapidhash::RapidHashMap;

/// Queues, one for each slot that something waits for. A store without slots has one.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    queues: RapidHashMap<u16, VecDeque<T>>,
    /// Every slot that has a queue, once.
    turns: VecDeque<u16>,
    length: usize,
}

impl<T> Lanes<T> {
    pub(super) fn new() -> Self {
        Self { queues: RapidHashMap::default(), turns: VecDeque::new(), length: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.length
    }

    pub(super) fn push(&mut self, slot: u16, item: T) {
        self.length += 1;
        match self.queues.entry(slot) {
            Entry::Occupied(queue) => queue.into_mut().push_back(item),
            Entry::Vacant(place) => {
                place.insert(VecDeque::from([item]));
                self.turns.push_back(slot);
            }
        }
    }

    /// The next that go together, at most `most` of them. Empty if nothing waits.
    pub(super) fn take(&mut self, most: usize) -> VecDeque<T> {
        let Some(slot) = self.turns.pop_front() else { return VecDeque::new() };
        let Entry::Occupied(mut queue) = self.queues.entry(slot) else { return VecDeque::new() };
        let taken = if queue.get().len() <= most {
            queue.remove()
        } else {
            let rest = queue.get_mut().split_off(most);
            self.turns.push_back(slot);
            std::mem::replace(queue.get_mut(), rest)
        };
        self.length -= taken.len();
        taken
    }

    /// Everything that waits.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.turns.clear();
        self.length = 0;
        self.queues.drain().flat_map(|(_, queue)| queue).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_take_turns_and_keep_their_order() {
        let mut lanes = Lanes::new();
        for item in [(1, 'a'), (2, 'b'), (1, 'c'), (1, 'd'), (3, 'e')] {
            lanes.push(item.0, item);
        }
        assert_eq!(lanes.len(), 5);
        let taken: Vec<_> = std::iter::from_fn(|| Some(lanes.take(2)).filter(|taken| !taken.is_empty())).collect();
        assert_eq!(taken, [vec![(1, 'a'), (1, 'c')], vec![(2, 'b')], vec![(3, 'e')], vec![(1, 'd')]]);
        assert_eq!(lanes.len(), 0);
        lanes.push(1, (1, 'f'));
        lanes.push(2, (2, 'g'));
        let mut rest = lanes.take_all();
        rest.sort_unstable();
        assert_eq!(rest, [(1, 'f'), (2, 'g')]);
        assert!(lanes.len() == 0 && lanes.take(9).is_empty());
    }
}

//! Queues of unsent calls, one per hash slot.
//!
//! Slots are served round-robin in the order of their first item; within a slot the order is FIFO.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use rapidhash::RapidHashMap;

/// FIFO queues, one for each slot with queued items. A store without slots has one.
#[derive(Debug)]
pub(super) struct SlotQueues<T> {
    queues: RapidHashMap<u16, VecDeque<T>>,
    /// Every slot that has a queue, once, in service order.
    order: VecDeque<u16>,
    length: usize,
}

impl<T> SlotQueues<T> {
    pub(super) fn new() -> Self {
        Self { queues: RapidHashMap::default(), order: VecDeque::new(), length: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.length
    }

    pub(super) fn push(&mut self, slot: u16, item: T) {
        self.length += 1;
        match self.queues.entry(slot) {
            Entry::Occupied(queue) => queue.into_mut().push_back(item),
            Entry::Vacant(entry) => {
                entry.insert(VecDeque::from([item]));
                self.order.push_back(slot);
            }
        }
    }

    /// Takes the next batch of one slot, at most `max` items. Empty if nothing is queued.
    pub(super) fn take(&mut self, max: usize) -> VecDeque<T> {
        let Some(slot) = self.order.pop_front() else { return VecDeque::new() };
        let Entry::Occupied(mut queue) = self.queues.entry(slot) else { return VecDeque::new() };
        let taken = if queue.get().len() <= max {
            queue.remove()
        } else {
            let rest = queue.get_mut().split_off(max);
            self.order.push_back(slot);
            std::mem::replace(queue.get_mut(), rest)
        };
        self.length -= taken.len();
        taken
    }

    /// Takes everything queued.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.order.clear();
        self.length = 0;
        self.queues.drain().flat_map(|(_, queue)| queue).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_served_round_robin_in_fifo_order() {
        let mut queues = SlotQueues::new();
        for item in [(1, 'a'), (2, 'b'), (1, 'c'), (1, 'd'), (3, 'e')] {
            queues.push(item.0, item);
        }
        assert_eq!(queues.len(), 5);
        let taken: Vec<_> = std::iter::from_fn(|| Some(queues.take(2)).filter(|taken| !taken.is_empty())).collect();
        assert_eq!(taken, [vec![(1, 'a'), (1, 'c')], vec![(2, 'b')], vec![(3, 'e')], vec![(1, 'd')]]);
        assert_eq!(queues.len(), 0);
        queues.push(1, (1, 'f'));
        queues.push(2, (2, 'g'));
        let mut rest = queues.take_all();
        rest.sort_unstable();
        assert_eq!(rest, [(1, 'f'), (2, 'g')]);
        assert!(queues.len() == 0 && queues.take(9).is_empty());
    }
}

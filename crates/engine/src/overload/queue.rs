//! Wait queue of an overload gate: by priority class, with short waits, LIFO once it is standing.
//!
//! A short queue smooths bursts of arrivals. A standing queue, one that never drains, does not: it only adds
//! its length to every response time, and the requests at its head have waited longest for nothing. A queue
//! that drained recently is first in, first out, and requests wait up to the gate's maximum wait. Once it has
//! been standing for a while, the newest request goes first, and requests that have waited longer than a short
//! target are dropped at the next opportunity.
//!
//! Classes take precedence: a free slot goes to the highest waiting class, and a full queue evicts a request of
//! the lowest class in favor of a higher one. Each class has its own queue, so that under overload the queues
//! of the lowest classes become standing. The queue of the highest class never counts as standing: LIFO is
//! right only if some requests have to be dropped anyway, and none of the highest class should be.

use std::collections::VecDeque;
use std::time::Duration;

use super::meter::{CLASSES, class_index};
use crate::rule::Priority;
use crate::time::Timestamp;

/// Time without draining after which a queue counts as standing.
const STANDING_AFTER: Duration = Duration::from_millis(100);

/// Queued request.
struct GateQueueEntry<T> {
    ticket: u64,
    since: Timestamp,
    /// Deadline by the maximum wait at its arrival: later changes do not shorten a wait in progress.
    until: Timestamp,
    waiter: T,
}

/// Bounds of a gate's wait queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Maximum wait of requests that arrive under these bounds.
    pub max_wait: Duration,
    /// Maximum wait in a standing queue, for all classes but the highest. If it is not less than `max_wait`, the
    /// queue never counts as standing and stays first in, first out.
    pub target: Duration,
    /// Maximum number of queued requests.
    pub max_waiting: usize,
}

/// Wait queue of a gate, one queue per class.
pub(super) struct GateQueue<T> {
    classes: [GateClassQueue<T>; CLASSES],
    next_ticket: u64,
}

/// Queue of one class.
struct GateClassQueue<T> {
    waiting: VecDeque<GateQueueEntry<T>>,
    /// Last time at which the queue was empty other than by dropping requests.
    empty_at: Timestamp,
    /// Last time at which a request was dropped as expired.
    dropped_at: Timestamp,
}

impl<T> GateClassQueue<T> {
    const fn new() -> Self {
        Self { waiting: VecDeque::new(), empty_at: Timestamp::ZERO, dropped_at: Timestamp::ZERO }
    }

    fn is_standing(&self, now: Timestamp, bounds: &QueueBounds) -> bool {
        let matters = bounds.target < bounds.max_wait;
        matters && !self.waiting.is_empty() && now - self.empty_at >= STANDING_AFTER
    }

    fn join(&mut self, now: Timestamp, entry: GateQueueEntry<T>) {
        // A queue that is empty because its requests were just dropped is still standing.
        if self.waiting.is_empty() && now - self.dropped_at >= STANDING_AFTER {
            self.empty_at = now;
        }
        self.waiting.push_back(entry);
    }
}

/// Result of an attempt to join the queue.
pub(super) enum JoinResult<T> {
    /// Queued. The evicted request has to be notified.
    Queued { ticket: u64, evicted: Option<T> },
    /// The queue is full.
    Full(T),
}

impl<T> GateQueue<T> {
    pub(super) fn new() -> Self {
        Self { classes: [const { GateClassQueue::new() }; CLASSES], next_ticket: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.classes.iter().map(|class| class.waiting.len()).sum()
    }

    /// True if a request of this class or a higher one is queued.
    pub(super) fn has_waiting_from(&self, class: Priority) -> bool {
        self.classes[class_index(class)..].iter().any(|class| !class.waiting.is_empty())
    }

    pub(super) fn join(&mut self, now: Timestamp, class: Priority, bounds: &QueueBounds, waiter: T) -> JoinResult<T> {
        let class = class_index(class);
        let mut evicted = None;
        if self.len() >= bounds.max_waiting {
            let mut lower = self.classes[..class].iter_mut();
            // Evict the oldest request of the lowest class: it is the most likely to have waited in vain.
            match lower.find_map(|class| class.waiting.pop_front()) {
                Some(entry) => evicted = Some(entry.waiter),
                None => return JoinResult::Full(waiter),
            }
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.classes[class].join(now, GateQueueEntry { ticket, since: now, until: now + bounds.max_wait, waiter });
        JoinResult::Queued { ticket, evicted }
    }

    /// Removes a request. Returns true if it was still queued.
    pub(super) fn leave(&mut self, ticket: u64) -> bool {
        self.classes.iter_mut().any(|GateClassQueue { waiting, .. }| {
            let found = waiting.binary_search_by_key(&ticket, |entry| entry.ticket);
            found.ok().and_then(|at| waiting.remove(at)).is_some()
        })
    }

    /// Drops expired requests from the head of each queue.
    pub(super) fn drop_expired(&mut self, now: Timestamp, bounds: &QueueBounds, mut dropped: impl FnMut(T)) {
        for (index, class) in self.classes.iter_mut().enumerate() {
            let standing = index + 1 < CLASSES && class.is_standing(now, bounds);
            let is_expired =
                |entry: &GateQueueEntry<T>| now > entry.until || standing && now - entry.since > bounds.target;
            while class.waiting.front().is_some_and(is_expired)
                && let Some(expired) = class.waiting.pop_front()
            {
                class.dropped_at = now;
                dropped(expired.waiter);
            }
        }
    }

    /// Next request to admit, with its wait. Call [`drop_expired`](Self::drop_expired) first.
    pub(super) fn next(&mut self, now: Timestamp, bounds: &QueueBounds) -> Option<(T, Duration)> {
        let (index, class) = self.classes.iter_mut().enumerate().rev().find(|(_, class)| !class.waiting.is_empty())?;
        let newest_first = index + 1 < CLASSES && class.is_standing(now, bounds);
        let next = if newest_first { class.waiting.pop_back() } else { class.waiting.pop_front() };
        let GateQueueEntry { since, waiter, .. } = next?;
        if class.waiting.is_empty() {
            class.empty_at = now;
        }
        Some((waiter, now - since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{Background, Normal, Vip};

    const BOUNDS: QueueBounds =
        QueueBounds { max_wait: Duration::from_millis(100), target: Duration::from_millis(5), max_waiting: 3 };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos((1_000 + millis) * 1_000_000)
    }

    fn join(queue: &mut GateQueue<&'static str>, millis: u64, class: Priority, waiter: &'static str) -> Option<u64> {
        match queue.join(at(millis), class, &BOUNDS, waiter) {
            JoinResult::Queued { ticket, .. } => Some(ticket),
            JoinResult::Full(_) => None,
        }
    }

    #[test]
    fn fifo_while_the_queue_drains_regularly() {
        let mut queue = GateQueue::new();
        join(&mut queue, 0, Normal, "first");
        join(&mut queue, 1, Normal, "second");
        assert_eq!(queue.next(at(2), &BOUNDS), Some(("first", Duration::from_millis(2))));
        assert_eq!(queue.next(at(2), &BOUNDS), Some(("second", Duration::from_millis(1))));
        assert_eq!(queue.next(at(2), &BOUNDS), None);
    }

    #[test]
    fn lifo_and_expired_dropped_once_the_queue_is_standing() {
        let mut queue = GateQueue::new();
        let mut dropped = Vec::new();
        for millis in [0, 60] {
            join(&mut queue, millis, Normal, "old");
        }
        queue.next(at(61), &BOUNDS);
        join(&mut queue, 110, Normal, "new");
        // Not empty since the first arrival 112 ms ago.
        queue.drop_expired(at(112), &BOUNDS, |waiter| dropped.push(waiter));
        assert_eq!(dropped, ["old"]);
        join(&mut queue, 112, Normal, "newest");
        assert_eq!(queue.next(at(113), &BOUNDS).map(|(waiter, _)| waiter), Some("newest"));
        assert_eq!(queue.next(at(113), &BOUNDS).map(|(waiter, _)| waiter), Some("new"));
    }

    #[test]
    fn highest_class_is_always_fifo() {
        let mut queue = GateQueue::new();
        let mut dropped = Vec::new();
        for (millis, waiter) in [(0, "first"), (60, "second"), (90, "third")] {
            join(&mut queue, millis, Vip, waiter);
        }
        assert_eq!(queue.next(at(95), &BOUNDS).map(|(waiter, _)| waiter), Some("first"));
        // Not empty for 120 ms.
        queue.drop_expired(at(120), &BOUNDS, |waiter| dropped.push(waiter));
        assert!(dropped.is_empty());
        assert_eq!(queue.next(at(120), &BOUNDS).map(|(waiter, _)| waiter), Some("second"));
    }

    #[test]
    fn classes_become_standing_independently() {
        let mut queue = GateQueue::new();
        let mut dropped = Vec::new();
        join(&mut queue, 0, Background, "old job");
        join(&mut queue, 90, Normal, "visitor");
        queue.drop_expired(at(100), &BOUNDS, |waiter| dropped.push(waiter));
        assert_eq!(dropped, ["old job"]);
        assert_eq!(queue.next(at(101), &BOUNDS).map(|(waiter, _)| waiter), Some("visitor"));
    }

    /// Otherwise an overloaded queue would restart with long waits each time all its requests were dropped.
    #[test]
    fn dropping_all_entries_does_not_end_a_standing_queue() {
        let mut queue = GateQueue::new();
        join(&mut queue, 0, Normal, "old");
        queue.drop_expired(at(100), &BOUNDS, drop);
        assert_eq!(queue.len(), 0);
        join(&mut queue, 101, Normal, "older");
        join(&mut queue, 102, Normal, "newer");
        assert_eq!(queue.next(at(103), &BOUNDS).map(|(waiter, _)| waiter), Some("newer"));
        // After a while without requests it does.
        let mut queue = GateQueue::new();
        join(&mut queue, 0, Normal, "old");
        queue.drop_expired(at(100), &BOUNDS, drop);
        join(&mut queue, 300, Normal, "older");
        join(&mut queue, 301, Normal, "newer");
        assert_eq!(queue.next(at(302), &BOUNDS).map(|(waiter, _)| waiter), Some("older"));
    }

    #[test]
    fn stays_fifo_if_target_is_not_below_max_wait() {
        let bounds = QueueBounds { target: BOUNDS.max_wait, ..BOUNDS };
        let mut queue = GateQueue::new();
        join(&mut queue, 0, Normal, "first");
        queue.drop_expired(at(90), &bounds, |_| panic!("the second entry has not expired"));
        for (millis, waiter) in [(60, "second"), (70, "third")] {
            join(&mut queue, millis, Normal, waiter);
        }
        queue.next(at(95), &bounds);
        assert_eq!(queue.next(at(120), &bounds).map(|(waiter, _)| waiter), Some("second"));
    }

    #[test]
    fn no_entry_waits_longer_than_max_wait() {
        let mut queue = GateQueue::new();
        let mut dropped = Vec::new();
        join(&mut queue, 0, Vip, "vip");
        queue.drop_expired(at(100), &BOUNDS, |waiter| dropped.push(waiter));
        assert!(dropped.is_empty());
        queue.drop_expired(at(101), &BOUNDS, |waiter| dropped.push(waiter));
        assert_eq!(dropped, ["vip"]);
    }

    /// Otherwise requests with a longer maximum wait would be dropped just as slots become free again.
    #[test]
    fn lower_max_wait_applies_only_to_later_entries() {
        let mut queue = GateQueue::new();
        let mut dropped = Vec::new();
        join(&mut queue, 0, Vip, "patient");
        let less = QueueBounds { max_wait: Duration::from_millis(30), ..BOUNDS };
        queue.drop_expired(at(90), &less, |waiter| dropped.push(waiter));
        assert!(dropped.is_empty());
        assert_eq!(queue.next(at(90), &less).map(|(waiter, _)| waiter), Some("patient"));
        queue.join(at(90), Vip, &less, "impatient");
        queue.drop_expired(at(121), &BOUNDS, |waiter| dropped.push(waiter));
        assert_eq!(dropped, ["impatient"]);
    }

    #[test]
    fn higher_classes_go_first_and_evict_lower_ones() {
        let mut queue = GateQueue::new();
        join(&mut queue, 0, Background, "job");
        join(&mut queue, 0, Normal, "visitor");
        join(&mut queue, 0, Normal, "visitor");
        assert!(join(&mut queue, 0, Background, "another job").is_none());
        let JoinResult::Queued { evicted, .. } = queue.join(at(0), Vip, &BOUNDS, "vip") else {
            panic!("the vip request is not queued")
        };
        assert_eq!(evicted, Some("job"));
        assert_eq!(queue.next(at(1), &BOUNDS).map(|(waiter, _)| waiter), Some("vip"));
        assert!(queue.has_waiting_from(Normal) && !queue.has_waiting_from(Vip));
    }

    #[test]
    fn entries_that_left_are_not_admitted() {
        let mut queue = GateQueue::new();
        let ticket = join(&mut queue, 0, Normal, "gone").unwrap_or_default();
        assert!(queue.leave(ticket));
        assert!(!queue.leave(ticket));
        assert_eq!(queue.next(at(0), &BOUNDS), None);
    }
}

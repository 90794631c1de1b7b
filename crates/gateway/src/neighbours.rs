//! Which of its threads serves a connection.
//!
//! The system deals connections out by chance, so that every thread has clients on every core: nearly every answer wakes
//! somebody on another core, and is asked for from there. A thread whose clients are all on its own core finds the
//! requests of many of them when its turn comes, and they find their answers when theirs comes. Where gateway and clients
//! share a machine, that is worth a sixth of all that is done for a short request; over a network, a client's core is
//! the one that hears the network card for it.
//!
//! So a connection takes its [bearings](Bearings) now and then. If another thread is where its client is, it moves there
//! between two requests: it falls asleep here and wakes up [there](Dormitory). No thread gets more connections by this
//! than chance gives it often enough. Where all clients are heard on one core, the threads on others keep theirs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::inbound::Dormitory;

/// The threads of a gateway, as they see each other.
pub(crate) struct Neighbours(Box<[Neighbour]>);

/// One thread. Not beside another one in memory.
#[repr(align(128))]
pub(crate) struct Neighbour {
    /// Where those sleep of which nothing is expected; `None` where the system has no such place.
    pub(crate) dormitory: Option<Dormitory>,
    /// How many connections are awake.
    awake: AtomicUsize,
    /// On which core it was last.
    core: AtomicUsize,
    /// How many connections have moved to it.
    moved: AtomicU64,
}

impl Neighbours {
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..threads).map(Neighbour::new).collect())
    }

    /// The thread of this number; there are as many as threads are started.
    pub(crate) fn at(&self, number: usize) -> &Neighbour {
        &self.0[number]
    }

    /// Which thread is on this core, if `here` is not; of several, the one that has least to do.
    fn nearer(&self, here: usize, core: usize) -> Option<usize> {
        if self.at(here).core() == core {
            return None;
        }
        let on_core = (0..self.0.len()).filter(|number| self.at(*number).core() == core);
        on_core.min_by_key(|number| self.at(*number).awake())
    }

    /// Whether a connection may move from one thread to another.
    fn is_fair(&self, from: usize, to: usize) -> bool {
        is_fair(self.at(from).awake(), self.at(to).awake())
    }

    /// How many connections have moved.
    pub(crate) fn moved(&self) -> u64 {
        self.0.iter().map(|neighbour| neighbour.moved.load(Ordering::Relaxed)).sum()
    }
}

impl Neighbour {
    /// One that was not seen yet: it may be anywhere.
    fn new(core: usize) -> Self {
        let (awake, core, moved) = (AtomicUsize::new(0), AtomicUsize::new(core), AtomicU64::new(0));
        Self { dormitory: Dormitory::new(), awake, core, moved }
    }

    fn awake(&self) -> usize {
        self.awake.load(Ordering::Relaxed)
    }

    fn core(&self) -> usize {
        self.core.load(Ordering::Relaxed)
    }

    /// It has one more to serve.
    pub(crate) fn woke(&self) {
        self.awake.fetch_add(1, Ordering::Relaxed);
    }

    /// It has one less to serve.
    pub(crate) fn slept(&self) {
        self.awake.fetch_sub(1, Ordering::Relaxed);
    }

    /// One has moved to it.
    pub(crate) fn took_in(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes on which core it is.
    fn is_on(&self, core: usize) {
        // Others read it; most of the time it is where it was.
        if self.core() != core {
            self.core.store(core, Ordering::Relaxed);
        }
    }
}

/// Whether one may go from a thread that has so many to one that has so many. Dealt out by chance, they would differ by
/// twice this much in every third case; but those on their way have left here, and have not woken there.
const fn is_fair(from: usize, to: usize) -> bool {
    to <= from + (from + to).isqrt() / 2
}

/// Where a connection's client is, as seen from the thread that serves it.
///
/// A look costs a call into the system, so there are two in 256 requests. Who was seen near another thread once may have
/// been passing through; who is seen there again at the next look lives there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bearings {
    /// Counted anew after 256.
    answered: u8,
    /// The thread that was nearer at the last look.
    nearer: Option<usize>,
}

/// After how many requests it is looked. Those that are over sooner stay where they are.
const LOOKS: [u8; 2] = [32, 64];

/// After how many requests a thread notes on which core it is: often, as it has many connections and may not stay.
const NOTES: u8 = 8;

impl Bearings {
    /// One more request has been answered by the thread `here`. `client` tells on which core the client is. Answers which
    /// thread should have the connection, if another one.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        neighbours: &Neighbours,
        here: usize,
        client: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        self.answered = self.answered.wrapping_add(1);
        if !self.answered.is_multiple_of(NOTES) {
            return None;
        }
        neighbours.at(here).is_on(rustix::thread::sched_getcpu());
        if LOOKS.contains(&self.answered) { self.look(neighbours, here, client()) } else { None }
    }

    fn look(&mut self, neighbours: &Neighbours, here: usize, client: Option<usize>) -> Option<usize> {
        let nearer = client.and_then(|core| neighbours.nearer(here, core));
        let before = std::mem::replace(&mut self.nearer, nearer);
        nearer.filter(|there| before == nearer && neighbours.is_fair(here, *there))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads on these cores, with so many connections each.
    fn threads(all: &[(usize, usize)]) -> Neighbours {
        let neighbours = Neighbours::new(all.len());
        for (number, (core, awake)) in all.iter().enumerate() {
            neighbours.at(number).is_on(*core);
            (0..*awake).for_each(|_| neighbours.at(number).woke());
        }
        neighbours
    }

    #[test]
    fn a_connection_goes_to_the_thread_on_its_clients_core() {
        let neighbours = threads(&[(7, 10), (3, 30), (3, 20), (5, 0)]);
        assert_eq!(neighbours.nearer(0, 3), Some(2), "the one that has less to do");
        assert_eq!(neighbours.nearer(1, 3), None, "it is there");
        assert_eq!(neighbours.nearer(1, 5), Some(3));
        assert_eq!(neighbours.nearer(1, 4), None, "nobody is there");
    }

    #[test]
    fn it_goes_only_if_it_was_seen_there_twice_in_succession() {
        let neighbours = threads(&[(0, 0), (1, 0)]);
        let mut bearings = Bearings::default();
        for (client, expected) in [
            (Some(1), None),
            (Some(0), None),
            (Some(1), None),
            (None, None),
            (Some(1), None),
            (Some(1), Some(1)),
            // Where it is not taken in, it asks again.
            (Some(1), Some(1)),
        ] {
            assert_eq!(bearings.look(&neighbours, 0, client), expected);
        }
        neighbours.at(1).woke();
        assert_eq!(bearings.look(&neighbours, 0, Some(1)), None, "it would be one of two there, and here the only one");
    }

    #[test]
    fn looks_are_few() {
        let neighbours = threads(&[(0, 0), (1, 0)]);
        let (mut bearings, mut looked) = (Bearings::default(), Vec::new());
        for request in 1..=512 {
            bearings.answered(&neighbours, 0, || {
                looked.push(request);
                None
            });
        }
        assert_eq!(looked, [32, 64, 288, 320]);
    }

    /// However connections lie at first, and wherever all of them want to go, no thread has much more than another had.
    #[test]
    fn nobody_is_crowded_by_those_who_move() {
        for (mut from, mut to) in [(32, 32), (1, 0), (0, 1), (1_000, 0), (50, 50), (5_000, 5_000)] {
            let before = from.max(to);
            while from > 0 && is_fair(from, to) {
                (from, to) = (from - 1, to + 1);
            }
            let chance = (from + to).isqrt() / 2 + 2;
            assert!(to <= before.max(from + chance), "{from} and {to} of at most {before}");
        }
        assert!(!is_fair(10, 20) && is_fair(20, 10) && is_fair(10, 10));
    }
}

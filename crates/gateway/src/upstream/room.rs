//! Room for connections to one server: a bound over all threads.
//!
//! Whoever needs a connection waits in line for room, first in first out. Connections that lie idle in some
//! thread's pool hold room too: whoever keeps them asks [`Room::is_wanted`], and lets go of those that are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// How many connections there may be to one server.
#[derive(Debug)]
pub(super) struct Rooms {
    bound: Option<Arc<Bound>>,
}

#[derive(Debug)]
struct Bound {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Room for one connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    held: Option<(OwnedSemaphorePermit, Arc<Bound>)>,
}

impl Rooms {
    /// At most so many; `None`: no bound.
    pub(super) fn new(most: Option<u32>) -> Self {
        let bound = most.map(|most| {
            let most = usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
            let free = Arc::new(Semaphore::new(most));
            Arc::new(Bound { free, waiting: AtomicUsize::new(0) })
        });
        Self { bound }
    }

    /// Room at once, or not at all. Takes nobody's turn.
    pub(super) fn now(&self) -> Option<Room> {
        let Some(bound) = &self.bound else { return Some(Room { held: None }) };
        match Arc::clone(&bound.free).try_acquire_owned() {
            Ok(permit) => Some(Room { held: Some((permit, Arc::clone(bound))) }),
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => None,
        }
    }

    /// Waits in line for room. Dropping the future leaves the line.
    pub(super) async fn wait(&self) -> Room {
        if let Some(room) = self.now() {
            return room;
        }
        let Some(bound) = &self.bound else { return Room { held: None } };
        let _waiting = Waiting::begin(bound);
        match Arc::clone(&bound.free).acquire_owned().await {
            Ok(permit) => Room { held: Some((permit, Arc::clone(bound))) },
            // It is never closed.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Somebody in line. Counted until dropped.
struct Waiting<'a>(&'a Bound);

impl<'a> Waiting<'a> {
    fn begin(bound: &'a Bound) -> Self {
        bound.waiting.fetch_add(1, Ordering::SeqCst);
        Self(bound)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Room {
    /// Whether somebody waits for room: then a connection that is done is better closed than kept.
    pub(crate) fn is_wanted(&self) -> bool {
        self.held.as_ref().is_some_and(|(_, bound)| bound.waiting.load(Ordering::SeqCst) > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn never_more_than_said() {
        let rooms = Rooms::new(Some(2));
        let (first, second) = (rooms.now().unwrap(), rooms.now().unwrap());
        assert!(rooms.now().is_none());
        drop(first);
        let third = rooms.now().unwrap();
        assert!(rooms.now().is_none());
        drop((second, third));
        assert!(rooms.now().is_some());
    }

    #[test]
    fn without_a_bound_there_is_always_room() {
        let rooms = Rooms::new(None);
        let held: Vec<_> = (0..1_000).map(|_| rooms.now().unwrap()).collect();
        assert!(poll(pin!(rooms.wait())).is_ready());
        assert!(!held.iter().any(Room::is_wanted));
    }

    #[test]
    fn first_come_first_served_and_whoever_leaves_is_skipped() {
        let rooms = Rooms::new(Some(1));
        let only = rooms.now().unwrap();
        let mut first = Box::pin(rooms.wait());
        let mut second = Box::pin(rooms.wait());
        let mut third = Box::pin(rooms.wait());
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        assert!(poll(third.as_mut()).is_pending());
        drop(only);
        assert!(poll(third.as_mut()).is_pending(), "not its turn");
        assert!(rooms.now().is_none(), "nobody jumps the line");
        drop(first);
        assert!(poll(third.as_mut()).is_pending(), "not its turn");
        let Poll::Ready(room) = poll(second.as_mut()) else { panic!("its turn") };
        assert!(room.is_wanted());
        drop(third);
        assert!(!room.is_wanted());
        drop(room);
        assert!(rooms.now().is_some());
    }

    #[test]
    fn an_idle_connection_learns_that_it_is_wanted() {
        let rooms = Rooms::new(Some(2));
        let (busy, idle) = (rooms.now().unwrap(), rooms.now().unwrap());
        let mut gone = Box::pin(rooms.wait());
        assert!(poll(gone.as_mut()).is_pending());
        assert!(idle.is_wanted());
        drop(gone);
        assert!(!idle.is_wanted(), "whoever wanted it has gone");
        let mut waiter = pin!(rooms.wait());
        assert!(poll(waiter.as_mut()).is_pending());
        assert!(idle.is_wanted() && busy.is_wanted());
        drop(idle);
        assert!(poll(waiter.as_mut()).is_ready());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn idle_connections_of_all_threads_make_way() {
        // Each task keeps its connection after use, until somebody else needs the room.
        let rooms = Arc::new(Rooms::new(Some(3)));
        let open = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let (rooms, open) = (Arc::clone(&rooms), Arc::clone(&open));
            tasks.spawn(async move {
                let room = rooms.wait().await;
                assert!(open.fetch_add(1, Ordering::SeqCst) < 3);
                tokio::task::yield_now().await;
                open.fetch_sub(1, Ordering::SeqCst);
                while !room.is_wanted() {
                    tokio::task::yield_now().await;
                }
            });
        }
        // The last ones keep theirs: nobody wants it.
        let all_but_the_last = async { while tasks.len() > 3 && tasks.join_next().await.is_some() {} };
        tokio::time::timeout(std::time::Duration::from_secs(60), all_but_the_last)
            .await
            .expect("somebody waits in vain");
    }
}

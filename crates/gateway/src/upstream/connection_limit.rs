//! Limit on connections to one server, over all threads.
//!
//! Requests that need a connection queue for a permit, first in, first out. Idle connections in the pools hold
//! permits too; a pool checks [`UpstreamPermit::is_wanted`] and closes connections with wanted permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// Connection limit of one server.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    state: Option<Arc<LimitState>>,
}

#[derive(Debug)]
struct LimitState {
    permits: Arc<Semaphore>,
    waiters: AtomicUsize,
}

/// Permit for one connection, released on drop.
#[derive(Debug)]
pub(crate) struct UpstreamPermit {
    permit: Option<(OwnedSemaphorePermit, Arc<LimitState>)>,
}

impl ConnectionLimit {
    /// At most this many connections; `None` for no limit.
    pub(super) fn new(max: Option<u32>) -> Self {
        let bound = max.map(|max| {
            let max = usize::try_from(max).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
            let permits = Arc::new(Semaphore::new(max));
            Arc::new(LimitState { permits, waiters: AtomicUsize::new(0) })
        });
        Self { state: bound }
    }

    /// Acquires a permit if one is available immediately. Does not overtake queued requests.
    pub(super) fn try_acquire(&self) -> Option<UpstreamPermit> {
        let Some(state) = &self.state else { return Some(UpstreamPermit { permit: None }) };
        match Arc::clone(&state.permits).try_acquire_owned() {
            Ok(permit) => Some(UpstreamPermit { permit: Some((permit, Arc::clone(state))) }),
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => None,
        }
    }

    /// Queues for a permit. Dropping the future leaves the queue.
    pub(super) async fn acquire(&self) -> UpstreamPermit {
        if let Some(permit) = self.try_acquire() {
            return permit;
        }
        let Some(state) = &self.state else { return UpstreamPermit { permit: None } };
        let _waiter = WaiterGuard::begin(state);
        match Arc::clone(&state.permits).acquire_owned().await {
            Ok(permit) => UpstreamPermit { permit: Some((permit, Arc::clone(state))) },
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Guard that counts a queued request.
struct WaiterGuard<'a>(&'a LimitState);

impl<'a> WaiterGuard<'a> {
    fn begin(state: &'a LimitState) -> Self {
        state.waiters.fetch_add(1, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

impl UpstreamPermit {
    /// True if a request waits for a permit: then an idle connection should be closed rather than kept.
    pub(crate) fn is_wanted(&self) -> bool {
        self.permit.as_ref().is_some_and(|(_, state)| state.waiters.load(Ordering::SeqCst) > 0)
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
    fn never_more_permits_than_the_limit() {
        let limit = ConnectionLimit::new(Some(2));
        let (first, second) = (limit.try_acquire().unwrap(), limit.try_acquire().unwrap());
        assert!(limit.try_acquire().is_none());
        drop(first);
        let third = limit.try_acquire().unwrap();
        assert!(limit.try_acquire().is_none());
        drop((second, third));
        assert!(limit.try_acquire().is_some());
    }

    #[test]
    fn without_a_limit_permits_are_always_available() {
        let limit = ConnectionLimit::new(None);
        let permits: Vec<_> = (0..1_000).map(|_| limit.try_acquire().unwrap()).collect();
        assert!(poll(pin!(limit.acquire())).is_ready());
        assert!(!permits.iter().any(UpstreamPermit::is_wanted));
    }

    #[test]
    fn permits_are_granted_first_come_first_served_and_dropped_waiters_are_skipped() {
        let limit = ConnectionLimit::new(Some(1));
        let only = limit.try_acquire().unwrap();
        let mut first = Box::pin(limit.acquire());
        let mut second = Box::pin(limit.acquire());
        let mut third = Box::pin(limit.acquire());
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        assert!(poll(third.as_mut()).is_pending());
        drop(only);
        assert!(poll(third.as_mut()).is_pending(), "not first in the queue");
        assert!(limit.try_acquire().is_none(), "no waiter overtakes another");
        drop(first);
        assert!(poll(third.as_mut()).is_pending(), "not first in the queue");
        let Poll::Ready(permit) = poll(second.as_mut()) else { panic!("first in the queue") };
        assert!(permit.is_wanted());
        drop(third);
        assert!(!permit.is_wanted());
        drop(permit);
        assert!(limit.try_acquire().is_some());
    }

    #[test]
    fn an_idle_connection_sees_that_its_permit_is_wanted() {
        let limit = ConnectionLimit::new(Some(2));
        let (busy, idle) = (limit.try_acquire().unwrap(), limit.try_acquire().unwrap());
        let mut waiter = Box::pin(limit.acquire());
        assert!(poll(waiter.as_mut()).is_pending());
        assert!(idle.is_wanted());
        drop(waiter);
        assert!(!idle.is_wanted(), "the waiter was dropped");
        let mut waiter = pin!(limit.acquire());
        assert!(poll(waiter.as_mut()).is_pending());
        assert!(idle.is_wanted() && busy.is_wanted());
        drop(idle);
        assert!(poll(waiter.as_mut()).is_ready());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn idle_connections_of_all_threads_release_their_permits() {
        // Each task keeps its connection after use, until another one needs the permit.
        let limit = Arc::new(ConnectionLimit::new(Some(3)));
        let open = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let (limit, open) = (Arc::clone(&limit), Arc::clone(&open));
            tasks.spawn(async move {
                let permit = limit.acquire().await;
                assert!(open.fetch_add(1, Ordering::SeqCst) < 3);
                tokio::task::yield_now().await;
                open.fetch_sub(1, Ordering::SeqCst);
                while !permit.is_wanted() {
                    tokio::task::yield_now().await;
                }
            });
        }
        // The last tasks keep theirs, because no request waits.
        let all_but_the_last = async { while tasks.len() > 3 && tasks.join_next().await.is_some() {} };
        tokio::time::timeout(std::time::Duration::from_secs(60), all_but_the_last)
            .await
            .expect("a waiter was not woken");
    }
}

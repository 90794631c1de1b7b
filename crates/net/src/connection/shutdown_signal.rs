//! Shutdown notification of one connection.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;

/// Resolves once the value of the channel has changed or its sender is gone. Pin it, and pass it to
/// [`ShutdownSignal::new`].
pub async fn shutdown_changed(mut shutdown: watch::Receiver<()>) {
    // A dropped sender means shutdown as well. Unconstrained: a task that has used up its budget would not be registered.
    let _ = tokio::task::unconstrained(shutdown.changed()).await;
}

/// Shutdown notification of one connection.
///
/// A poll reads one atomic number. The task is registered for a wakeup once, and again only if another task polls.
/// The future of that registration is pinned on the stack of the connection's task, so nothing is allocated.
pub struct ShutdownSignal<'a> {
    changed: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
    /// The task that is woken by a shutdown.
    registered: Option<Waker>,
}

impl<'a> ShutdownSignal<'a> {
    /// Creates a signal from the pinned future of [`shutdown_changed`].
    pub fn new(changed: Pin<&'a mut (dyn Future<Output = ()> + Send)>) -> Self {
        Self { changed, registered: None }
    }

    /// True once the shutdown has begun; until then, the task is woken when it does. `shutdown` is a receiver of the
    /// same channel that has not seen its change.
    pub fn poll(&mut self, shutdown: &watch::Receiver<()>, context: &mut Context<'_>) -> bool {
        if shutdown.has_changed().unwrap_or(true) {
            return true;
        }
        if self.registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            return false;
        }
        self.registered = Some(context.waker().clone());
        // The shutdown may have begun since the check above.
        self.changed.as_mut().poll(context) == Poll::Ready(())
    }
}

impl std::fmt::Debug for ShutdownSignal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShutdownSignal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct CountedWaker(AtomicUsize);

    impl Wake for CountedWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_last_task_that_polled_is_woken() {
        for is_dropped in [false, true] {
            let (close, shutdown) = watch::channel(());
            let changed = pin!(shutdown_changed(shutdown.clone()));
            let mut signal = ShutdownSignal::new(changed);
            let tasks = [Arc::<CountedWaker>::default(), Arc::default()];
            let wakers = tasks.clone().map(Waker::from);
            for waker in [&wakers[0], &wakers[0], &wakers[1]] {
                assert!(!signal.poll(&shutdown, &mut Context::from_waker(waker)));
            }
            // `None` drops the sender.
            let sender = (!is_dropped).then_some(close);
            sender.iter().for_each(|close| close.send_modify(|()| {}));
            assert_eq!(tasks.map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
            for _ in 0..2 {
                assert!(signal.poll(&shutdown, &mut Context::from_waker(&wakers[1])));
            }
        }
    }
}

//! Who is woken by a connection.
//!
//! A connection is driven by whoever uses it, one client after the other. Its sockets and channels know it by
//! one waker that stays the same, and which wakes whoever drives it at the time. So nothing is registered
//! anew for each request, and who had it before is left alone.
//!
//! Taking a part of an answer wakes the connection, to make more of it. Who takes it will ask for more
//! anyway, and is running: that wake-up would only have its task polled once more in vain.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

thread_local! {
    /// Only its address counts, by which threads are told apart.
    static HERE: Cell<u8> = const { Cell::new(0) };
}

/// This thread's number; never zero.
fn here() -> usize {
    HERE.with(|here| ptr::from_ref(here).addr())
}

/// Wakes whoever drives a connection.
#[derive(Default)]
pub(super) struct DriverWaker {
    driver: Mutex<Option<Waker>>,
    /// The thread whose own wake-ups are of no use just now; zero for none.
    deaf: AtomicUsize,
}

impl DriverWaker {
    /// From now on this one is woken.
    pub(super) fn drive(&self, driver: &Waker) {
        let mut current = self.driver.lock();
        if !current.as_ref().is_some_and(|current| current.will_wake(driver)) {
            *current = Some(driver.clone());
        }
    }

    /// From now on nobody is.
    pub(super) fn rest(&self) {
        *self.driver.lock() = None;
    }

    /// Does something that this thread need not be woken by. What comes from other threads still counts.
    pub(super) fn unheard<T>(&self, act: impl FnOnce() -> T) -> T {
        self.deaf.store(here(), Ordering::Relaxed);
        let done = act();
        self.deaf.store(0, Ordering::Relaxed);
        done
    }
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Only the thread that stored its own number can find it here: for all others the order is of no matter.
        if self.deaf.load(Ordering::Relaxed) == here() {
            return;
        }
        let driver = self.driver.lock().clone();
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_driver_of_the_moment_is_woken_and_not_by_itself() {
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let driver = Arc::new(DriverWaker::default());
        let waker = Waker::from(Arc::clone(&driver));
        waker.wake_by_ref();
        driver.drive(&Arc::clone(&first).into());
        waker.wake_by_ref();
        driver.drive(&Arc::clone(&second).into());
        waker.wake_by_ref();
        driver.unheard(|| {
            waker.wake_by_ref();
            let elsewhere = waker.clone();
            std::thread::spawn(move || elsewhere.wake()).join().unwrap();
        });
        waker.wake_by_ref();
        driver.rest();
        waker.wake_by_ref();
        assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (1, 3));
    }
}

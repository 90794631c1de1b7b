//! Windows: a key's state is the end of its window and what was taken in it.

use std::time::Duration;

use super::{AdHoc, AdHocError, Throttled};
use crate::algorithm::{Algorithm, Alignment, Check, Entry, FixedWindow};
use crate::table::hash_with;
use crate::time::Timestamp;

impl AdHoc {
    /// Takes `hits` of the `requests` that each window of `unit` admits, counted from the epoch. No hits only
    /// look; more than `requests` are refused without a time to retry, and so is every hit where `requests`
    /// is zero.
    pub fn window(&self, key: &[u8], requests: u64, unit: Duration, hits: u64) -> Result<Throttled, AdHocError> {
        self.visit_window(key, requests, unit, |window, state, now| {
            let check =
                if requests == 0 && hits > 0 { Check::Never } else { window.check(state, now, hits, Entry::Depart) };
            if check == Check::Now {
                window.commit(state, now, hits, false);
            }
            check
        })
    }

    /// Gives back `hits` to the window that runs now, as far as so many were taken in it.
    pub fn give_back_to_window(
        &self,
        key: &[u8],
        requests: u64,
        unit: Duration,
        hits: u64,
    ) -> Result<Throttled, AdHocError> {
        self.visit_window(key, requests, unit, |window, state, now| {
            window.refund(state, now, hits);
            Check::Now
        })
    }

    /// Whether windows of these numbers can be counted, without a look at any key: for callers who must not fail
    /// halfway.
    pub fn check_window(&self, requests: u64, unit: Duration) -> Result<(), AdHocError> {
        let window = FixedWindow::new(requests.max(1), unit, Alignment::Epoch)?;
        // A store has room for every length.
        if !self.is_shared() {
            self.windows(unit, window)?;
        }
        Ok(())
    }

    fn visit_window(
        &self,
        key: &[u8],
        requests: u64,
        unit: Duration,
        act: impl Fn(&FixedWindow, &mut [u64], Timestamp) -> Check,
    ) -> Result<Throttled, AdHocError> {
        let window = FixedWindow::new(requests.max(1), unit, Alignment::Epoch)?;
        let keys = self.windows(unit, window)?;
        let key = hash_with(self.seed, key);
        keys.table.prefetch(key);
        let now = self.clock.now();
        let mut said = Check::Now;
        let (mut remaining, mut end) = (0, 0);
        keys.table.visit(&keys.plan, key, now, |state| {
            let before = [state[0], state[1]];
            said = act(&window, state, now);
            remaining = window.status(state, now).remaining.min(requests);
            end = window.commit(state, now, 0, false);
            *state != before
        });
        let until = |nanos| Duration::from_nanos(nanos);
        Ok(Throttled {
            limited: said != Check::Now,
            limit: requests,
            remaining,
            retry_after: if let Check::NotBefore(wait) = said { Some(until(wait)) } else { None },
            reset_after: Timestamp::from_nanos(end) - now,
        })
    }
}

//! Ad hoc fixed windows: a key's state is the end of its window and its usage.

use std::time::Duration;

use super::{AdHoc, AdHocError, ThrottleResult};
use crate::algorithm::{AdmitMode, Algorithm, Alignment, Check, FixedWindow};
use crate::table::hash_with;
use crate::time::Timestamp;

impl AdHoc {
    /// Takes `hits` of the `requests` that each window of `unit` admits, aligned to the epoch. Zero hits only
    /// read the state; more hits than `requests` are refused without a retry time, and so is every hit if
    /// `requests` is zero.
    pub fn window(&self, key: &[u8], requests: u64, unit: Duration, hits: u64) -> Result<ThrottleResult, AdHocError> {
        self.with_window(key, requests, unit, |window, state, now| {
            let check = if requests == 0 && hits > 0 {
                Check::Never
            } else {
                window.check(state, now, hits, AdmitMode::Immediate)
            };
            if check == Check::Now {
                window.commit(state, now, hits, false);
            }
            check
        })
    }

    /// Gives back `hits` to the current window, at most its usage.
    pub fn give_back_to_window(
        &self,
        key: &[u8],
        requests: u64,
        unit: Duration,
        hits: u64,
    ) -> Result<ThrottleResult, AdHocError> {
        self.with_window(key, requests, unit, |window, state, now| {
            window.refund(state, now, hits);
            Check::Now
        })
    }

    /// Validates window parameters without accessing a key, for callers that must not fail halfway.
    pub fn validate_window(&self, requests: u64, unit: Duration) -> Result<(), AdHocError> {
        let window = FixedWindow::new(requests.max(1), unit, Alignment::Epoch)?;
        // A store supports every length.
        if !self.is_shared() {
            self.windows(unit, window)?;
        }
        Ok(())
    }

    fn with_window(
        &self,
        key: &[u8],
        requests: u64,
        unit: Duration,
        act: impl Fn(&FixedWindow, &mut [u64], Timestamp) -> Check,
    ) -> Result<ThrottleResult, AdHocError> {
        let window = FixedWindow::new(requests.max(1), unit, Alignment::Epoch)?;
        let keys = self.windows(unit, window)?;
        let key = hash_with(self.seed, key);
        keys.table.prefetch(key);
        let now = self.clock.now();
        let mut check = Check::Now;
        let (mut remaining, mut end) = (0, 0);
        keys.table.with_state(&keys.limit_set, key, now, |state| {
            let before = [state[0], state[1]];
            check = act(&window, state, now);
            remaining = window.status(state, now).remaining.min(requests);
            end = window.commit(state, now, 0, false);
            *state != before
        });
        let until = |nanos| Duration::from_nanos(nanos);
        Ok(ThrottleResult {
            limited: check != Check::Now,
            limit: requests,
            remaining,
            retry_after: if let Check::NotBefore(wait) = check { Some(until(wait)) } else { None },
            reset_after: Timestamp::from_nanos(end) - now,
        })
    }
}

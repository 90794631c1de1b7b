//! Ad hoc token buckets: a key's state is its arrival time (GCRA).

use std::time::Duration;

use super::{AdHoc, AdHocError, ThrottleResult};
use crate::algorithm::gcra::{Gcra, nanos_covering, ticks};
use crate::limit::Rate;
use crate::table::hash_with;

impl AdHoc {
    /// Takes `quantity` tokens from a bucket of `max_burst + 1`, refilled at `count` per `period`. A quantity of
    /// zero only reads the state; one larger than the bucket is refused without a retry time.
    pub fn bucket(
        &self,
        key: &[u8],
        max_burst: u64,
        count: u64,
        period: Duration,
        quantity: u64,
    ) -> Result<ThrottleResult, AdHocError> {
        self.with_bucket(key, max_burst, count, period, |bucket, arrival, now| {
            if quantity > bucket.burst() {
                return Err(None);
            }
            *arrival = match bucket.admit(*arrival, now, quantity) {
                Ok(next) if quantity > 0 => next,
                Ok(_) => *arrival,
                Err(early) => return Err(Some(Duration::from_nanos(nanos_covering(early)))),
            };
            Ok(())
        })
    }

    /// Returns `quantity` tokens, up to a full bucket.
    pub fn give_back_to_bucket(
        &self,
        key: &[u8],
        max_burst: u64,
        count: u64,
        period: Duration,
        quantity: u64,
    ) -> Result<ThrottleResult, AdHocError> {
        self.with_bucket(key, max_burst, count, period, |bucket, arrival, _| {
            *arrival = Gcra::give_back(*arrival, bucket.span(quantity));
            Ok(())
        })
    }

    /// Calls `act` with a key's arrival time; `act` changes it or refuses with a retry time.
    #[inline]
    fn with_bucket(
        &self,
        key: &[u8],
        max_burst: u64,
        count: u64,
        period: Duration,
        mut act: impl FnMut(&Gcra, &mut u64, u64) -> Result<(), Option<Duration>>,
    ) -> Result<ThrottleResult, AdHocError> {
        let keys = self.buckets()?;
        let key = hash_with(self.seed, key);
        keys.table.prefetch(key);
        // As in redis-cell, the first token is not part of the burst.
        let bucket = Gcra::new(Rate::new(count, period)?, max_burst.saturating_add(1), "max_burst")?;
        let at = self.clock.now();
        let now = ticks(at);
        let mut result = Ok(());
        let mut after = 0;
        keys.table.with_word(&keys.limit_set, key, at, |arrival| {
            let before = *arrival;
            result = act(&bucket, arrival, now);
            after = *arrival;
            after != before
        });
        Ok(ThrottleResult {
            limited: result.is_err(),
            limit: bucket.burst(),
            remaining: bucket.remaining(after, now),
            retry_after: result.err().flatten(),
            reset_after: Duration::from_nanos(nanos_covering(after.saturating_sub(now))),
        })
    }
}

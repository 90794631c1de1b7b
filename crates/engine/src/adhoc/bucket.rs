//! Buckets: a key's state is the moment at which it is full again.

use std::time::Duration;

use super::{AdHoc, AdHocError, Throttled};
use crate::algorithm::gcra::{Gcra, nanos_covering, ticks};
use crate::limit::Rate;
use crate::table::hash_with;

impl AdHoc {
    /// Takes `quantity` tokens of a bucket of `max_burst + 1`, refilled at `count` per `period`. A quantity of
    /// zero only looks; one beyond the bucket is refused without a time to retry.
    pub fn bucket(
        &self,
        key: &[u8],
        max_burst: u64,
        count: u64,
        period: Duration,
        quantity: u64,
    ) -> Result<Throttled, AdHocError> {
        self.visit(key, max_burst, count, period, |bucket, arrival, now| {
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

    /// Gives back `quantity` tokens, as far as the bucket has room for them.
    pub fn give_back_to_bucket(
        &self,
        key: &[u8],
        max_burst: u64,
        count: u64,
        period: Duration,
        quantity: u64,
    ) -> Result<Throttled, AdHocError> {
        self.visit(key, max_burst, count, period, |bucket, arrival, _| {
            *arrival = Gcra::give_back(*arrival, bucket.span(quantity));
            Ok(())
        })
    }

    /// Lets `act` change a key's moment, or refuse with the time after which it would not.
    #[inline]
    fn visit(
        &self,
        key: &[u8],
        max_burst: u64,
        count: u64,
        period: Duration,
        mut act: impl FnMut(&Gcra, &mut u64, u64) -> Result<(), Option<Duration>>,
    ) -> Result<Throttled, AdHocError> {
        let keys = self.buckets()?;
        let key = hash_with(self.seed, key);
        keys.table.prefetch(key);
        // The first token is not part of the burst.
        let bucket = Gcra::new(Rate::new(count, period)?, max_burst.saturating_add(1), "max_burst")?;
        let at = self.clock.now();
        let now = ticks(at);
        let mut said = Ok(());
        let mut after = 0;
        keys.table.visit_word(&keys.plan, key, at, |arrival| {
            let before = *arrival;
            said = act(&bucket, arrival, now);
            after = *arrival;
            after != before
        });
        Ok(Throttled {
            limited: said.is_err(),
            limit: bucket.burst(),
            remaining: bucket.remaining(after, now),
            retry_after: said.err().flatten(),
            reset_after: Duration::from_nanos(nanos_covering(after.saturating_sub(now))),
        })
    }
}

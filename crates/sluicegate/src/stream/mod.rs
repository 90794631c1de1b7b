//! Rate and concurrency limits for streams.
//!
//! [`StreamRateLimitExt`] adds its methods to every [`Stream`]. An item is taken from the source and then waits in the
//! queue of the limiter, first in, first out with all other waiters. At most one item is buffered; the source is not
//! polled again before that item is yielded. Without an item, no token is consumed.
//!
//! ```
//! use std::time::Duration;
//! use futures_util::{FutureExt, StreamExt, stream};
//! use sluicegate::{Limiter, clock::ManualClock, stream::StreamRateLimitExt};
//!
//! let clock = ManualClock::new();
//! let limiter = Limiter::builder().limit("2/s".parse()?).clock(clock.clone()).build()?;
//! let mut limited = stream::iter(["one", "two", "three"]).rate_limit(&limiter);
//!
//! assert_eq!(limited.next().now_or_never(), Some(Some("one")));
//! assert_eq!(limited.next().now_or_never(), Some(Some("two")));
//! assert_eq!(limited.next().now_or_never(), None); // two a second
//! clock.advance(Duration::from_millis(1_100));
//! assert_eq!(limited.next().now_or_never(), Some(Some("three")));
//! # Ok::<(), sluicegate::LimitError>(())
//! ```
//!
//! | method | yields | an item is yielded when |
//! |---|---|---|
//! | [`rate_limit`](StreamRateLimitExt::rate_limit) | `Item` | the limiter admits one |
//! | [`rate_limit_by_key`](StreamRateLimitExt::rate_limit_by_key) | `Item` | the limiter admits one for the item's key |
//! | [`rate_limit_by_cost`](StreamRateLimitExt::rate_limit_by_cost) | `Result<Item, TooLarge<Item>>` | the limiter admits the item's cost |
//! | [`limit_in_flight`](StreamRateLimitExt::limit_in_flight) | [`InFlight<Item>`](InFlight) | fewer items than the maximum are in flight |
//!
//! Dropping a stream leaves the queue and drops the buffered item. [`RateLimited::into_parts`] and its equivalents return
//! the source and the buffered item instead.

mod buffered_item;
mod in_flight;
mod rate_limited;
mod rate_limited_by_cost;
mod rate_limited_by_key;
mod source;

use std::borrow::Borrow;
use std::hash::Hash;

use futures_core::Stream;
pub use in_flight::{InFlight, InFlightPermit, LimitInFlight};
pub use rate_limited::RateLimited;
pub use rate_limited_by_cost::{RateLimitedByCost, TooLarge};
pub use rate_limited_by_key::RateLimitedByKey;
use sluicegate_engine::{KeyedLimiter, Limit, LimitError, Limiter};

/// Extension trait that limits a [`Stream`]. See the [module](self).
pub trait StreamRateLimitExt: Stream + Sized {
    /// Yields each item when the limiter admits it.
    ///
    /// Permits of a concurrency limit are released when the item is yielded. To hold them while the item is
    /// processed, use [`StreamRateLimitExt::limit_in_flight_by`].
    ///
    /// If the limiter is a single token bucket with many tokens and the source yields items without pause, tokens
    /// are prefetched; see [`TokenBatch`](crate::TokenBatch). Unused tokens are returned when the source is pending.
    fn rate_limit(self, limiter: impl Borrow<Limiter>) -> RateLimited<Self> {
        RateLimited::new(self, limiter.borrow())
    }

    /// Yields each item when the limiter admits its key, which `key` extracts from the item.
    ///
    /// Items stay in order: an item that waits delays the items after it.
    ///
    /// ```
    /// use futures_util::{FutureExt, StreamExt, stream};
    /// use sluicegate::{KeyedLimiter, Limiter, stream::StreamRateLimitExt};
    ///
    /// let per_tenant: KeyedLimiter<str> = Limiter::builder().limit("1/1h".parse()?).build_keyed(1_000)?;
    /// let jobs = stream::iter([("alice", 1), ("bob", 2), ("alice", 3)]);
    /// let mut limited = jobs.rate_limit_by_key(&per_tenant, |(tenant, _)| *tenant);
    /// assert_eq!(limited.next().now_or_never(), Some(Some(("alice", 1))));
    /// assert_eq!(limited.next().now_or_never(), Some(Some(("bob", 2))));
    /// assert_eq!(limited.next().now_or_never(), None); // over the limit of alice
    /// assert_eq!(limited.into_parts().1, Some(("alice", 3)));
    /// # Ok::<(), sluicegate::LimitError>(())
    /// ```
    fn rate_limit_by_key<K, F>(self, limiter: impl Borrow<KeyedLimiter<K>>, key: F) -> RateLimitedByKey<Self, K, F>
    where
        K: Hash + ?Sized,
        F: FnMut(&Self::Item) -> &K,
    {
        RateLimitedByKey::new(self, limiter.borrow(), key)
    }

    /// Yields each item when the limiter admits its cost, which `cost` computes.
    ///
    /// An item whose cost exceeds the limit would wait forever. It is yielded immediately, in an error that contains
    /// it.
    ///
    /// ```
    /// use futures_util::{FutureExt, StreamExt, stream};
    /// use sluicegate::{Limit, Limiter, Rate, stream::StreamRateLimitExt};
    ///
    /// let bytes = Limiter::new(Limit::bandwidth(Rate::per_second(1_000_000)?, 1_000)?);
    /// let chunks = stream::iter([vec![0; 600], vec![0; 5_000], vec![0; 400]]);
    /// let mut limited = chunks.rate_limit_by_cost(&bytes, |chunk| chunk.len() as u64);
    /// assert_eq!(limited.next().now_or_never().flatten().unwrap()?.len(), 600);
    /// let too_large = limited.next().now_or_never().flatten().unwrap().unwrap_err();
    /// assert_eq!((too_large.cost, too_large.item.len()), (5_000, 5_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn rate_limit_by_cost<F>(self, limiter: impl Borrow<Limiter>, cost: F) -> RateLimitedByCost<Self, F>
    where
        F: FnMut(&Self::Item) -> u64,
    {
        RateLimitedByCost::new(self, limiter.borrow(), cost)
    }

    /// Yields an item when fewer than `max` items are in flight. An item is in flight until its [`InFlight`] is
    /// dropped.
    ///
    /// ```
    /// use futures_util::{FutureExt, StreamExt, stream};
    /// use sluicegate::stream::StreamRateLimitExt;
    ///
    /// let mut two_at_once = stream::iter(1..=3).limit_in_flight(2)?;
    /// let (one, two) = two_at_once.next().now_or_never().flatten().zip(two_at_once.next().now_or_never().flatten()).unwrap();
    /// assert!(two_at_once.next().now_or_never().is_none());
    /// drop(one);
    /// assert_eq!(*two_at_once.next().now_or_never().flatten().unwrap(), 3);
    /// # drop(two);
    /// # Ok::<(), sluicegate::LimitError>(())
    /// ```
    fn limit_in_flight(self, max: u64) -> Result<LimitInFlight<Self>, LimitError> {
        Ok(self.limit_in_flight_by(Limiter::new(Limit::concurrency(max)?)))
    }

    /// Yields an item when the limiter admits it, and holds the permit until the item's [`InFlight`] is dropped. For a
    /// concurrency limit that several streams share.
    fn limit_in_flight_by(self, limiter: impl Borrow<Limiter>) -> LimitInFlight<Self> {
        LimitInFlight::new(self, limiter.borrow())
    }
}

impl<S: Stream> StreamRateLimitExt for S {}

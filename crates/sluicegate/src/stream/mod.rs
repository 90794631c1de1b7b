//! Streams whose items keep to limits.
//!
//! [`StreamLimits`] adds its methods to everything that is a [`Stream`]. An item is taken from the source
//! first and then waits for its turn, first in, first out with everybody else who waits for the same
//! limiter. One item at most is held so; the source is not asked for another before that one has left. No
//! token is spent while there is no item.
//!
//! ```
//! use std::time::Duration;
//! use futures_util::{FutureExt, StreamExt, stream};
//! use sluicegate::{Limiter, clock::ManualClock, stream::StreamLimits};
//!
//! let clock = ManualClock::new();
//! let limiter = Limiter::builder().limit("2/s".parse()?).clock(clock.clone()).build()?;
//! let mut paced = stream::iter(["one", "two", "three"]).paced(&limiter);
//!
//! assert_eq!(paced.next().now_or_never(), Some(Some("one")));
//! assert_eq!(paced.next().now_or_never(), Some(Some("two")));
//! assert_eq!(paced.next().now_or_never(), None); // two a second
//! clock.advance(Duration::from_millis(1_100));
//! assert_eq!(paced.next().now_or_never(), Some(Some("three")));
//! # Ok::<(), sluicegate::LimitError>(())
//! ```
//!
//! | method | yields | an item leaves when |
//! |---|---|---|
//! | [`paced`](StreamLimits::paced) | `Item` | the limiter admits one |
//! | [`paced_by`](StreamLimits::paced_by) | `Item` | the limiter admits one of the item's key |
//! | [`paced_with_cost`](StreamLimits::paced_with_cost) | `Result<Item, TooLarge<Item>>` | the limiter admits the item's cost |
//! | [`limit_in_flight`](StreamLimits::limit_in_flight) | [`InFlight<Item>`](InFlight) | fewer than so many are still being handled |
//!
//! Dropping a stream leaves the line and drops the item it held, if any. [`Paced::into_parts`] and its
//! like hand out both the source and that item instead.

mod held;
mod in_flight;
mod paced;
mod paced_by;
mod paced_with_cost;
mod source;

use std::borrow::Borrow;
use std::hash::Hash;

use futures_core::Stream;
pub use in_flight::{InFlight, LimitInFlight, Permit};
pub use paced::Paced;
pub use paced_by::PacedBy;
pub use paced_with_cost::{PacedWithCost, TooLarge};
use sluicegate_engine::{KeyedLimiter, Limit, LimitError, Limiter};

/// Limits for everything that is a [`Stream`]. See the [module's head](self).
pub trait StreamLimits: Stream + Sized {
    /// Lets each item out at the moment the limiter admits it.
    ///
    /// Permits of a concurrency limit are given back as soon as the item is out: to hold them while it is
    /// handled, use [`StreamLimits::limit_in_flight_by`].
    ///
    /// Where the limiter is a single token bucket with plenty left and the source has one item after
    /// another, tokens are taken some ahead; see [`Batch`](crate::Batch). They are given back as soon as
    /// the source has nothing to give.
    fn paced(self, limiter: impl Borrow<Limiter>) -> Paced<Self> {
        Paced::new(self, limiter.borrow())
    }

    /// Lets each item out at the moment the limiter admits one of the key that `key` reads from it.
    ///
    /// Items stay in order: one whose key has to wait holds up those behind it.
    ///
    /// ```
    /// use futures_util::{FutureExt, StreamExt, stream};
    /// use sluicegate::{KeyedLimiter, Limiter, stream::StreamLimits};
    ///
    /// let per_tenant: KeyedLimiter<str> = Limiter::builder().limit("1/1h".parse()?).build_keyed(1_000)?;
    /// let jobs = stream::iter([("alice", 1), ("bob", 2), ("alice", 3)]);
    /// let mut paced = jobs.paced_by(&per_tenant, |(tenant, _)| *tenant);
    /// assert_eq!(paced.next().now_or_never(), Some(Some(("alice", 1))));
    /// assert_eq!(paced.next().now_or_never(), Some(Some(("bob", 2))));
    /// assert_eq!(paced.next().now_or_never(), None); // alice has had hers
    /// assert_eq!(paced.into_parts().1, Some(("alice", 3)));
    /// # Ok::<(), sluicegate::LimitError>(())
    /// ```
    fn paced_by<K, F>(self, limiter: impl Borrow<KeyedLimiter<K>>, key: F) -> PacedBy<Self, K, F>
    where
        K: Hash + ?Sized,
        F: FnMut(&Self::Item) -> &K,
    {
        PacedBy::new(self, limiter.borrow(), key)
    }

    /// Lets each item out at the moment the limiter admits what `cost` says it costs.
    ///
    /// An item that costs more than the limit itself could wait for ever. It is yielded at once instead, in
    /// an error that contains it.
    ///
    /// ```
    /// use futures_util::{FutureExt, StreamExt, stream};
    /// use sluicegate::{Limit, Limiter, Rate, stream::StreamLimits};
    ///
    /// let bytes = Limiter::new(Limit::bandwidth(Rate::per_second(1_000_000)?, 1_000)?);
    /// let chunks = stream::iter([vec![0; 600], vec![0; 5_000], vec![0; 400]]);
    /// let mut paced = chunks.paced_with_cost(&bytes, |chunk| chunk.len() as u64);
    /// assert_eq!(paced.next().now_or_never().flatten().unwrap()?.len(), 600);
    /// let too_large = paced.next().now_or_never().flatten().unwrap().unwrap_err();
    /// assert_eq!((too_large.cost, too_large.item.len()), (5_000, 5_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn paced_with_cost<F>(self, limiter: impl Borrow<Limiter>, cost: F) -> PacedWithCost<Self, F>
    where
        F: FnMut(&Self::Item) -> u64,
    {
        PacedWithCost::new(self, limiter.borrow(), cost)
    }

    /// Lets an item out when fewer than `most` are still being handled. An item is being handled until its
    /// [`InFlight`] is dropped.
    ///
    /// ```
    /// use futures_util::{FutureExt, StreamExt, stream};
    /// use sluicegate::stream::StreamLimits;
    ///
    /// let mut two_at_once = stream::iter(1..=3).limit_in_flight(2)?;
    /// let (one, two) = two_at_once.next().now_or_never().flatten().zip(two_at_once.next().now_or_never().flatten()).unwrap();
    /// assert!(two_at_once.next().now_or_never().is_none());
    /// drop(one);
    /// assert_eq!(*two_at_once.next().now_or_never().flatten().unwrap(), 3);
    /// # drop(two);
    /// # Ok::<(), sluicegate::LimitError>(())
    /// ```
    fn limit_in_flight(self, most: u64) -> Result<LimitInFlight<Self>, LimitError> {
        Ok(self.limit_in_flight_by(Limiter::new(Limit::concurrency(most)?)))
    }

    /// Lets an item out when the limiter lets it in, and holds what it was given until the item's
    /// [`InFlight`] is dropped. For a concurrency limit that several streams share.
    fn limit_in_flight_by(self, limiter: impl Borrow<Limiter>) -> LimitInFlight<Self> {
        LimitInFlight::new(self, limiter.borrow())
    }
}

impl<S: Stream> StreamLimits for S {}

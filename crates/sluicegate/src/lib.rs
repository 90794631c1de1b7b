//! Flow control for services under high concurrency.
//!
//! This is the one crate a program depends on. It has two ways in: a limiter you ask by hand, and a
//! sluice that asks itself, by rules from a file.
//!
//! # One limit
//!
//! A [`Limit`] is an algorithm with its numbers; a [`Limiter`] is limits with their state. `300/1m` means
//! what it says: never more than 300 in any minute. Every other algorithm has a name.
//!
//! ```
//! use sluicegate::{Limit, Limiter, Rate};
//!
//! let strict = Limiter::new("300/1m".parse()?);
//! assert!(strict.check().is_allowed());
//!
//! let bucket = Limiter::new(Limit::token_bucket(Rate::per_second(10)?, 20)?);
//! assert_eq!(bucket.check().status.remaining, 19);
//! # Ok::<(), sluicegate::LimitError>(())
//! ```
//!
//! # What was decided
//!
//! A [`Decision`] tells the four ways a request can fare apart ([`Verdict`]), and carries the exact wait
//! and what is left.
//!
//! ```
//! use sluicegate::{Limiter, Verdict};
//!
//! let limiter = Limiter::new("1/1m".parse()?);
//! limiter.check();
//! let refused = limiter.check();
//! assert!(matches!(refused.verdict, Verdict::Denied { retry_after: Some(_) }));   // not now, and until when
//! assert_eq!(limiter.check_cost(2).verdict, Verdict::Never);                      // not ever
//! # Ok::<(), sluicegate::LimitError>(())
//! ```
//!
//! # One limit per key
//!
//! A [`KeyedLimiter`] counts each key apart in a table of fixed size: it never grows, and a key that is
//! limited stays limited however many others come.
//!
//! ```
//! use sluicegate::{KeyedLimiter, Limiter};
//!
//! let per_client: KeyedLimiter<str> = Limiter::builder()
//!     .limit("300/1m".parse()?)
//!     .limit("100/5s".parse()?) // all of them, or nothing is taken
//!     .build_keyed(100_000)?;
//! assert!(per_client.check("203.0.113.9").is_allowed());
//! # Ok::<(), sluicegate::LimitError>(())
//! ```
//!
//! # Being inside, and costs known later
//!
//! [`Limiter::enter`] answers a [`Pass`], or [`Refused`]. The pass holds permits while it lives, and can be
//! settled to what the request really cost.
//!
//! ```
//! use sluicegate::{Limit, Limiter};
//!
//! let at_once = Limiter::new(Limit::concurrency(1)?);
//! let pass = at_once.enter(1)?;
//! assert!(at_once.enter(1).is_err());
//! drop(pass); // however the work ends
//! assert!(at_once.enter(1).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Waiting for a turn
//!
//! [`Limiter::acquire`] waits instead of being refused: await it, or call [`Acquire::blocking`]. First in,
//! first out; who cannot make it before the deadline is told at once.
//!
//! ```
//! use std::time::Duration;
//! use sluicegate::{Limit, Limiter, Rate, Reason};
//!
//! let paced = Limiter::new(Limit::leaky_bucket(Rate::per_second(1)?, 5)?);
//! paced.acquire().blocking()?;
//! let refused = paced.acquire().within(Duration::from_millis(1)).blocking().unwrap_err();
//! assert_eq!(refused.reason, Reason::Deadline); // its turn would come in a second
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A bucket in slices
//!
//! Where even one shared word is too slow, threads take a [`Slice`] of a [`SlicedLimiter`] and decide by
//! themselves. The bound is the bucket's.
//!
//! ```
//! use sluicegate::{Limiter, Rate, algorithm::TokenBucket};
//!
//! let bucket = TokenBucket::new(Rate::per_second(1_000_000)?, 100_000)?;
//! let shared = Limiter::builder().build_sliced(bucket, 100)?;
//! let mut mine = shared.slice();
//! assert!(mine.take(1).is_ok());
//! assert_eq!(mine.left(), 99);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules
//!
//! A [`Sluice`] holds [rules](rule) with their state: which requests, by which key, which limits, and
//! what then. It decides all rules of a request together and answers an [`Outcome`].
#![cfg_attr(
    feature = "config",
    doc = r#"[`load`] puts a rule file in force; [`config`] reads one without doing so.

```
let folder = std::env::temp_dir().join("sluicegate-guide");
std::fs::create_dir_all(&folder)?;
let file = folder.join("rules.yaml");
std::fs::write(&file, "rules: [{ name: per-ip, key: client.ip, limits: [2/1m] }]")?;

use sluicegate::rule::Request;
let sluice = sluicegate::load(&file)?;
let request = Request::new("GET", "/").with_client_ip([203, 0, 113, 9]);
assert!(sluice.decide(&request).is_admitted());
# Ok::<(), Box<dyn std::error::Error>>(())
```
"#
)]
//!
//! # Pools
//!
//! A [`pool::Bulkhead`] divides the places of a pool among classes of work, so that none can keep out the
//! others: see [`pool`].
//!
#![cfg_attr(
    feature = "stream",
    doc = r#"# Streams

[`stream::StreamLimits`] paces everything that is a `Stream`, and limits how many of its items are in flight.

```
use futures_util::{StreamExt, stream};
use sluicegate::{Limiter, stream::StreamLimits};

let limiter = Limiter::new("1000/s".parse()?);
let jobs = stream::iter(1..=3).limit_in_flight(2)?.paced(&limiter);
let done = futures_util::FutureExt::now_or_never(jobs.map(|job| *job).collect::<Vec<_>>());
assert_eq!(done, Some(vec![1, 2, 3]));
# Ok::<(), sluicegate::LimitError>(())
```
"#
)]
//! # Time
//!
//! Time is injected: [`clock::ManualClock`] moves when told to, so that no test has to sleep.
//!
//! ```
//! use std::time::Duration;
//! use sluicegate::{Limiter, clock::ManualClock};
//!
//! let clock = ManualClock::new();
//! let limiter = Limiter::builder().limit("1/s".parse()?).clock(clock.clone()).build()?;
//! limiter.check();
//! let wait = limiter.check().wait().unwrap_or_default();
//! clock.advance(wait);
//! assert!(limiter.check().is_allowed()); // the promised wait is exact
//! # Ok::<(), sluicegate::LimitError>(())
//! ```

#[cfg(feature = "macros")]
pub mod attribute;
#[cfg(feature = "cluster")]
pub mod cluster;
mod installed;
#[cfg(feature = "config")]
mod load;
pub mod pool;

#[cfg(feature = "stream")]
pub mod stream;

#[cfg(feature = "macros")]
pub use attribute::Limited;
pub use installed::{install, installed};

/// Signals, conditions and self-tuning limits, for rules that protect the process under strain.
#[cfg(feature = "adaptive")]
pub use sluicegate_adaptive as adaptive;

/// Steers the rules of a sluice that protect the process, whatever they will be, by a thread of its own, for as long as
/// the sluice is kept. `load` does so by itself.
#[cfg(feature = "adaptive")]
pub fn steer(sluice: &Sluice) -> std::io::Result<adaptive::pilot::Steering> {
    adaptive::pilot::Pilot::new(sluice, adaptive::signals::Machine::new()).spawn()
}

#[cfg(feature = "config")]
pub use load::{LoadError, enforce, load, resume};

#[cfg(all(feature = "config", feature = "tower"))]
pub use load::layer;

/// Reading rule files, and saying what is wrong with them.
#[cfg(feature = "config")]
pub use sluicegate_config as config;

/// Requests as HTTP has them: who the client is, and how an outcome is told to it.
#[cfg(feature = "tower")]
pub use sluicegate_http as http;

/// Layers for tower, and so for axum, tonic and hyper, and around reqwest.
#[cfg(feature = "tower")]
pub use sluicegate_tower as tower;

/// A front door for hyper and axum servers: connections, queue, workers and deadlines, each bounded.
#[cfg(feature = "door")]
pub use sluicegate_door as door;

pub use sluicegate_engine::{
    Acquire, Batch, Builder, Decision, Held, KeyedLimiter, Limit, LimitError, Limiter, MOST_LIMITS, Outcome, Pass,
    Rate, Reason, Refused, RestoreError, SavedState, Slice, SlicedLimiter, Sluice, Timestamp, Verdict,
};
pub use sluicegate_engine::{algorithm, clock, fleet, gate, limit, rule, sluice, time};

#[cfg(feature = "macros")]
#[doc = include_str!("attribute/limit.md")]
pub use sluicegate_macros::limit;

/// Every Rust snippet of the READMEs and the documentation is compiled and run.
#[cfg(all(doctest, feature = "config"))]
mod pages {
    #[cfg(all(feature = "axum", feature = "macros"))]
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/library.md")]
    struct Library;
    #[doc = include_str!("../../../docs/algorithms.md")]
    struct Algorithms;
    #[cfg(feature = "adaptive")]
    #[doc = include_str!("../../../docs/adaptive.md")]
    struct AdaptivePage;
    #[cfg(feature = "cluster")]
    #[doc = include_str!("../../../docs/cluster.md")]
    struct Cluster;
    #[cfg(feature = "jwt")]
    #[doc = include_str!("../../../docs/identity.md")]
    struct Identity;
    #[cfg(feature = "sqlx")]
    #[doc = include_str!("../../../docs/pools.md")]
    struct Pools;
    #[cfg(feature = "door")]
    #[doc = include_str!("../../../docs/front-door.md")]
    struct FrontDoor;
    #[cfg(feature = "stream")]
    #[doc = include_str!("../../../docs/streams.md")]
    struct Streams;
    #[cfg(feature = "reqwest")]
    #[doc = include_str!("../../../docs/outgoing.md")]
    struct Outgoing;
    #[cfg(feature = "macros")]
    #[doc = include_str!("../../../docs/attribute.md")]
    struct AttributePage;
    #[cfg(feature = "axum")]
    #[doc = include_str!("../../../docs/tower.md")]
    struct TowerPage;
}

//! Rate limiting and overload protection for services.
//!
//! This is the crate that programs depend on. It has two entry points: a [`Limiter`] that code checks
//! explicitly, and a [`Sluice`] that decides requests by the rules of a file.
//!
//! # Limits
//!
//! A [`Limit`] is an algorithm with its parameters; a [`Limiter`] is a set of limits with their state. `300/1m`
//! admits at most 300 requests in any minute. Every other algorithm has a name.
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
//! # Decisions
//!
//! A [`Decision`] has one of four verdicts ([`Verdict`]), the exact wait, and the remaining quota.
//!
//! ```
//! use sluicegate::{Limiter, Verdict};
//!
//! let limiter = Limiter::new("1/1m".parse()?);
//! limiter.check();
//! let refused = limiter.check();
//! assert!(matches!(refused.verdict, Verdict::Denied { retry_after: Some(_) }));   // with the exact wait
//! assert_eq!(limiter.check_cost(2).verdict, Verdict::Never);                      // costs more than the limit
//! # Ok::<(), sluicegate::LimitError>(())
//! ```
//!
//! # Keys
//!
//! A [`KeyedLimiter`] counts each key separately in a table of fixed size. The table never grows, and a limited key
//! stays limited regardless of the number of other keys.
//!
//! ```
//! use sluicegate::{KeyedLimiter, Limiter};
//!
//! let per_client: KeyedLimiter<str> = Limiter::builder()
//!     .limit("300/1m".parse()?)
//!     .limit("100/5s".parse()?) // all limits admit, or none is charged
//!     .build_keyed(100_000)?;
//! assert!(per_client.check("203.0.113.9").is_allowed());
//! # Ok::<(), sluicegate::LimitError>(())
//! ```
//!
//! # Permits and actual costs
//!
//! [`Limiter::enter`] returns a [`Permit`], or an [`AcquireError`]. The permit is held until it is dropped, and can
//! be settled to the actual cost of the request.
//!
//! ```
//! use sluicegate::{Limit, Limiter};
//!
//! let at_once = Limiter::new(Limit::concurrency(1)?);
//! let permit = at_once.enter(1)?;
//! assert!(at_once.enter(1).is_err());
//! drop(permit); // also by a panic or a cancelled task
//! assert!(at_once.enter(1).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Queueing
//!
//! [`Limiter::acquire`] waits instead of being refused: await it, or call [`Acquire::blocking`]. The queue is first
//! in, first out. A call that cannot be admitted before its deadline is refused immediately.
//!
//! ```
//! use std::time::Duration;
//! use sluicegate::{Limit, Limiter, Rate, RefusalReason};
//!
//! let paced = Limiter::new(Limit::leaky_bucket(Rate::per_second(1)?, 5)?);
//! paced.acquire().blocking()?;
//! let refused = paced.acquire().within(Duration::from_millis(1)).blocking().unwrap_err();
//! assert_eq!(refused.reason, RefusalReason::Deadline); // it would be admitted in a second
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Sharded limiters
//!
//! If contention on one atomic is too slow, each thread takes [`LocalTokens`] from a [`ShardedLimiter`] and decides
//! locally. The bound of the bucket still holds.
//!
//! ```
//! use sluicegate::{Limiter, Rate, algorithm::TokenBucket};
//!
//! let bucket = TokenBucket::new(Rate::per_second(1_000_000)?, 100_000)?;
//! let shared = Limiter::builder().build_sharded(bucket, 100)?;
//! let mut local = shared.local_tokens();
//! assert!(local.take(1).is_ok());
//! assert_eq!(local.remaining(), 99);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules
//!
//! A [`Sluice`] holds [rules](rule) with their state. A rule has a match, a key, limits and an action. The sluice
//! decides all rules of a request in one step and returns an [`Outcome`].
#![cfg_attr(
    feature = "config",
    doc = r#"[`load`] reads a rule file and enforces its rules; [`config`] only parses one.

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
//! # Bulkheads
//!
//! A [`bulkhead::Bulkhead`] divides the capacity of a pool among classes of work, so that no class can starve the
//! others. See [`bulkhead`].
//!
#![cfg_attr(
    feature = "stream",
    doc = r#"# Streams

[`stream::StreamRateLimitExt`] limits the rate of any `Stream` and the number of its items in flight.

```
use futures_util::{StreamExt, stream};
use sluicegate::{Limiter, stream::StreamRateLimitExt};

let limiter = Limiter::new("1000/s".parse()?);
let jobs = stream::iter(1..=3).limit_in_flight(2)?.rate_limit(&limiter);
let done = futures_util::FutureExt::now_or_never(jobs.map(|job| *job).collect::<Vec<_>>());
assert_eq!(done, Some(vec![1, 2, 3]));
# Ok::<(), sluicegate::LimitError>(())
```
"#
)]
//! # Time
//!
//! The clock is injected: tests advance a [`clock::ManualClock`] and never sleep.
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
pub mod bulkhead;
#[cfg(feature = "cluster")]
pub mod cluster;
mod global;
#[cfg(feature = "listener")]
pub mod listener;
#[cfg(feature = "config")]
mod load;

#[cfg(feature = "stream")]
pub mod stream;

#[cfg(feature = "macros")]
pub use attribute::Limited;
pub use global::{install, installed};

/// Overload protection: signals, conditions and self-tuning limits for rules with `adaptive`.
#[cfg(feature = "adaptive")]
pub use sluicegate_adaptive as adaptive;

/// Starts the control loop for overload protection on a dedicated thread. It controls the `adaptive` rules of a
/// sluice, also those that are added later, until the sluice is dropped. `load` starts it automatically.
#[cfg(feature = "adaptive")]
pub fn start_control_loop(sluice: &Sluice) -> std::io::Result<adaptive::controller::ControlLoopHandle> {
    adaptive::controller::ControlLoop::new(sluice, adaptive::signals::HostSignals::new()).spawn()
}

#[cfg(feature = "config")]
pub use load::{LoadError, enforce, load, resume};

#[cfg(all(feature = "config", feature = "tower"))]
pub use load::layer;

/// Parser for rule files, with diagnostics.
#[cfg(feature = "config")]
pub use sluicegate_config as config;

/// HTTP adapter: client identity, request attributes, RateLimit headers and refusals.
#[cfg(feature = "tower")]
pub use sluicegate_http_adapter as http;

/// Layers for tower (axum, tonic, hyper), and a middleware for reqwest.
#[cfg(feature = "tower")]
pub use sluicegate_tower as tower;

pub use sluicegate_engine::{
    Acquire, AcquireError, Builder, Decision, KeyedLimiter, Limit, LimitError, Limiter, LocalTokens, MAX_LIMITS,
    Outcome, OwnedPermit, Permit, Rate, RefusalReason, RestoreError, SavedState, ShardedLimiter, Sluice, Timestamp,
    TokenBatch, Verdict,
};
pub use sluicegate_engine::{algorithm, clock, limit, overload, rule, sluice, store, time};

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
    #[doc = include_str!("../../../docs/bulkheads.md")]
    struct Bulkheads;
    #[cfg(feature = "listener")]
    #[doc = include_str!("../../../docs/listener.md")]
    struct Listener;
    #[cfg(feature = "stream")]
    #[doc = include_str!("../../../docs/streams.md")]
    struct Streams;
    #[cfg(feature = "reqwest")]
    #[doc = include_str!("../../../docs/client-limits.md")]
    struct ClientLimits;
    #[cfg(feature = "macros")]
    #[doc = include_str!("../../../docs/attribute.md")]
    struct AttributePage;
    #[cfg(feature = "axum")]
    #[doc = include_str!("../../../docs/tower.md")]
    struct TowerPage;
}

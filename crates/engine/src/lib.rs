//! Rate limiting engine: algorithms, bounded keyed state, rules and decisions. No I/O and no async runtime.
//!
//! ```
//! use sluicegate_engine::{KeyedLimiter, Limiter};
//!
//! // Never more than 300 in any minute and 100 in any five seconds, for each client.
//! let limiter: KeyedLimiter<str> = Limiter::builder()
//!     .limit("300/1m".parse()?)
//!     .limit("100/5s".parse()?)
//!     .build_keyed(100_000)?;
//!
//! let decision = limiter.check("203.0.113.9");
//! assert!(decision.is_allowed());
//! assert_eq!(decision.status.remaining, 99);
//! # Ok::<(), sluicegate_engine::LimitError>(())
//! ```
//!
//! # Modules
//!
//! Each module depends only on those above it.
//!
//! - `sync`: atomics, replaceable in tests
//! - [`time`]: time stamps with nanoseconds
//! - [`spelling`]: "did you mean" suggestions
//! - [`clock`]: injected clocks and timers
//! - `quota`: rates, durations and sizes, with their notation and errors; public as part of [`limit`]
//! - [`algorithm`]: token bucket, leaky bucket, windows, concurrency, warm-up; each with its guarantee, its description
//!   and its parameters
//! - [`limit`]: a limit (any algorithm with its parameters), its notation `300/1m` and its saved form
//! - `decision`: verdict and status of one decision
//! - `limit_set`: several limits decided together on one key
//! - `table`: fixed-size hash table of per-key state
//! - `wait`: wait queues
//! - [`limiter`]: limits with their state, unkeyed or per key
//! - [`rule`]: rule definitions, matching, keys, allow and deny lists
//! - [`overload`]: admission gates for overload protection
//! - [`store`]: interface of a shared store for cluster-wide limits
//! - [`adhoc`]: limits with parameters given per call
//! - [`sluice`]: the rule engine; decides requests by rules
//!
//! # Path of a request
//!
//! A [`Sluice`] checks the allow and deny lists, finds the matching rules by index, computes each rule's key and
//! decides all limits of all rules, all or nothing. The resulting [`Outcome`] carries everything an adapter needs
//! for its response.

pub mod adhoc;
pub mod algorithm;
pub mod clock;
mod decision;
pub mod limit;
mod limit_set;
pub mod limiter;
pub mod overload;
mod quota;
pub mod rule;
pub mod sluice;
pub mod spelling;
pub mod store;
mod sync;
mod table;
pub mod time;
mod wait;

pub use decision::{Decision, Verdict};
pub use limit::{Limit, LimitError, Rate};
pub use limit_set::MAX_LIMITS;
pub use limiter::{
    Acquire, AcquireError, Builder, KeyedLimiter, Limiter, LocalTokens, OwnedPermit, Permit, RefusalReason,
    RestoreError, SavedState, ShardedLimiter, TokenBatch,
};
pub use sluice::{Outcome, Sluice};
pub use time::Timestamp;

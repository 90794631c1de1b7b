//! Sluicegate's decisions: algorithms, bounded keyed state, rules. No I/O, no runtime.
//!
//! A request passes through in one straight line: rules select the checks, a limiter decides them all
//! or nothing, and the decision carries everything an adapter needs to answer.
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
//! - [`limit`]: what can be limited, and the notation `300/1m`
//! - [`algorithm`]: how, each with its guarantee
//! - [`limiter`]: limits with their state; the table of keys behind them
//! - [`rule`]: which requests, by which key, and what then
//! - [`sluice`]: rules with their state, deciding requests
//! - [`gate`]: what holds requests back while the process is under strain
//! - [`adhoc`]: limits whose numbers come with each call
//! - [`clock`]: time, injected

pub mod adhoc;
pub mod algorithm;
pub mod clock;
mod decision;
pub mod fleet;
pub mod gate;
pub mod limit;
pub mod limiter;
mod plan;
pub mod rule;
pub mod sluice;
mod sync;
mod table;
pub mod time;
mod wait;

pub use decision::{Decision, Verdict};
pub use limit::{Limit, LimitError, Rate};
pub use limiter::{
    Acquire, Batch, Builder, Held, KeyedLimiter, Limiter, Pass, Reason, Refused, RestoreError, SavedState, Slice,
    SlicedLimiter,
};
pub use plan::MOST_LIMITS;
pub use sluice::{Outcome, Sluice};
pub use time::Timestamp;

//! What Sluicegate's tests share.
//!
//! A test of a limiter has three parts, and two of them are the same for every limiter:
//!
//! 1. [`arrivals`]: who comes when, and how much they want. Steady, random, bursts at window edges,
//!    and clocks that stall, jump and step back. Seeded, so a failure can be repeated.
//! 2. The limiter under test decides. That part is the test's own.
//! 3. [`bound`]: given only what was admitted, was the promise kept? Exact integers, no tolerance.
//!    [`history`] asks the same of many callers at once, of whom only the moments of call and return
//!    are known.
//!
//! Tests of what speaks to other programs start the real ones, [`servers`], and put what can go wrong on the
//! way to them in between, [`fault_proxy`]. What listens at a port that is written down has a [`network`] of its own.
//!
//! What protects a server from too much load is judged by what comes of it, in virtual time: [`overload`].
//!
//! The checkers know nothing of the engine: a checker that shared the limiter's arithmetic would
//! share its mistakes.
//!
//! ```
//! use sluicegate_testkit::{arrivals::{Pattern, Scale, Stream}, bound::{self, Admitted}};
//!
//! // A limiter that lets in one unit per millisecond keeps "10 in any 10 ms".
//! let mut free_at = 0;
//! let admitted: Vec<Admitted> = Stream::new(7, Pattern::Poisson, Scale::window(10_000_000))
//!     .take(500)
//!     .filter(|arrival| {
//!         let fits = arrival.at >= free_at;
//!         if fits { free_at = arrival.at + 1_000_000 }
//!         fits
//!     })
//!     .map(|arrival| Admitted { at: arrival.at, cost: 1 })
//!     .collect();
//! bound::any_window(&admitted, 10, 10_000_000)?;
//! assert!(bound::any_window(&admitted, 1, 10_000_000).is_err());
//! # Ok::<(), bound::Violation>(())
//! ```

pub mod arrivals;
pub mod bound;
pub mod fault_proxy;
pub mod history;
pub mod network;
pub mod overload;
pub mod servers;

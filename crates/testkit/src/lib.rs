//! Test support for Sluicegate: arrival generators, limit checkers, an overload simulator and real servers.
//!
//! A test of a limiter has three parts, and two of them are the same for every limiter:
//!
//! 1. [`arrivals`] generates requests: steady, random, bursts at window edges, and clocks that stall, jump
//!    and step back. Everything is seeded, so a failure can be reproduced.
//! 2. The limiter under test decides. This part belongs to the test.
//! 3. [`bound`] checks the admitted requests against the limit with exact integers and no tolerance.
//!    [`history`] does the same for concurrent callers, with only the call and return times known.
//!
//! Modules:
//!
//! - [`arrivals`]: arrival sequences, as seeded iterators and as proptest strategies.
//! - [`bound`]: exact checkers of a sequential history.
//! - [`history`]: checkers of a concurrent history.
//! - [`overload`]: discrete-event simulator that compares overload protection in virtual time.
//! - [`random`]: the one seeded generator of all tests and simulations.
//! - [`servers`]: real Redis, RabbitMQ, MariaDB and Envoy processes for tests.
//! - [`fault_proxy`]: TCP proxy that injects network faults.
//! - [`netns`]: network namespace for programs that listen on a fixed port.
//!
//! The checkers do not depend on the engine: a checker that shared the limiter's arithmetic would share its
//! bugs.
//!
//! ```
//! use sluicegate_testkit::{arrivals::{ArrivalScale, ArrivalStream, Pattern}, bound::{self, AdmissionEvent}};
//!
//! // A limiter that admits one unit per millisecond keeps "10 in any 10 ms".
//! let mut free_at = 0;
//! let admitted: Vec<AdmissionEvent> = ArrivalStream::new(7, Pattern::Poisson, ArrivalScale::window(10_000_000))
//!     .take(500)
//!     .filter(|arrival| {
//!         let fits = arrival.at >= free_at;
//!         if fits { free_at = arrival.at + 1_000_000 }
//!         fits
//!     })
//!     .map(|arrival| AdmissionEvent { at: arrival.at, cost: 1 })
//!     .collect();
//! bound::any_window(&admitted, 10, 10_000_000)?;
//! assert!(bound::any_window(&admitted, 1, 10_000_000).is_err());
//! # Ok::<(), bound::Violation>(())
//! ```

pub mod arrivals;
pub mod bound;
pub mod fault_proxy;
pub mod history;
pub mod netns;
pub mod overload;
pub mod random;
pub mod servers;

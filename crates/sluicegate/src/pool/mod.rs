//! Bulkheads: the places of a pool, divided among classes of work, so that none can sink the others.
//!
//! A pool hands its connections to whoever comes first: a wave of reports takes them all, and orders
//! wait. A [`Bulkhead`] stands before it. Each [`Class`] of work has the most places it may use at once,
//! a reserve that nobody else may take, and its own line with a deadline. It needs no pool to be useful:
//! threads, memory, calls to another service can be divided the same way.
//!
//! ```
//! use std::time::Duration;
//! use sluicegate::pool::{Bulkhead, Cause, Class};
//!
//! let bulkhead = Bulkhead::builder(4)
//!     .class("orders", Class::new().reserve(2).wait(Duration::from_millis(500)))
//!     .class("reports", Class::new().max(3).wait(Duration::ZERO))
//!     .build()?;
//! let orders = bulkhead.class("orders")?; // a typo is found here, not at the call
//! let reports = bulkhead.class("reports")?;
//!
//! let first = reports.enter()?;
//! let _second = reports.enter()?;
//! assert_eq!(reports.enter().unwrap_err().cause, Cause::NoPlace); // two are kept for orders
//! let _order = orders.acquire().blocking()?; // or `.await`
//! drop(first); // however the work ends
//! assert!(reports.enter().is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who gets a place
//!
//! A caller is let in if its class uses less than its `max`, and either uses less than its reserve or a
//! place is left that is neither in use nor reserved. A free place goes to the most important class that
//! may take it and has somebody in line; among equals, to who came first. Within a class it is first in,
//! first out, and nobody passes the line. A class that others can keep out for long needs a reserve: it
//! is what cannot be taken from it.
//!
//! Whoever holds a place and waits for another can wait for itself. Hold one at a time, or ask for the
//! second with [`Entrance::enter`], which never waits.
#![cfg_attr(
    feature = "sqlx",
    doc = "
# Databases

[`LimitedPool`] puts a bulkhead before a pool of sqlx: statements in flight per class."
)]

mod builder;
mod bulkhead;
mod class;
mod error;
mod in_line;
mod line;
mod lines;
mod place;
mod places;
mod refusal;
#[cfg(feature = "sqlx")]
mod sqlx;
mod status;

pub use builder::Builder;
pub use bulkhead::{Bulkhead, Entrance};
pub use class::Class;
pub use error::{BulkheadError, UnknownClass};
pub use in_line::InLine;
pub use place::{Held, Place};
pub use refusal::{Cause, Refusal};
pub use status::{ClassStatus, Counts, Status};

#[cfg(feature = "sqlx")]
pub use self::sqlx::{
    ByStatement, LimitedClass, LimitedConnection, LimitedPool, LimitedTransaction, StatementKind, TooManyPlaces,
    refusal,
};

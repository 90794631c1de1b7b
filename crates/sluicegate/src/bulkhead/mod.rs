//! Bulkheads: divide the capacity of a pool among classes of work, so that no class starves the others.
//!
//! A plain pool serves callers in order of arrival: a burst of reports takes all connections, and orders wait. A
//! [`Bulkhead`] limits the access to the pool. Each [`Class`] of work has a maximum number of permits, a reserve that
//! no other class can use, and its own queue with a timeout. A bulkhead does not need a pool: it can divide threads,
//! memory or calls to another service as well.
//!
//! ```
//! use std::time::Duration;
//! use sluicegate::bulkhead::{Bulkhead, BulkheadCause, Class};
//!
//! let bulkhead = Bulkhead::builder(4)
//!     .class("orders", Class::new().reserve(2).wait(Duration::from_millis(500)))
//!     .class("reports", Class::new().max(3).wait(Duration::ZERO))
//!     .build()?;
//! let orders = bulkhead.class("orders")?; // an unknown name is an error here, not on use
//! let reports = bulkhead.class("reports")?;
//!
//! let first = reports.try_acquire()?;
//! let _second = reports.try_acquire()?;
//! assert_eq!(reports.try_acquire().unwrap_err().cause, BulkheadCause::NoPermit); // two are reserved for orders
//! let _order = orders.acquire().blocking()?; // or `.await`
//! drop(first); // also by a panic or a cancelled task
//! assert!(reports.try_acquire().is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Admission
//!
//! A caller gets a permit if its class uses fewer than its `max`, and either uses fewer than its reserve or a permit
//! is free that is neither in use nor reserved. A free permit goes to the waiting class with the highest importance
//! that may use it; among equals, to the caller that arrived first. Within a class the queue is first in, first out.
//! A class that other classes could block for long needs a reserve.
//!
//! A caller that holds a permit and waits for another one can deadlock. Hold one permit at a time, or acquire the
//! second with [`ClassHandle::try_acquire`], which never waits.
#![cfg_attr(
    feature = "sqlx",
    doc = "
# Databases

[`LimitedPool`] is an sqlx pool with a bulkhead: it limits the statements in flight per class."
)]

mod acquire;
mod builder;
mod capacity;
mod class;
mod class_queue;
mod error;
mod handle;
mod permit;
mod queues;
mod refusal;
#[cfg(feature = "sqlx")]
mod sqlx;
mod status;

pub use acquire::AcquirePermit;
pub use builder::BulkheadBuilder;
pub use class::Class;
pub use error::{BulkheadError, UnknownClass};
pub use handle::{Bulkhead, ClassHandle};
pub use permit::{BulkheadPermit, Guarded};
pub use refusal::{BulkheadCause, BulkheadRefusal};
pub use status::{BulkheadStatus, ClassCounts, ClassStatus};

#[cfg(feature = "sqlx")]
pub use self::sqlx::{
    CapacityError, ClassPool, LimitedConnection, LimitedPool, LimitedTransaction, StatementKind, StatementPool, refusal,
};

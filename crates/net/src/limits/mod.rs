//! Limits on connections and requests of a server. No I/O.
//!
//! - `limiter`, `per_client`: connection permits and their queue, counts per client
//! - `in_flight`, `guarded_body`: limit on requests in flight as a tower layer, body that holds its permit
//! - `counters`, `handle`: counters, and [`ListenerHandle`] that reads them

mod counters;
mod guarded_body;
mod handle;
mod in_flight;
mod limiter;
mod per_client;

pub use counters::RejectedConnections;
pub(crate) use counters::{RejectReason, increment};
pub use guarded_body::GuardedBody;
pub use handle::{ListenerCounts, ListenerHandle};
pub use in_flight::{InFlightFuture, InFlightLimit, InFlightService};
pub(crate) use limiter::{ConnectionAdmission, ConnectionLimiter, ConnectionPermit, ConnectionQueue};
pub(crate) use per_client::PerClientLimit;

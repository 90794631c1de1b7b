//! One connection, from its first byte to its last.
//!
//! - `admitted`, `parked`, `socket`: connection with its permit, parked idle connection, sockets
//! - `hyper_driver`: [`ConnectionServer`] serves HTTP on one connection with hyper
//! - `activity`, `track_activity`, `tracked_body`, `connection_timer`: what hyper is doing on a connection, and its
//!   timeouts
//! - `prefixed_io`, `coalesce`: replay of bytes already read, write coalescing
//!
//! Shared by the hyper driver, the gateway's HTTP/1 connection and the decision server's RESP connection, as far as
//! each needs it:
//!
//! - `first_bytes`: protocol detection
//! - `shutdown_signal`: shutdown notification
//! - `linger`: lingering close

mod activity;
mod admitted;
mod coalesce;
mod connection_timer;
mod first_bytes;
mod hyper_driver;
mod linger;
mod parked;
mod prefixed_io;
mod shutdown_signal;
mod socket;
mod track_activity;
mod tracked_body;

pub use admitted::Connection;
pub use coalesce::write_coalesced;
pub use first_bytes::FirstBytes;
pub(crate) use hyper_driver::HttpLimits;
pub use hyper_driver::{AcceptedIo, AsConnection, ConnectionServer, ParkedGuard};
pub use linger::LingeringClose;
pub use parked::ParkedSocket;
pub use shutdown_signal::{ShutdownSignal, shutdown_changed};
pub(crate) use socket::{AsyncSocket, UNIX_PEER};

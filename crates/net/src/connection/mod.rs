//! One connection, from its first byte to its last.
//!
//! - `admitted`, `parked`, `socket`: connection with its permit, parked idle connection, sockets
//! - `hyper_driver`: [`ConnectionServer`] serves HTTP on one connection with hyper
//! - `activity`, `track_activity`, `tracked_body`, `connection_timer`: what hyper is doing on a connection, and its
//!   timeouts
//! - `prefixed_io`, `coalesce`: replay of bytes already read, write coalescing

mod activity;
mod admitted;
mod coalesce;
mod connection_timer;
mod hyper_driver;
mod parked;
mod prefixed_io;
mod socket;
mod track_activity;
mod tracked_body;

pub use admitted::Connection;
pub use coalesce::write_coalesced;
pub(crate) use hyper_driver::HttpLimits;
pub use hyper_driver::{AcceptedIo, AsConnection, ConnectionServer, ParkedGuard};
pub use parked::ParkedSocket;
pub(crate) use socket::{AsyncSocket, UNIX_PEER};

//! Limited listener for servers: connection limits, an accept queue and graceful shutdown. Everything over a limit is
//! rejected cleanly and counted.
//!
//! - `builder`, `connection_limits`, `error`: configuration, limits shared by several listeners, errors
//! - `limited_listener`, `socket`: [`LimitedListener`], accepts connections from the kernel
//! - `fd_limit`: open-file limit of the process
//! - `reject`: 503 responses to rejected connections
//! - `serve`, `peer`: accept loop with graceful shutdown, peer address of a request
//! - `axum`: listener for `axum::serve` (feature `axum`)
//!
//! A connection is accepted from the kernel, counted for its client, and then admitted, queued or rejected. An
//! admitted connection holds its permit until it closes, for any reason.

#[cfg(feature = "axum")]
mod axum;
mod builder;
mod connection_limits;
mod error;
mod fd_limit;
mod limited_listener;
mod peer;
mod reject;
mod serve;
mod socket;

pub use builder::ListenerBuilder;
pub use connection_limits::ConnectionLimits;
pub use error::ListenerError;
pub use limited_listener::LimitedListener;
pub use peer::Peer;
pub use reject::RejectMode;
pub use serve::{Serve, ServeFuture, ShutdownReport};

//! Limited listener for servers: connection limits, an accept queue, slow-client timeouts, and a hyper
//! connection driver. Everything over a limit is rejected cleanly and counted. Sockets, TLS and restarts are in
//! `sluicegate-net`.
//!
//! | setting | limits | over the limit |
//! |---|---|---|
//! | [`max_connections`](ListenerBuilder::max_connections) | connections served at once | wait in the queue |
//! | [`queue`](ListenerBuilder::queue), [`queue_timeout`](ListenerBuilder::queue_timeout) | queued connections and their wait | rejected |
//! | [`per_client`](ListenerBuilder::per_client) | connections of one client, served or queued | rejected |
//! | [`in_flight`](ListenerBuilder::in_flight) | requests in flight, over all connections | wait in their connection |
//! | [`header_timeout`](ListenerBuilder::header_timeout), [`keep_alive`](ListenerBuilder::keep_alive) | time for a request head, time between requests | closed |
//!
//! Modules:
//!
//! - `builder`, `connection_limits`, `error`: configuration, limits shared by several listeners, errors
//! - `listener`: [`LimitedListener`], accepts connections from the kernel
//! - `limiter`, `per_client`, `fd_limit`: connection permits and queue, counts per client, open-file limit
//! - `reject`: 503 responses to rejected connections
//! - `connection`, `parked`, `socket`, `peer`: admitted connection, parked idle connection, sockets, peer
//!   address
//! - `serve`: accept loop with graceful shutdown
//! - `serve_connection`: hyper driver of one connection
//! - `activity`, `timeouts`, `track_activity`, `tracked_body`: activity tracking and timeouts of one connection
//! - `in_flight`, `guarded_body`: in-flight request limit, body that holds its permit
//! - `prefixed_io`, `coalesce`: replay of bytes already read, write coalescing
//! - `counts`: counters and [`ListenerHandle`]
//! - `axum`: listener for `axum::serve` (feature `axum`)
//!
//! A connection is accepted from the kernel, counted for its client, and then admitted, queued or rejected. An
//! admitted connection holds its permit until it closes, for any reason.
//!
//! There are two ways to serve. [`LimitedListener::serve`] takes any tower service and applies all settings. As
//! a listener for `axum::serve` (feature `axum`), it limits connections; axum handles everything inside them.
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use hyper::body::Incoming;
//! use sluicegate_listener::LimitedListener;
//! use tower::service_fn;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = LimitedListener::builder().max_connections(100).queue(20).in_flight(8).bind("127.0.0.1:0").await?;
//! let handle = listener.handle(); // reads the counters while the listener serves
//!
//! let hello = service_fn(|_: Request<Incoming>| async { Ok::<_, Infallible>(Response::new(String::from("hello"))) });
//! let report = listener.serve(hello).with_graceful_shutdown(async {}).await; // shuts down at once
//! assert_eq!((report.finished, report.aborted), (0, 0));
//! assert_eq!(handle.counts().rejected.total(), 0);
//! # Ok(())
//! # }
//! ```

mod activity;
#[cfg(feature = "axum")]
mod axum;
mod builder;
mod coalesce;
mod connection;
mod connection_limits;
mod counts;
mod error;
mod fd_limit;
mod guarded_body;
mod in_flight;
mod limiter;
mod listener;
mod parked;
mod peer;
mod per_client;
mod prefixed_io;
mod reject;
mod serve;
mod serve_connection;
mod socket;
mod timeouts;
mod track_activity;
mod tracked_body;

pub use builder::ListenerBuilder;
pub use coalesce::write_coalesced;
pub use connection::Connection;
pub use connection_limits::ConnectionLimits;
pub use counts::{ListenerCounts, ListenerHandle, RejectedConnections};
pub use error::ListenerError;
pub use guarded_body::GuardedBody;
pub use in_flight::{InFlightFuture, InFlightLimit, InFlightService};
pub use listener::LimitedListener;
pub use parked::ParkedSocket;
pub use peer::Peer;
pub use reject::RejectMode;
pub use serve::{Serve, ServeFuture, ShutdownReport};
pub use serve_connection::{AcceptedIo, AsConnection, ConnectionServer, ParkedGuard};
pub use timeouts::{TimeoutKind, Timeouts};

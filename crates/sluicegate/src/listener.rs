//! Limited listener for hyper and axum servers: connection limits, an accept queue, an in-flight limit and slow-client
//! timeouts. Everything over a limit is rejected cleanly and counted.
//!
//! | setting | limits | over the limit |
//! |---|---|---|
//! | [`max_connections`](ListenerBuilder::max_connections) | connections served at once | wait in the queue |
//! | [`queue`](ListenerBuilder::queue), [`queue_timeout`](ListenerBuilder::queue_timeout) | queued connections and their wait | rejected |
//! | [`per_client`](ListenerBuilder::per_client) | connections of one client, served or queued | rejected |
//! | [`in_flight`](ListenerBuilder::in_flight) | requests in flight, over all connections | wait in their connection |
//! | [`header_timeout`](ListenerBuilder::header_timeout), [`keep_alive`](ListenerBuilder::keep_alive) | time for a request head, time between requests | closed |
//!
//! A connection is accepted from the kernel, counted for its client, and then admitted, queued or rejected. An
//! admitted connection holds its permit until it closes, for any reason.
//!
//! There are two ways to serve. [`LimitedListener::serve`] takes any tower service and applies all settings. As
//! a listener for `axum::serve` (feature `axum`), it limits connections; axum handles everything inside them.
//!
//! ```
//! use axum::{Router, routing::get};
//! use sluicegate::listener::LimitedListener;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = LimitedListener::builder().max_connections(100).queue(20).in_flight(8).bind("127.0.0.1:0").await?;
//! let handle = listener.handle(); // reads the counters while the listener serves
//!
//! let app = Router::new().route("/", get(|| async { "hello" }));
//! let report = listener.serve(app).with_graceful_shutdown(async {}).await; // shuts down at once
//! assert_eq!((report.finished, report.aborted), (0, 0));
//! assert_eq!(handle.counts().rejected.total(), 0);
//! # Ok(())
//! # }
//! ```

pub use sluicegate_net::{
    AcceptedIo, AsConnection, Connection, ConnectionLimits, ConnectionServer, GuardedBody, InFlightFuture,
    InFlightLimit, InFlightService, LimitedListener, ListenerBuilder, ListenerCounts, ListenerError, ListenerHandle,
    ParkedGuard, ParkedSocket, Peer, RejectMode, RejectedConnections, Serve, ServeFuture, ShutdownReport, TimeoutKind,
    Timeouts, write_coalesced,
};

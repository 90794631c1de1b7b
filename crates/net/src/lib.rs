//! Sockets and connections of every Sluicegate server: listeners with limits, the connection driver, TLS, PROXY
//! protocol, worker threads and zero-downtime restart. It knows no rules: what a request may do is decided above.
//!
//! | module | contents |
//! |---|---|
//! | `lazy_timer`, `timeouts` | timer for deadlines that are rarely reached, timeouts of a client connection |
//! | `limits` | connection permits and their queue, connections per client, requests in flight, counters |
//! | `connection` | one connection: socket with its permit, parking, activity and timers, hyper driver |
//! | `listener` | [`LimitedListener`]: accept queue, rejection, accept loop, graceful shutdown |
//! | `tls`, `proxy_protocol`, `acceptor` | reloadable certificates, parser of PROXY headers, [`Acceptor`] that passes a connection through both |
//! | `process` | [`Process`]: opens listening sockets, inherits them, passes them to its successor |
//! | `worker` | [`WorkerThreads`], [`serve_until`], busy polling |
//!
//! Each module uses only modules above it. From `tls` on they belong to the feature `server`; without it, this crate
//! is the limited listener that the `sluicegate` library offers. The engine lends its clock and its concurrency
//! [`Limiter`](sluicegate_engine::Limiter).
//!
//! A connection arrives at a [`Socket`], is admitted by a [`LimitedListener`], accepted by [`serve_until`], passes its
//! [`Acceptor`], and is then served: by [`ConnectionServer`] with hyper, or by a protocol of the server that spawned
//! its task.
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use hyper::body::Incoming;
//! use sluicegate_net::LimitedListener;
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

#[cfg(feature = "server")]
mod acceptor;
mod connection;
mod lazy_timer;
mod limits;
mod listener;
#[cfg(feature = "server")]
mod process;
#[cfg(feature = "server")]
mod proxy_protocol;
mod timeouts;
#[cfg(feature = "server")]
mod tls;
#[cfg(feature = "server")]
mod worker;

#[cfg(test)]
mod tests;

#[cfg(feature = "server")]
pub use acceptor::{AcceptError, Accepted, Acceptor, AcceptorError};
#[cfg(feature = "server")]
pub use acceptor::{OperatorLog, reload_certificates, watch_certificates};
pub use connection::{AcceptedIo, AsConnection, Connection, ConnectionServer, ParkedGuard, ParkedSocket};
pub use connection::{FirstBytes, LingeringClose, ShutdownSignal, shutdown_changed, write_coalesced};
pub use lazy_timer::LazyTimer;
pub use limits::{GuardedBody, InFlightFuture, InFlightLimit, InFlightService};
pub use limits::{ListenerCounts, ListenerHandle, RejectedConnections};
pub use listener::{ConnectionLimits, LimitedListener, ListenerBuilder, ListenerError, Peer, RejectMode};
pub use listener::{Serve, ServeFuture, ShutdownReport};
#[cfg(feature = "server")]
pub use process::{InheritedError, ListenError, Process, ProcessError, Socket, Sockets};
#[cfg(feature = "server")]
pub use process::{PrivateDir, RestartError, ServiceNotice};
#[cfg(feature = "server")]
pub use proxy_protocol::ProxyProtocolError;
pub use timeouts::{ReadPhase, TimeoutKind, Timeouts};
#[cfg(feature = "server")]
pub use tls::{CertReload, CertificateError, MaybeTlsStream, TlsError, TlsFiles};
#[cfg(feature = "server")]
pub use worker::{ConnectionTasks, DrainReport, IdleStrategy, Shutdown, WorkerThreads};
#[cfg(feature = "server")]
pub use worker::{assign_sockets, default_threads, serve_until};

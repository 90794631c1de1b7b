//! Listening sockets, TLS and PROXY protocol acceptors, and zero-downtime restart for every Sluicegate server.
//!
//! This crate owns sockets and worker threads. Connection limits, accept queues and slow-client timeouts are in
//! `sluicegate-listener`.
//!
//! - `acceptor`: [`Acceptor`] reads the PROXY protocol header and does the TLS handshake; it returns a
//!   [`MaybeTlsStream`].
//! - `busy_poll`: busy-polls for new work before a worker thread blocks.
//! - `cert_reload`: watches and reloads certificates while they are in use.
//! - `inherited`: listening sockets passed by systemd or by the previous process (`LISTEN_FDS`).
//! - `process`: [`Process`] opens the sockets, receives inherited ones, and starts its successor on restart.
//! - `proxy_protocol`: parser for PROXY protocol versions 1 and 2.
//! - `restart`: socket hand-over to a new process, and `sd_notify` messages.
//! - `runtime`: worker threads, each with a single-threaded runtime.
//! - `serve`: [`serve_until`] accepts connections on one thread and drains them on [`Shutdown`].
//! - `sockets`: opens TCP (`SO_REUSEPORT`) and Unix listening sockets.
//! - `stream`: a connection with or without TLS.
//! - `tls`: TLS server configuration with a reloadable certificate.
//!
//! A connection arrives at a [`Socket`], is accepted by [`serve_until`], passes its [`Acceptor`], and is then
//! served by the HTTP server that spawned it.

mod acceptor;
mod busy_poll;
mod cert_reload;
mod inherited;
mod process;
mod proxy_protocol;
mod restart;
mod runtime;
mod serve;
mod sockets;
mod stream;
mod tls;

#[cfg(test)]
mod tests;

pub use acceptor::{AcceptError, Accepted, Acceptor, AcceptorError};
pub use cert_reload::{OperatorLog, reload_certificates, watch_certificates};
pub use inherited::InheritedError;
pub use process::{Process, ProcessError};
pub use proxy_protocol::ProxyProtocolError;
pub use restart::{PrivateDir, RestartError, ServiceNotice};
pub use runtime::{IdleStrategy, WorkerThreads, assign_sockets, default_threads};
pub use serve::{ConnectionTasks, DrainReport, Shutdown, serve_until};
pub use sockets::{ListenError, Socket, Sockets};
pub use stream::MaybeTlsStream;
pub use tls::{CertReload, CertificateError, TlsError};

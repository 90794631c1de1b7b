//! Client connections over HTTP/1.
//!
//! ```text
//!  acceptor ──> preface ──> HTTP/2, served by hyper
//!                   │
//!                   v           head ──> proxy ──> response
//!   parked <────> serving:       ^                    │
//!                                └────────────────────┘
//! ```
//! A connection is a single task: it reads the head, runs the request [pipeline](crate::proxy), drives the
//! upstream connection meanwhile, and writes the response. A response that arrives in one piece costs one
//! wake-up, one read and one write on each side. A connection that has been idle for a while frees its buffers;
//! without TLS it is parked in the worker's [`IdlePool`](crate::idle_pool::IdlePool) and has no task either.
//!
//! hyper is used for HTTP/2 only. Its HTTP/1 connections talk to a service through channels, have a task or
//! driver of their own, and hold several kilobytes each. With hyper in place of this loop, the gateway served
//! 0.72 times as many proxied and 0.68 times as many refused requests relative to nginx, and 0.75 and 0.71
//! times with a window rule and an access log (`sluicegate-bench gateway`, November 2026).

mod connection;
mod date;
mod http2;
mod resume;
mod timeouts;
mod write_response;

pub(crate) use connection::Http1Connection;
pub(crate) use resume::watch_parked;

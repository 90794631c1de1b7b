//! Reverse proxy with rate limiting and overload protection, in front of any HTTP server.
//!
//! [`Gateway::open`] binds sockets and reports all configuration errors; [`Gateway::start`] serves on worker
//! threads and returns a [`GatewayHandle`].
//!
//! # Path of a request
//!
//! ```text
//!  listener ──> acceptor (TLS, PROXY protocol)                       sluicegate-net
//!                   │
//!  serve ───────────┴──> downstream::Http1Connection ──┐             one task per HTTP/1 connection
//!                   └──> downstream::Http2Service ─────┤             HTTP/2, served by hyper
//!                                                      v
//!  proxy::decide     head::check ──> route::Router ──> Sluice        fast path, or an Admission
//!                                                      │
//!  proxy::respond    refuse, degrade, redirect <───────┤
//!                    wait for an in-flight permit <────┘
//!                         │
//!  proxy::forward    rewrite headers (head) ──> pool::UpstreamPool ──> upstream::Upstream::pick ──> server
//!                         │
//!  response::ResponseBody <┘ holds the ResponseGuard (permits, actual cost, access record) to the end of the body
//!                         │
//!  downstream::write_response ──> client
//! ```
//!
//! # Modules
//!
//! Lifecycle and state:
//!
//! - `gateway`: [`Gateway`], [`GatewayHandle`] and [`GatewayMonitor`]: open, start, statistics, shutdown.
//! - `serve`: accept path of a worker thread.
//! - `worker`: state of a worker thread: counters, log writer, upstream pools.
//! - `context`: `GatewayContext`, shared by all workers; route targets.
//! - `counters`: request counters per worker.
//! - `idle_pool`: parking of idle connections.
//! - `affinity`: migration of connections to the worker on their client's CPU.
//!
//! Client side:
//!
//! - `downstream`: HTTP/1 server connections: request loop, response writer, timeouts; the HTTP/2
//!   service.
//! - `client_io`: I/O of a client connection, including the body of the current request.
//! - `client_context`: per-connection context of the requests.
//! - `identity`: client IP and attribute sources, from the settings.
//!
//! Request path:
//!
//! - `proxy`: the request pipeline: decide and forward.
//! - `head`: request head checks, header scan, hop-by-hop and `X-Forwarded-*` headers, cookies.
//! - `route`, `route_targets`: router by host, method and path; targets of the routes.
//! - `request_body`: request bodies on their way to an upstream, with timeouts.
//! - `response`: responses on their way to the client: bodies with accounting and guards, tunnels.
//! - `access_record`: access-log record of one request.
//! - `error`: `ProxyError`: failures of the proxy and their responses.
//! - `demo`: the built-in demo upstream.
//!
//! Upstream side:
//!
//! - `pool`: upstream connection pool of one worker: HTTP/1 and HTTP/2 connections, retries, response deadline.
//! - `upstream`: upstreams and servers: load balancing, outlier ejection, health checks, connection limits,
//!   TLS.
//!
//! Support:
//!
//! - `log`: access log and request IDs.
//! - `buffered_io`: buffered reads and vectored writes on one connection.
//! - `yield_once`: cooperative yield before a write.

mod access_record;
mod affinity;
mod buffered_io;
mod client_context;
mod client_io;
mod context;
mod counters;
mod demo;
mod downstream;
mod error;
mod gateway;
mod head;
mod identity;
mod idle_pool;
mod log;
mod pool;
mod proxy;
mod request_body;
mod response;
mod route;
mod route_targets;
mod serve;
mod upstream;
mod worker;
mod yield_once;

pub use gateway::{Gateway, GatewayError, GatewayHandle, GatewayMonitor};
pub use identity::IdentityError;
pub use log::LogError;
pub use route::RouteError;
pub use route_targets::UnknownUpstream;
pub use upstream::{Health, ServerStatus, UpstreamError, UpstreamStatus};

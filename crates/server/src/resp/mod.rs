//! Redis protocol (RESP2 and RESP3): decisions for any Redis client.
//!
//! | command | decides |
//! |---|---|
//! | `CL.THROTTLE key max_burst count period [quantity]` | by its arguments, as redis-cell does |
//! | `THROTTLE key max_burst count period [quantity]` | the same, with replies as in throttlecrab |
//! | `SLUICE.CHECK rule [COST n] [name value ...]` | by a rule of the rule file |
//! | `SLUICE.PEEK rule [COST n] [name value ...]` | the same, consuming nothing |
//!
//! Commands that clients send to identify the server get the same replies as from Redis: `HELLO`, `AUTH`, `CLIENT`,
//! `COMMAND`, `INFO` and the like.
//!
//! A connection is one loop: read input, run every complete command, send all replies together. If a client does
//! not read its replies, reading from it stops at [`connection::MAX_UNSENT_BYTES`] unsent bytes, and it is
//! disconnected after a timeout. The same applies to a client that does not complete a command. Other connections
//! are not affected.

mod check;
mod client;
mod command;
mod command_docs;
mod connection;
mod hello;
mod info;
mod inline;
mod parse;
mod reply;
mod session;
mod throttle;
mod transaction;

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_engine::adhoc::AdHoc;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::{Sluice, Timestamp};
use sluicegate_net::{ShutdownSignal, shutdown_changed};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::Secret;
use connection::RespConnection;

/// The Redis version that the server reports.
const REDIS_VERSION: &str = "7.2.0";

/// The RESP service: serves connections that speak the Redis protocol.
pub(crate) struct Resp {
    sluice: Sluice,
    adhoc: Arc<AdHoc>,
    secret: Option<Secret>,
    limits: RespLimits,
    clock: ClockHandle,
    started: Timestamp,
    /// Number of connections so far; gives each its id.
    connections: AtomicI64,
    /// Number of commands handled.
    calls: AtomicU64,
}

/// Size and time limits of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RespLimits {
    /// Maximum number of bytes of a command, and of all commands queued for `EXEC`.
    pub(crate) max_request_size: usize,
    /// Maximum time from the first to the last byte of a command.
    pub(crate) command_timeout: Duration,
    /// Maximum idle time.
    pub(crate) idle_timeout: Duration,
}

impl Resp {
    /// Creates a service that decides by these rules and ad-hoc limits. With a secret, clients must authenticate
    /// first; clients that exceed the limits are disconnected.
    pub(crate) fn new(
        sluice: Sluice,
        adhoc: Arc<AdHoc>,
        secret: Option<Secret>,
        limits: RespLimits,
        clock: ClockHandle,
    ) -> Self {
        let (started, connections, calls) = (clock.now(), AtomicI64::new(0), AtomicU64::new(0));
        Self { sluice, adhoc, secret, limits, clock, started, connections, calls }
    }

    /// Number of commands handled so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Serves one client until it disconnects, quits, violates the protocol, or exceeds a timeout. After `closing`
    /// changes or its sender is dropped, commands already read still get replies.
    pub(crate) async fn serve<I>(&self, io: I, closing: watch::Receiver<()>)
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let id = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let changed = pin!(shutdown_changed(closing.clone()));
        RespConnection::new(self, io, id, closing, ShutdownSignal::new(changed)).run().await;
    }
}

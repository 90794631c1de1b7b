//! Decisions over the Redis protocol, versions 2 and 3: any Redis client is a client of ours.
//!
//! | command | decides |
//! |---|---|
//! | `CL.THROTTLE key max_burst count period [quantity]` | by the numbers it brings, as redis-cell does |
//! | `THROTTLE key max_burst count period [quantity]` | the same, answered as throttlecrab does |
//! | `SLUICE.CHECK rule [COST n] [name value ...]` | by a rule of the rule file |
//! | `SLUICE.PEEK rule [COST n] [name value ...]` | the same, taking nothing |
//!
//! Everything else that clients send to find out whom they talk to is answered as Redis would: `HELLO`, `AUTH`,
//! `CLIENT`, `COMMAND`, `INFO` and the like.
//!
//! A connection is one loop: read what is there, answer every complete command of it, send all answers at once.
//! A client that does not read its replies is not read from any more once [`connection::MOST_UNSENT`] of them wait,
//! and is let go if it does not take any for a while; so is who does not end the command that it began: it costs nobody
//! but itself.

mod about;
mod check;
mod client;
mod command;
mod connection;
mod describe;
mod hello;
mod inline;
mod parse;
mod reply;
mod session;
mod throttle;
mod transaction;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_engine::adhoc::AdHoc;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::{Sluice, Timestamp};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::Secret;
use connection::Connection;

/// The version of Redis whose manners it has.
const REDIS_VERSION: &str = "7.2.0";

/// Answers connections that speak the Redis protocol.
pub(crate) struct Resp {
    sluice: Sluice,
    adhoc: Arc<AdHoc>,
    secret: Option<Secret>,
    bounds: Bounds,
    clock: ClockHandle,
    started: Timestamp,
    /// How many connections there were: each has a number.
    connections: AtomicI64,
    /// Commands that were answered.
    calls: AtomicU64,
}

/// How much of a client is waited for, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most bytes of a command, and of those that wait for `EXEC`.
    pub(crate) max_request: usize,
    /// How long a command may take to come, from its first byte to its last.
    pub(crate) whole_command: Duration,
    /// How long nothing may be said.
    pub(crate) idle: Duration,
}

impl Resp {
    /// Decides by these rules and ad-hoc limits. With a secret, clients must show it first; those who go beyond the
    /// bounds are let go.
    pub(crate) fn new(
        sluice: Sluice,
        adhoc: Arc<AdHoc>,
        secret: Option<Secret>,
        bounds: Bounds,
        clock: ClockHandle,
    ) -> Self {
        let (started, connections, calls) = (clock.now(), AtomicI64::new(0), AtomicU64::new(0));
        Self { sluice, adhoc, secret, bounds, clock, started, connections, calls }
    }

    /// Commands that were answered so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Answers one client until it goes, quits, sends what is no command or only half of one, or is idle for too long. Once `closing`
    /// has changed, or nobody can change it any more, the commands that have been read are still answered.
    pub(crate) async fn serve<I>(&self, io: I, closing: watch::Receiver<()>)
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let id = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Connection::new(self, io, id, closing).run().await;
    }
}

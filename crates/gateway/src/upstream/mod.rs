//! The programs behind the gateway, and which of their servers gets a request.
//!
//! # A request's way
//!
//! ```text
//! Upstreams::get ─> Upstream::pick ─> Attempt ─> Server: a pooled connection, or room and connect
//!                        ^                │
//!                        └── Tried <──────┤ failed: another server, where that is safe
//!                                         └ answered: the server is there
//! ```
//!
//! An [`Attempt`] is counted as in flight until it is dropped, which must be when the answer's body has ended.
//!
//! # Who is picked
//!
//! - Round robin gives each server its turn; least in flight gives the request to who has the fewest, and to
//!   each in turn where several have. Who is not to be had is not counted, so its neighbour gets no double share.
//! - **Rest**: three failures in a row, and a server gets nothing for a second; then one request at a time tries
//!   it; each time that fails the rest is twice as long, up to 30 s. Any answer ends it. A failure is a
//!   connection that could not be made or was reset, or a time that ran out: a status of 500 is an answer.
//!   Requests that were under way when the rest began change nothing of it.
//! - If all that are left rest, the one whose rest ends first is tried: a guess about servers must not turn a
//!   blip into an outage.
//! - **Health checks**, where there are some, are no guess: whoever they take out gets nothing, even if nobody is
//!   left. A server is well until they found otherwise, and begins anew when they let it in again. They ask
//!   for their path below the server's base path, as requests do, all at the start and then spread over time.
//!
//! # What holds for connections
//!
//! Names are looked up for each new connection, so changes are followed; every address of a name is tried. A
//! bound on connections counts those of all threads: who needs one waits in line for [`Room`], and connections
//! that lie idle make way. Health checks use connections of their own, beside that bound.

mod address;
mod attempt;
mod balance;
mod check;
mod connect;
mod error;
mod rest;
mod room;
mod server;
mod status;
#[cfg(test)]
mod tests;
mod tls;
mod watched;

use std::path::Path;
use std::sync::Arc;

use sluicegate_config::settings;
use sluicegate_engine::clock::ClockHandle;
use tokio::task::JoinSet;

pub(crate) use attempt::{Attempt, Tried};
pub(crate) use balance::Upstream;
use check::Checker;
pub use error::UpstreamError;
pub(crate) use room::Room;
pub(crate) use server::Server;
pub use status::{Health, ServerStatus, UpstreamStatus};
use tls::Authorities;

/// All programs behind the gateway, shared by all threads.
pub(crate) struct Upstreams {
    upstreams: Vec<Arc<Upstream>>,
    clock: ClockHandle,
}

impl Upstreams {
    /// Makes them of what the rule file says. `base` is the folder that relative names of files are looked up
    /// from. Connects to nobody yet.
    pub(crate) fn new(
        upstreams: &[settings::Upstream],
        base: &Path,
        clock: &ClockHandle,
    ) -> Result<Self, UpstreamError> {
        let mut authorities = Authorities::new(base);
        let made = upstreams.iter().map(|it| Upstream::new(it, &mut authorities, clock).map(Arc::new));
        let these = Self { upstreams: made.collect::<Result<_, _>>()?, clock: clock.clone() };
        // What cannot be asked is found now, not when it is too late to say so.
        these.checkers()?;
        Ok(these)
    }

    /// The position of the upstream of this name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.upstreams.iter().position(|upstream| upstream.settings().name == name)
    }

    /// The upstream at this position.
    ///
    /// # Panics
    /// If there is none: positions come from [`position`](Self::position).
    pub(crate) fn get(&self, position: usize) -> &Arc<Upstream> {
        &self.upstreams[position]
    }

    /// All of them, by their positions.
    pub(crate) fn all(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// Asks servers whether they are well, for ever. To be run once; dropping the future stops it.
    pub(crate) async fn watch_health(&self) {
        let checkers = self.checkers().unwrap_or_default();
        let all = u32::try_from(checkers.len()).unwrap_or(u32::MAX);
        let mut watch = JoinSet::new();
        for (checker, nth) in checkers.into_iter().zip(1..=all) {
            let lag = checker.every() / all * nth;
            watch.spawn(checker.run(lag));
        }
        while watch.join_next().await.is_some() {}
        std::future::pending::<()>().await;
    }

    /// How all fare, for operators.
    pub(crate) fn status(&self) -> Vec<UpstreamStatus> {
        self.upstreams.iter().map(|upstream| upstream.status()).collect()
    }

    fn checkers(&self) -> Result<Vec<Checker>, UpstreamError> {
        let mut checkers = Vec::new();
        for upstream in &self.upstreams {
            let Some(check) = &upstream.settings().health else { continue };
            for server in upstream.servers() {
                checkers.push(Checker::new(upstream, check, server, &self.clock)?);
            }
        }
        Ok(checkers)
    }
}

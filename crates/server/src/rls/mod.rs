//! Envoy's rate limit service, over gRPC as Envoy asks it.
//!
//! A call's life in here:
//! 1. [`call`] takes it off the connection; [`grpc`] receives its message.
//! 2. [`question`] reads the request, or says what is wrong with it.
//! 3. [`case`] makes a [`claim`] for each descriptor and asks about all of them: a limit that the descriptor
//!    brings along, else one of the reference's files if the domain is theirs, else the rules of the rule file.
//! 4. [`answer`] puts together how each of them fared ([`standing`]), what the client is told ([`headers`]) and
//!    what later filters can know ([`metadata`]).
//! 5. Is one refused, what the others took goes back. Is the request to pause, as leaky buckets want it, the
//!    answer is held for so long; a client that will not wait for it is refused at once.
//! 6. Hits that come back do so last, as that cannot be undone.
//! 7. What no rule counts is counted in the [`tally`].
//!
//! Permits of concurrency limits cannot be held over this protocol, as nobody says when a request ends.

mod answer;
mod bad_request;
mod beside;
mod call;
mod case;
mod claim;
mod decide;
mod descriptor;
mod grpc;
mod headers;
mod json;
mod limit;
mod metadata;
mod proto;
mod question;
mod standing;
mod tally;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::domains::DomainsInForce;
use sluicegate_engine::Sluice;
use sluicegate_engine::adhoc::AdHoc;
use sluicegate_http::{HeaderStyle, Renderer};

use crate::Secret;
use beside::Beside;
pub use tally::LimitCounts;
use tally::Tally;

/// Envoy's rate limit service. Clones are the same service: one for each connection.
#[derive(Clone)]
pub(crate) struct Rls(Arc<Shared>);

/// What the service goes by.
pub(crate) struct Terms {
    /// The reference's files, if there are any.
    pub(crate) domains: DomainsInForce,
    /// What clients must show.
    pub(crate) secret: Option<Secret>,
    /// How clients are told what is left to them.
    pub(crate) style: HeaderStyle,
    /// The longest message, in bytes.
    pub(crate) max_request: usize,
    /// The longest between two parts of a message.
    pub(crate) pause: Duration,
    /// The most descriptors of one request.
    pub(crate) max_checks: usize,
}

/// What all connections share.
pub(crate) struct Shared {
    sluice: Sluice,
    /// Limits that come with the descriptors.
    windows: Arc<AdHoc>,
    domains: DomainsInForce,
    renderer: Renderer,
    secret: Option<Secret>,
    max_request: usize,
    pause: Duration,
    max_checks: usize,
    beside: Beside,
    /// What no rule counts.
    tally: Tally,
    /// Calls that came.
    calls: AtomicU64,
}

impl Rls {
    /// Decides by the rules of a sluice, the reference's files and limits that come with the descriptors. The
    /// rules of the files are in the sluice, too.
    pub(crate) async fn new(
        sluice: Sluice,
        windows: Arc<AdHoc>,
        terms: Terms,
    ) -> Result<Self, tonic_reflection::server::Error> {
        let Terms { domains, secret, style, max_request, pause, max_checks } = terms;
        let beside = Beside::new(max_request)?;
        beside.welcome().await;
        let renderer = Renderer::new(style);
        Ok(Self(Arc::new(Shared {
            sluice,
            windows,
            domains,
            renderer,
            secret,
            max_request,
            pause,
            max_checks,
            beside,
            tally: Tally::default(),
            calls: AtomicU64::new(0),
        })))
    }

    /// Calls that came so far.
    pub(crate) fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// How often limits of zero were asked.
    pub(crate) fn zero_limits(&self) -> Vec<LimitCounts> {
        self.0.tally.zero_limits.read()
    }

    /// How often the values were asked that files want told apart.
    pub(crate) fn values(&self) -> Vec<LimitCounts> {
        self.0.tally.values.read()
    }

    /// Decides about a message as it comes off the wire; whether it could be.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn is_decided(&self, message: bytes::Bytes) -> bool {
        let request = question::read(message, self.0.max_checks);
        request.and_then(|request| decide::decide(&self.0, request, None)).is_ok()
    }

    /// Tells clients to go elsewhere; those that come are still served.
    pub(crate) async fn drain(&self) {
        self.0.beside.drain().await;
    }

    /// Lets go of those who watch.
    pub(crate) fn leave(&self) {
        self.0.beside.leave();
    }
}

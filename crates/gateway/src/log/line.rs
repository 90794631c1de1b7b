//! What a line of the access log says.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use http::Version;

/// Everything that is noted about a request.
#[derive(Clone, Debug)]
pub(crate) struct Line<'a> {
    /// When it came.
    pub(crate) time: SystemTime,
    /// How to find it again.
    pub(crate) request_id: &'a str,
    /// Who sent it: who trusted proxies say it is, or else the peer.
    pub(crate) client: IpAddr,
    /// Who is at the other end of the connection.
    pub(crate) peer: IpAddr,
    /// Whether it came over TLS.
    pub(crate) tls: bool,
    pub(crate) method: &'a str,
    /// Path and query, as they were sent.
    pub(crate) target: &'a str,
    pub(crate) host: &'a str,
    pub(crate) version: Version,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) user_agent: Option<&'a [u8]>,
    /// How much of the request's body came.
    pub(crate) request_bytes: u64,
    pub(crate) status: u16,
    /// How much of the answer's body was sent.
    pub(crate) response_bytes: u64,
    /// From the request's head to the end of its answer.
    pub(crate) duration: Duration,
    /// How long it stood in line for its turn.
    pub(crate) wait: Duration,
    /// Who answered, if the request was sent on.
    pub(crate) served_by: Option<ServedBy<'a>>,
    /// What became of it.
    pub(crate) verdict: Verdict,
    /// The rule that decided.
    pub(crate) rule: Option<&'a str>,
    /// The key it was counted under: its hash, for the key itself may be a secret.
    pub(crate) key_hash: Option<u64>,
    /// A rule in shadow mode that would have refused it.
    pub(crate) shadow: Option<&'a str>,
    /// Whether the cluster's store was lost, so that the verdict was made without it.
    pub(crate) store_lost: bool,
    /// Whether the client went away or the answer broke off.
    pub(crate) aborted: bool,
}

/// Where a request was sent on to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedBy<'a> {
    pub(crate) upstream: &'a str,
    /// The server tried last.
    pub(crate) server: Option<&'a str>,
    /// How long the upstream took until the head of its answer came.
    pub(crate) time: Option<Duration>,
    /// How many times it was sent.
    pub(crate) attempts: u32,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The rules let it pass.
    Allowed,
    /// A rule refused it.
    Refused,
    /// It got substitute data.
    Degraded,
    /// It was sent elsewhere.
    Redirected,
    /// Its client is banned.
    Banned,
    /// A list denies it.
    Denied,
    /// It could not be served, for this reason.
    Failed(&'static str),
}

impl Verdict {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Degraded => "degraded",
            Self::Redirected => "redirected",
            Self::Banned => "banned",
            Self::Denied => "denied",
            Self::Failed(_) => "failed",
        }
    }
}

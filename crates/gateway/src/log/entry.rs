//! Contents of an access-log line.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use http::Version;

/// All values of an access-log line.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry<'a> {
    /// Arrival time.
    pub(crate) time: SystemTime,
    /// Request ID.
    pub(crate) request_id: &'a str,
    /// Client address: as reported by trusted proxies, else the peer.
    pub(crate) client: IpAddr,
    /// Address of the peer.
    pub(crate) peer: IpAddr,
    /// True if received over TLS.
    pub(crate) tls: bool,
    pub(crate) method: &'a str,
    /// Path and query as sent.
    pub(crate) target: &'a str,
    pub(crate) host: &'a str,
    pub(crate) version: Version,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) user_agent: Option<&'a [u8]>,
    /// Bytes received of the request body.
    pub(crate) request_bytes: u64,
    pub(crate) status: u16,
    /// Bytes sent of the response body.
    pub(crate) response_bytes: u64,
    /// Time from the request head to the end of the response.
    pub(crate) duration: Duration,
    /// Time in queues.
    pub(crate) wait: Duration,
    /// The upstream, if the request was forwarded.
    pub(crate) served_by: Option<ServedBy<'a>>,
    /// Result of the request.
    pub(crate) verdict: LogVerdict,
    /// The rule that decided.
    pub(crate) rule: Option<&'a str>,
    /// Hash of the key; the key itself may be secret.
    pub(crate) key_hash: Option<u64>,
    /// A rule in shadow mode that would have refused the request.
    pub(crate) shadow: Option<&'a str>,
    /// True if the cluster's store was unavailable and the decision was made without it.
    pub(crate) degraded: bool,
    /// True if the client disconnected or the response was aborted.
    pub(crate) aborted: bool,
}

/// Upstream of a forwarded request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedBy<'a> {
    pub(crate) upstream: &'a str,
    /// The server tried last.
    pub(crate) server: Option<&'a str>,
    /// Time until the head of the upstream response.
    pub(crate) time: Option<Duration>,
    /// Number of attempts.
    pub(crate) attempts: u32,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogVerdict {
    /// Admitted by the rules.
    Allowed,
    /// Refused by a rule.
    Refused,
    /// Answered with a degraded reply.
    Degraded,
    /// Redirected.
    Redirected,
    /// The client is banned.
    Banned,
    /// Denied by a list.
    Denied,
    /// Not served, with this error code.
    Failed(&'static str),
}

impl LogVerdict {
    pub(super) const fn as_str(self) -> &'static str {
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

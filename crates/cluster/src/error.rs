//! Errors between this process and the store.
//!
//! [`StoreError`] is the error of one call, [`CallError`] is the error a caller receives, and [`StartError`]
//! prevents the client from starting. A store that is down is not a start error: the client starts without it.

use std::io;
use std::sync::Arc;

/// Reason why a call got no reply from the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The deadline passed.
    #[error("the store did not respond within the timeout")]
    Deadline,
    /// The breaker is open: the store fails and is not called until a probe succeeds.
    #[error("the circuit breaker of the store is open")]
    Degraded,
    /// The call queue is full.
    #[error("the request queue of the store is full")]
    QueueFull,
    /// The client has been closed.
    #[error("the store client is closed")]
    Closed,
    /// The store returned an error, or no reply.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Error of one call to the store. Names the remedy if there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub(crate) struct StoreError {
    pub(crate) kind: StoreErrorKind,
    pub(crate) detail: Arc<str>,
}

/// Kinds of store errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No connection could be made, or it was lost.
    #[error("the store cannot be reached")]
    Unreachable,
    /// The connection is open but no reply came.
    #[error("the store did not respond")]
    Timeout,
    /// User or password are wrong, or the user lacks a permission.
    #[error("the store rejected the credentials; check username, password and the user's ACL")]
    AccessDenied,
    /// The server is a replica; the primary is elsewhere.
    #[error("the server is a replica")]
    ReadOnly,
    /// The server is still loading its data from disk.
    #[error("the store is loading its data")]
    Loading,
    /// The cluster does not serve this slot.
    #[error("the cluster is down")]
    ClusterDown,
    /// The slot moved too many times.
    #[error("too many redirects")]
    Moved,
    /// The slot is migrating, and its keys are split between two nodes.
    #[error("the slot is being migrated")]
    TryAgain,
    /// The server is out of memory.
    #[error("the store is out of memory; raise maxmemory")]
    OutOfMemory,
    /// Another client's script blocks the server.
    #[error("the store is busy with another script")]
    Busy,
    /// The server keeps dropping our scripts.
    #[error("the store does not retain scripts")]
    NoScript,
    /// A script failed.
    #[error("a script failed in the store")]
    Script,
    /// The reply is malformed.
    #[error("the store's reply is malformed")]
    InvalidReply,
}

/// Effect of an error on the circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerEffect {
    /// No effect: another call may succeed.
    Ignore,
    /// Counts: a few of these in a row open the breaker.
    Count,
    /// Opens the breaker at once: no call can succeed until something changes.
    Trip,
}

impl StoreErrorKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 13] = [
        Self::Unreachable,
        Self::Timeout,
        Self::AccessDenied,
        Self::ReadOnly,
        Self::Loading,
        Self::ClusterDown,
        Self::Moved,
        Self::TryAgain,
        Self::OutOfMemory,
        Self::Busy,
        Self::NoScript,
        Self::Script,
        Self::InvalidReply,
    ];

    /// A short name for metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::AccessDenied => "access_denied",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::ClusterDown => "cluster_down",
            Self::Moved => "moved",
            Self::TryAgain => "try_again",
            Self::OutOfMemory => "out_of_memory",
            Self::Busy => "busy",
            Self::NoScript => "no_script",
            Self::Script => "script",
            Self::InvalidReply => "invalid_reply",
        }
    }

    /// Effect of this kind on the circuit breaker.
    pub(crate) const fn breaker_effect(self) -> BreakerEffect {
        match self {
            Self::Unreachable | Self::AccessDenied | Self::ReadOnly | Self::Loading => BreakerEffect::Trip,
            Self::Timeout
            | Self::ClusterDown
            | Self::Moved
            | Self::TryAgain
            | Self::OutOfMemory
            | Self::Busy
            | Self::NoScript => BreakerEffect::Count,
            Self::Script | Self::InvalidReply => BreakerEffect::Ignore,
        }
    }
}

impl StoreError {
    pub(crate) fn new(kind: StoreErrorKind, detail: impl AsRef<str>) -> Self {
        Self { kind, detail: detail.as_ref().into() }
    }

    /// The error for a malformed reply.
    pub(crate) fn invalid_reply(detail: impl AsRef<str>) -> Self {
        Self::new(StoreErrorKind::InvalidReply, detail)
    }
}

impl From<redis::RedisError> for StoreError {
    fn from(error: redis::RedisError) -> Self {
        use redis::{ErrorKind, ServerErrorKind as Server};
        let kind = match error.kind() {
            ErrorKind::Server(Server::BusyLoading) => StoreErrorKind::Loading,
            ErrorKind::Server(Server::NoScript) => StoreErrorKind::NoScript,
            ErrorKind::Server(Server::Moved | Server::Ask) => StoreErrorKind::Moved,
            ErrorKind::Server(Server::TryAgain) => StoreErrorKind::TryAgain,
            ErrorKind::Server(Server::ClusterDown | Server::MasterDown) => StoreErrorKind::ClusterDown,
            ErrorKind::Server(Server::ReadOnly) => StoreErrorKind::ReadOnly,
            ErrorKind::Server(Server::NoPerm) | ErrorKind::AuthenticationFailed => StoreErrorKind::AccessDenied,
            ErrorKind::Extension => match error.code() {
                Some("OOM") => StoreErrorKind::OutOfMemory,
                Some("BUSY") => StoreErrorKind::Busy,
                Some("NOAUTH" | "WRONGPASS") => StoreErrorKind::AccessDenied,
                // The primary refuses writes until it has enough replicas or can save.
                Some("NOREPLICAS" | "MISCONF") => StoreErrorKind::ClusterDown,
                _ => StoreErrorKind::Script,
            },
            ErrorKind::Server(_) => StoreErrorKind::Script,
            ErrorKind::Io => StoreErrorKind::Unreachable,
            // The parser is out of sync: nothing more can be read from this connection.
            ErrorKind::Parse => StoreErrorKind::Unreachable,
            _ => StoreErrorKind::InvalidReply,
        };
        Self::new(kind, describe(&error))
    }
}

/// The server's code and message, without the Rust name of the code.
fn describe(error: &redis::RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    }
}

/// Reason why the client could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No node is configured.
    #[error("no store nodes; specify at least one as host:port")]
    NoNodes,
    /// A node is not written as `host:port`.
    #[error("`{0}` is not host:port")]
    InvalidNode(String),
    /// A Redis Cluster has only database 0.
    #[error("a Redis Cluster has no database {0}; use 0")]
    Database(u32),
    /// The CA file cannot be read.
    #[error("the certificates in {path} cannot be used: {reason}")]
    Authority {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// The operating system provides no thread or no event queue.
    #[error("cannot spawn the store client thread: {0}")]
    Thread(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_match_their_discriminants() {
        for (number, kind) in StoreErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }

    #[test]
    fn server_errors_are_classified() {
        let classify = |text: &str| {
            let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes());
            value.and_then(redis::Value::extract_error).map(|_| ()).map_err(StoreError::from)
        };
        let cases = [
            ("OOM command not allowed when used memory > 'maxmemory'.", StoreErrorKind::OutOfMemory),
            ("BUSY Redis is busy running a script.", StoreErrorKind::Busy),
            ("NOAUTH Authentication required.", StoreErrorKind::AccessDenied),
            ("WRONGPASS invalid username-password pair", StoreErrorKind::AccessDenied),
            ("NOPERM this user has no permissions", StoreErrorKind::AccessDenied),
            ("READONLY You can't write against a read only replica.", StoreErrorKind::ReadOnly),
            ("LOADING Redis is loading the dataset in memory", StoreErrorKind::Loading),
            ("CLUSTERDOWN The cluster is down", StoreErrorKind::ClusterDown),
            ("MOVED 3999 127.0.0.1:6381", StoreErrorKind::Moved),
            ("ASK 3999 127.0.0.1:6381", StoreErrorKind::Moved),
            ("TRYAGAIN Multiple keys request during rehashing of slot", StoreErrorKind::TryAgain),
            ("NOSCRIPT No matching script.", StoreErrorKind::NoScript),
            ("ERR wrong number of arguments", StoreErrorKind::Script),
            ("MISCONF Redis is configured to save RDB snapshots", StoreErrorKind::ClusterDown),
        ];
        for (text, kind) in cases {
            let error = classify(text).err();
            assert_eq!(error.as_ref().map(|error| error.kind), Some(kind), "{text}");
            assert!(error.is_some_and(|error| error.to_string().contains(text)), "{text}");
        }
    }
}

//! What goes wrong between this process and the store.
//!
//! [`StoreError`] is what one call met, [`Failure`] is what an asker hears, and [`StartError`] is what keeps
//! the driver from starting at all. A store that is down is not one of those: the driver starts without it.

use std::io;
use std::sync::Arc;

/// Why an ask was not answered by the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The store took too long.
    #[error("the store did not answer within the deadline")]
    Deadline,
    /// The store has been failing and is left alone until a probe passes.
    #[error("the store is not asked while it fails")]
    Degraded,
    /// Too many asks wait already.
    #[error("too many asks wait for the store")]
    Overloaded,
    /// The driver has been closed.
    #[error("the store's driver is closed")]
    Closed,
    /// The store answered with an error, or not at all.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a call to the store met. Says where it can what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub(crate) struct StoreError {
    pub(crate) kind: StoreErrorKind,
    pub(crate) detail: Arc<str>,
}

/// Kinds of what a call can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No connection could be made, or it was lost.
    #[error("the store cannot be reached")]
    Unreachable,
    /// The connection stands but the answer did not come.
    #[error("the store did not answer")]
    Silent,
    /// User or password are wrong, or the user may not do what is needed.
    #[error("the store refuses this user; check username, password and its ACL")]
    Refused,
    /// The server is a replica: its primary is elsewhere now.
    #[error("the server is a replica")]
    ReadOnly,
    /// The server is still reading its data from disk.
    #[error("the store is loading its data")]
    Loading,
    /// The cluster does not serve this slot.
    #[error("the cluster is down")]
    ClusterDown,
    /// The slot moved again and again.
    #[error("the slot moved too often")]
    Moved,
    /// The slot is on the move, and its keys stand on both sides.
    #[error("the slot is being moved")]
    TryAgain,
    /// The server has no memory for another key.
    #[error("the store is out of memory; raise maxmemory")]
    OutOfMemory,
    /// A script of someone else holds the server.
    #[error("the store is busy with another script")]
    Busy,
    /// The server keeps forgetting our scripts.
    #[error("the store does not keep scripts")]
    NoScript,
    /// A script failed.
    #[error("a script failed in the store")]
    Script,
    /// The answer is not of the form that was agreed.
    #[error("the store's answer makes no sense")]
    Unintelligible,
}

/// What an error says about the store as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Nothing: another call may well pass.
    None,
    /// A little: a few of these in a row, and the store is left alone.
    Counts,
    /// Everything: no call passes until something is done.
    Decides,
}

impl StoreErrorKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Unreachable,
        Self::Silent,
        Self::Refused,
        Self::ReadOnly,
        Self::Loading,
        Self::ClusterDown,
        Self::Moved,
        Self::TryAgain,
        Self::OutOfMemory,
        Self::Busy,
        Self::NoScript,
        Self::Script,
        Self::Unintelligible,
    ];

    /// A short name for figures and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Silent => "silent",
            Self::Refused => "refused",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::ClusterDown => "cluster_down",
            Self::Moved => "moved",
            Self::TryAgain => "try_again",
            Self::OutOfMemory => "out_of_memory",
            Self::Busy => "busy",
            Self::NoScript => "no_script",
            Self::Script => "script",
            Self::Unintelligible => "unintelligible",
        }
    }

    /// What it says about the store as a whole.
    pub(crate) const fn weight(self) -> Weight {
        match self {
            Self::Unreachable | Self::Refused | Self::ReadOnly | Self::Loading => Weight::Decides,
            Self::Silent
            | Self::ClusterDown
            | Self::Moved
            | Self::TryAgain
            | Self::OutOfMemory
            | Self::Busy
            | Self::NoScript => Weight::Counts,
            Self::Script | Self::Unintelligible => Weight::None,
        }
    }
}

impl StoreError {
    pub(crate) fn new(kind: StoreErrorKind, detail: impl AsRef<str>) -> Self {
        Self { kind, detail: detail.as_ref().into() }
    }

    /// An answer that is not of the form that was agreed.
    pub(crate) fn unintelligible(detail: impl AsRef<str>) -> Self {
        Self::new(StoreErrorKind::Unintelligible, detail)
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
            ErrorKind::Server(Server::NoPerm) | ErrorKind::AuthenticationFailed => StoreErrorKind::Refused,
            ErrorKind::Extension => match error.code() {
                Some("OOM") => StoreErrorKind::OutOfMemory,
                Some("BUSY") => StoreErrorKind::Busy,
                Some("NOAUTH" | "WRONGPASS") => StoreErrorKind::Refused,
                // Replicas wait until they have as many as the primary wants.
                Some("NOREPLICAS" | "MISCONF") => StoreErrorKind::ClusterDown,
                _ => StoreErrorKind::Script,
            },
            ErrorKind::Server(_) => StoreErrorKind::Script,
            ErrorKind::Io => StoreErrorKind::Unreachable,
            // The parser lost its place: nothing more can be read from this connection.
            ErrorKind::Parse => StoreErrorKind::Unreachable,
            _ => StoreErrorKind::Unintelligible,
        };
        Self::new(kind, described(&error))
    }
}

/// What the error says of itself, without its code's name in Rust.
fn described(error: &redis::RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    }
}

/// Why the driver could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no node to ask.
    #[error("the store has no nodes; name at least one as host:port")]
    NoNodes,
    /// A node is not written as `host:port`.
    #[error("`{0}` is not host:port")]
    Node(String),
    /// A Redis Cluster has no other database.
    #[error("a Redis Cluster has no database {0}; use 0")]
    Database(u32),
    /// The file of certificates cannot be read.
    #[error("the certificates in {path} cannot be used: {reason}")]
    Authority {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Encryption cannot be set up.
    #[error("encryption cannot be set up: {0}")]
    Tls(String),
    /// The system gives no thread or no event queue.
    #[error("the system gives the driver no thread: {0}")]
    Thread(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number() {
        for (number, kind) in StoreErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }

    #[test]
    fn errors_of_the_server_are_told_apart() {
        let told = |text: &str| {
            let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes());
            value.and_then(redis::Value::extract_error).map(|_| ()).map_err(StoreError::from)
        };
        let cases = [
            ("OOM command not allowed when used memory > 'maxmemory'.", StoreErrorKind::OutOfMemory),
            ("BUSY Redis is busy running a script.", StoreErrorKind::Busy),
            ("NOAUTH Authentication required.", StoreErrorKind::Refused),
            ("WRONGPASS invalid username-password pair", StoreErrorKind::Refused),
            ("NOPERM this user has no permissions", StoreErrorKind::Refused),
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
            let error = told(text).err();
            assert_eq!(error.as_ref().map(|error| error.kind), Some(kind), "{text}");
            assert!(error.is_some_and(|error| error.to_string().contains(text)), "{text}");
        }
    }
}

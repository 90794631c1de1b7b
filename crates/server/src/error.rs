//! Errors that prevent a decision server from starting.

use std::io;

use sluicegate_engine::adhoc::AdHocError;
use sluicegate_net::{AcceptorError, ListenError, ListenerError};
use thiserror::Error;

use crate::secret::SecretError;

/// The reason a decision server cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No protocol has an address.
    #[error("`server` has no service: set an address for `rls`, `http` or `resp`, such as `http: 127.0.0.1:8082`")]
    NoService,
    /// A secret cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// `max_keys` is too large.
    #[error("server.max_keys: {0}")]
    MaxKeys(#[from] AdHocError),
    /// The reflection service cannot be built.
    #[error("cannot build the gRPC reflection service: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The connection limits are invalid.
    #[error(transparent)]
    ConnectionLimits(#[from] ListenerError),
    /// An address cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The acceptor cannot be configured, for example its TLS certificate.
    #[error(transparent)]
    Acceptor(#[from] AcceptorError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

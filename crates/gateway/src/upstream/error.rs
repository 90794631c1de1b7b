//! Errors of upstream settings and connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;

/// Error in the upstream settings.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// An invalid URL.
    #[error("upstream {upstream}: {url} {fault}: write a URL such as http://127.0.0.1:9001")]
    Url {
        /// The upstream's name.
        upstream: String,
        /// The URL.
        url: String,
        /// The problem.
        fault: &'static str,
    },
    /// A header value or path that cannot be sent.
    #[error("upstream {upstream}: {field} {value} is invalid: {remedy}")]
    Unsendable {
        /// The upstream's name.
        upstream: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A number or duration that must not be zero.
    #[error("upstream {upstream}: {field} is zero: set a positive value or omit it")]
    Zero {
        /// The upstream's name.
        upstream: String,
        /// The field.
        field: &'static str,
    },
    /// A CA file that cannot be read.
    #[error("upstream {upstream}: cannot use the certificates in {file}: {reason}")]
    Authority {
        /// The upstream's name.
        upstream: String,
        /// The file.
        file: String,
        /// The problem.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}

/// Error while connecting to a server.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    /// The name cannot be resolved.
    #[error("cannot resolve {host}: {source}")]
    Lookup {
        /// The name.
        host: String,
        /// The I/O error.
        source: io::Error,
    },
    /// The name has no address.
    #[error("{host} resolves to no address")]
    NoAddress {
        /// The name.
        host: String,
    },
    /// The connection was refused or failed.
    #[error("cannot connect to {address}: {source}")]
    Unreachable {
        /// The last address tried.
        address: SocketAddr,
        /// The I/O error.
        source: io::Error,
    },
    /// Connecting timed out.
    #[error("no connection to {server} within {} ms", after.as_millis())]
    TimedOut {
        /// The server.
        server: String,
        /// The timeout.
        after: Duration,
    },
    /// The certificate is not trusted.
    #[error("the certificate of {server} is not trusted: {fault}")]
    Untrusted {
        /// The server.
        server: String,
        /// The problem with the certificate.
        fault: String,
    },
    /// The TLS handshake failed.
    #[error("TLS handshake with {server} failed: {source}")]
    Tls {
        /// The server.
        server: String,
        /// The I/O error.
        source: io::Error,
    },
    /// The server does not support the configured protocol.
    #[error("{server} does not speak HTTP/2: set the upstream's protocol to http1")]
    NoHttp2 {
        /// The server.
        server: String,
    },
}

impl ConnectError {
    /// True for a timeout.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }
}

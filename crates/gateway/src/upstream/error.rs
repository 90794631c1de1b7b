//! What can be wrong with upstreams, and with the way to one of their servers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;

/// Why upstreams cannot be used as they are written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// A URL that leads nowhere.
    #[error("upstream {upstream}: {url} {fault}: write a URL such as http://127.0.0.1:9001")]
    Url {
        /// The upstream's name.
        upstream: String,
        /// The URL.
        url: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A header value or path that cannot be sent.
    #[error("upstream {upstream}: {field} {value} cannot be sent: {remedy}")]
    Unsendable {
        /// The upstream's name.
        upstream: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What to do instead.
        remedy: &'static str,
    },
    /// A number or time that must be more than zero is zero.
    #[error("upstream {upstream}: {field} is zero: it must be more, or be left out")]
    Zero {
        /// The upstream's name.
        upstream: String,
        /// The field.
        field: &'static str,
    },
    /// The certificates of who may vouch for an upstream cannot be read.
    #[error("upstream {upstream}: the certificates in {file} cannot be used: {reason}")]
    Authority {
        /// The upstream's name.
        upstream: String,
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS cannot be set up at all.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
}

/// Why there is no connection to a server.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    /// Its name is not known.
    #[error("the name {host} cannot be looked up: {source}")]
    Lookup {
        /// The name.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// Its name has no address.
    #[error("the name {host} has no address")]
    NoAddress {
        /// The name.
        host: String,
    },
    /// Nobody takes the connection there.
    #[error("cannot connect to {address}: {source}")]
    Unreachable {
        /// The last address tried.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// It took too long.
    #[error("no connection to {server} within {} ms", after.as_millis())]
    TimedOut {
        /// The server.
        server: String,
        /// How long was waited.
        after: Duration,
    },
    /// It is not who it should be, as far as can be known.
    #[error("{server} cannot be trusted: {fault}")]
    Untrusted {
        /// The server.
        server: String,
        /// What is wrong with its certificate.
        fault: String,
    },
    /// The TLS handshake failed.
    #[error("no TLS with {server}: {source}")]
    Tls {
        /// The server.
        server: String,
        /// What went wrong.
        source: io::Error,
    },
    /// It does not speak what the upstream is said to speak.
    #[error("{server} does not speak HTTP/2: set the upstream's protocol to http1")]
    NoHttp2 {
        /// The server.
        server: String,
    },
}

impl ConnectError {
    /// Whether it was a matter of time.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }
}

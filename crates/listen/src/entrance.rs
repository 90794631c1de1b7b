//! What a connection passes before HTTP begins.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use sluicegate_config::settings;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http::identity::TrustedProxies;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::proxy_line::{self, Claim, ProxyLineError};
use crate::stream::Stream;
use crate::tls::{self, CertificateError, Renewal, Tls, TlsError};

/// Why an address cannot be entered by anybody.
#[derive(Debug, Error)]
pub enum EntranceError {
    /// TLS cannot be spoken there.
    #[error("{address}: {source}")]
    Tls {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: TlsError,
    },
    /// A PROXY line is asked for, but believed from nobody.
    #[error("{address}: proxy_protocol is on, but nobody is trusted; name the proxies in trusted_proxies")]
    NobodyTrusted {
        /// The address.
        address: SocketAddr,
    },
}

/// Why a connection does not get in.
#[derive(Debug, Error)]
pub enum EnterError {
    /// Only a trusted proxy may say who the client is, and this is none.
    #[error("{0} is no trusted proxy: only those in trusted_proxies may connect where proxy_protocol is on")]
    NotTrusted(SocketAddr),
    /// There is no PROXY line to be believed.
    #[error(transparent)]
    ProxyLine(#[from] ProxyLineError),
    /// The handshake failed.
    #[error("the TLS handshake failed: {0}")]
    Tls(io::Error),
}

/// The way in at one address.
pub struct Entrance {
    /// Who must begin with a PROXY line; `None`: nobody does.
    proxies: Option<TrustedProxies>,
    tls: Option<Tls>,
}

/// A connection that is in.
#[derive(Debug)]
pub struct Entered<T> {
    /// What HTTP is spoken over.
    pub stream: Stream<T>,
    /// Who is at the other end, or whom a trusted proxy speaks for. IPv4 in its own form, never mapped into IPv6.
    pub client: SocketAddr,
    /// Whether both agreed on HTTP/2, if they agreed on anything.
    pub http2: Option<bool>,
}

impl Entrance {
    /// Reads the certificate, if there is one; its files are relative to `base`.
    pub fn new(listener: &settings::Listener, trusted: &TrustedProxies, base: &Path) -> Result<Self, EntranceError> {
        let address = listener.address;
        if listener.proxy_protocol && trusted.is_empty() {
            return Err(EntranceError::NobodyTrusted { address });
        }
        let tls = listener.tls.as_ref().map(|files| Tls::new(files, base));
        Ok(Self {
            proxies: listener.proxy_protocol.then(|| trusted.clone()),
            tls: tls.transpose().map_err(|source| EntranceError::Tls { address, source })?,
        })
    }

    /// One where there is nothing to pass.
    pub const fn plain() -> Self {
        Self { proxies: None, tls: None }
    }

    /// Whether there is nothing to pass: whoever connects is in.
    pub fn is_plain(&self) -> bool {
        self.proxies.is_none() && self.tls.is_none()
    }

    /// Whether connections are encrypted.
    pub const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads the PROXY line, then shakes hands. The caller bounds the time.
    pub async fn enter<T>(&self, mut io: T, peer: SocketAddr) -> Result<Entered<T>, EnterError>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let client = match &self.proxies {
            None => peer,
            Some(proxies) if !proxies.contains(peer.ip()) => return Err(EnterError::NotTrusted(peer)),
            Some(_) => match proxy_line::read(&mut io).await? {
                Claim::Client(client) => client,
                Claim::Peer => peer,
            },
        };
        let Some(tls) = &self.tls else {
            return Ok(Entered { stream: Stream::Plain(io), client, http2: None });
        };
        let stream = tls.accept(io).await.map_err(EnterError::Tls)?;
        let http2 = tls::is_http2(&stream);
        Ok(Entered { stream: Stream::Tls(Box::new(stream.into())), client, http2 })
    }

    /// Reads the certificate's files again. What is bad is told and changes nothing.
    pub async fn reload(&self) -> Result<Renewal, CertificateError> {
        match &self.tls {
            Some(tls) => tls.reload().await,
            None => Ok(Renewal::Unchanged),
        }
    }

    /// Looks every few seconds, for ever, whether the certificate's files have changed, and tells each renewal, and
    /// each change for the worse once.
    pub async fn watch(&self, clock: &ClockHandle, tell: impl FnMut(Result<Renewal, CertificateError>)) {
        match &self.tls {
            Some(tls) => tls.watch(clock, tell).await,
            None => pending().await,
        }
    }
}

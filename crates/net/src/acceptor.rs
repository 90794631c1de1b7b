//! TLS and PROXY protocol acceptor: everything a connection passes before HTTP begins.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use sluicegate_config::settings;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http_adapter::identity::TrustedProxies;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::proxy_protocol::{self, ProxyHeader, ProxyProtocolError};
use crate::stream::MaybeTlsStream;
use crate::tls::{self, CertReload, CertificateError, Tls, TlsError};

/// Error creating an [`Acceptor`] for a listener.
#[derive(Debug, Error)]
pub enum AcceptorError {
    /// TLS cannot be set up.
    #[error("{address}: {source}")]
    Tls {
        /// Listener address.
        address: SocketAddr,
        /// The TLS error.
        source: TlsError,
    },
    /// PROXY protocol is enabled, but no proxy is trusted.
    #[error("{address}: proxy_protocol is on, but trusted_proxies is empty; list the proxies in trusted_proxies")]
    NoTrustedProxies {
        /// Listener address.
        address: SocketAddr,
    },
}

/// Error accepting one connection.
#[derive(Debug, Error)]
pub enum AcceptError {
    /// The peer is not a trusted proxy, so it may not send a PROXY header.
    #[error("{0} is not a trusted proxy: with proxy_protocol, only addresses in trusted_proxies may connect")]
    UntrustedPeer(SocketAddr),
    /// The PROXY header is missing or invalid.
    #[error(transparent)]
    ProxyProtocol(#[from] ProxyProtocolError),
    /// The TLS handshake failed.
    #[error("the TLS handshake failed: {0}")]
    Tls(io::Error),
}

/// Acceptor of one listener address.
pub struct Acceptor {
    /// Proxies that must send a PROXY header; `None` if PROXY protocol is off.
    trusted_proxies: Option<TrustedProxies>,
    tls: Option<Tls>,
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted<T> {
    /// The stream that carries HTTP.
    pub stream: MaybeTlsStream<T>,
    /// Address of the peer, or of the client named by a trusted proxy. IPv4 addresses are never mapped into IPv6.
    pub client: SocketAddr,
    /// True if ALPN selected HTTP/2; `None` if nothing was negotiated.
    pub http2: Option<bool>,
}

impl Acceptor {
    /// Creates an acceptor and reads its certificate, if any. File names are relative to `base`.
    pub fn new(listener: &settings::Listener, trusted: &TrustedProxies, base: &Path) -> Result<Self, AcceptorError> {
        let address = listener.address;
        if listener.proxy_protocol && trusted.is_empty() {
            return Err(AcceptorError::NoTrustedProxies { address });
        }
        let tls = listener.tls.as_ref().map(|files| Tls::new(files, base));
        Ok(Self {
            trusted_proxies: listener.proxy_protocol.then(|| trusted.clone()),
            tls: tls.transpose().map_err(|source| AcceptorError::Tls { address, source })?,
        })
    }

    /// Creates an acceptor without TLS and PROXY protocol.
    pub const fn plain() -> Self {
        Self { trusted_proxies: None, tls: None }
    }

    /// True if neither TLS nor PROXY protocol is used: connections are accepted as they are.
    pub fn is_plain(&self) -> bool {
        self.trusted_proxies.is_none() && self.tls.is_none()
    }

    /// True if connections use TLS.
    pub const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads the PROXY header, then does the TLS handshake. The caller sets the timeout.
    pub async fn accept<T>(&self, mut io: T, peer: SocketAddr) -> Result<Accepted<T>, AcceptError>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let client = match &self.trusted_proxies {
            None => peer,
            Some(proxies) if !proxies.contains(peer.ip()) => return Err(AcceptError::UntrustedPeer(peer)),
            Some(_) => match proxy_protocol::read(&mut io).await? {
                ProxyHeader::Client(client) => client,
                ProxyHeader::Peer => peer,
            },
        };
        let Some(tls) = &self.tls else {
            return Ok(Accepted { stream: MaybeTlsStream::Plain(io), client, http2: None });
        };
        let stream = tls.accept(io).await.map_err(AcceptError::Tls)?;
        let http2 = tls::negotiated_http2(&stream);
        Ok(Accepted { stream: MaybeTlsStream::Tls(Box::new(stream.into())), client, http2 })
    }

    /// Reloads the certificate files. A bad certificate is returned as an error and changes nothing.
    pub async fn reload(&self) -> Result<CertReload, CertificateError> {
        match &self.tls {
            Some(tls) => tls.reload().await,
            None => Ok(CertReload::Unchanged),
        }
    }

    /// Polls the certificate files every few seconds, forever. Reports each reload, and each bad change once.
    pub async fn watch(&self, clock: &ClockHandle, on_reload: impl FnMut(Result<CertReload, CertificateError>)) {
        match &self.tls {
            Some(tls) => tls.watch(clock, on_reload).await,
            None => pending().await,
        }
    }
}

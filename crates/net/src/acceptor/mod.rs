//! TLS and PROXY protocol acceptor: everything a connection passes before HTTP begins.
//!
//! `cert_reload` watches and reloads the certificates of all acceptors of a server.

mod cert_reload;

use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};

use sluicegate_engine::clock::ClockHandle;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::proxy_protocol::{self, ProxyHeader, ProxyProtocolError};
use crate::tls::{self, CertReload, CertificateError, MaybeTlsStream, Tls, TlsError, TlsFiles};

pub use cert_reload::{OperatorLog, reload_certificates, watch_certificates};

/// TLS of a listener cannot be set up.
#[derive(Debug, Error)]
#[error("{address}: {source}")]
pub struct AcceptorError {
    /// Listener address.
    pub address: SocketAddr,
    /// The TLS error.
    pub source: TlsError,
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
    /// Selects the proxies that must send a PROXY header; `None` if PROXY protocol is off.
    is_trusted_proxy: Option<Box<dyn Fn(IpAddr) -> bool + Send + Sync>>,
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
    /// Creates the acceptor of the listener at `address` and reads its certificate, if any.
    pub fn new(address: SocketAddr, tls: Option<&TlsFiles>) -> Result<Self, AcceptorError> {
        let tls = tls.map(Tls::new).transpose().map_err(|source| AcceptorError { address, source })?;
        Ok(Self { is_trusted_proxy: None, tls })
    }

    /// Requires a PROXY protocol header (version 1 or 2) at the start of each connection. It is accepted only from
    /// trusted proxies; connections from other peers are closed.
    #[must_use]
    pub fn with_proxy_protocol(self, is_trusted: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self { is_trusted_proxy: Some(Box::new(is_trusted)), ..self }
    }

    /// Creates an acceptor without TLS and PROXY protocol.
    pub const fn plain() -> Self {
        Self { is_trusted_proxy: None, tls: None }
    }

    /// True if neither TLS nor PROXY protocol is used: connections are accepted as they are.
    pub fn is_plain(&self) -> bool {
        self.is_trusted_proxy.is_none() && self.tls.is_none()
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
        let client = match &self.is_trusted_proxy {
            None => peer,
            Some(is_trusted) if !is_trusted(peer.ip()) => return Err(AcceptError::UntrustedPeer(peer)),
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

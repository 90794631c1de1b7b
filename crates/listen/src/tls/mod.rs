//! TLS towards clients: 1.2 and 1.3, HTTP/2 or HTTP/1.1 as ALPN agrees on, tickets for whoever comes back.

mod authorities;
mod certificate;
mod pair;

#[cfg(test)]
pub(crate) mod made;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use sluicegate_config::settings;
use sluicegate_engine::clock::ClockHandle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

pub use certificate::Renewal;
use certificate::{Certificate, Look};
pub use pair::CertificateError;
use pair::Pair;

/// What is spoken inside, the dearest first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Shakes hands, with a certificate that can change.
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS itself cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

impl Tls {
    /// Reads the files, whose names are relative to `base`.
    pub(super) fn new(files: &settings::Certificate, base: &Path) -> Result<Self, TlsError> {
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let pair = Pair::new(base.join(&files.certificate), base.join(&files.key));
        let certificate = Arc::new(Certificate::new(pair, Arc::clone(&provider))?);
        let authorities = files.client_ca.as_ref().map(|file| base.join(file));
        let clients = authorities.map(|file| authorities::verifier(file, Arc::clone(&provider))).transpose()?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::ALL_VERSIONS)?
            .with_client_cert_verifier(clients.unwrap_or_else(WebPkiClientVerifier::no_client_auth))
            .with_cert_resolver(Arc::clone(&certificate) as _);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        config.ticketer = ring::Ticketer::new()?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Shakes hands.
    pub(super) async fn accept<T: AsyncRead + AsyncWrite + Unpin>(&self, io: T) -> std::io::Result<TlsStream<T>> {
        self.acceptor.accept(io).await
    }

    /// Reads the files again, now.
    pub(super) async fn reload(&self) -> Result<Renewal, CertificateError> {
        certificate::look(&self.certificate, Look::Whatever).await
    }

    /// Reads the files every few seconds, for ever.
    pub(super) async fn watch(&self, clock: &ClockHandle, tell: impl FnMut(Result<Renewal, CertificateError>)) {
        certificate::watch(&self.certificate, clock, tell).await;
    }
}

/// Whether ALPN agreed on HTTP/2, if it agreed on anything.
pub(super) fn is_http2<T>(stream: &TlsStream<T>) -> Option<bool> {
    stream.get_ref().1.alpn_protocol().map(|protocol| protocol == PROTOCOLS[0])
}

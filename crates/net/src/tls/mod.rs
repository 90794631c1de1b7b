//! TLS for clients: versions 1.2 and 1.3, HTTP/2 or HTTP/1.1 by ALPN, session tickets for resumption.

mod authorities;
mod certificate;
mod key_pair;
mod stream;

#[cfg(test)]
pub(crate) mod test_certs;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicegate_engine::clock::ClockHandle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

pub use certificate::CertReload;
use certificate::{ReloadMode, ReloadingCert};
pub use key_pair::CertificateError;
use key_pair::KeyPairFiles;
pub use stream::MaybeTlsStream;

/// ALPN protocols, the preferred one first.
const ALPN_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// TLS acceptor with a reloadable certificate.
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<ReloadingCert>,
}

/// Certificate and key files of a listener, in PEM; reloaded on changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// CA certificates for client authentication. `None`: no client certificate is required.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// Files with names relative to `base`.
    pub fn new(base: &Path, certificate: &str, key: &str, client_ca: Option<&str>) -> Self {
        Self {
            certificate: base.join(certificate),
            key: base.join(key),
            client_ca: client_ca.map(|file| base.join(file)),
        }
    }
}

/// Error setting up TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS itself cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}

impl Tls {
    /// Reads the certificate files.
    pub(super) fn new(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let pair = KeyPairFiles::new(files.certificate.clone(), files.key.clone());
        let certificate = Arc::new(ReloadingCert::new(pair, Arc::clone(&provider))?);
        let clients = files.client_ca.clone().map(|file| authorities::verifier(file, Arc::clone(&provider)));
        let clients = clients.transpose()?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::ALL_VERSIONS)?
            .with_client_cert_verifier(clients.unwrap_or_else(WebPkiClientVerifier::no_client_auth))
            .with_cert_resolver(Arc::clone(&certificate) as _);
        config.alpn_protocols = ALPN_PROTOCOLS.map(<[u8]>::to_vec).into();
        config.ticketer = ring::Ticketer::new()?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Does the TLS handshake.
    pub(super) async fn accept<T: AsyncRead + AsyncWrite + Unpin>(&self, io: T) -> std::io::Result<TlsStream<T>> {
        self.acceptor.accept(io).await
    }

    /// Reloads the files now.
    pub(super) async fn reload(&self) -> Result<CertReload, CertificateError> {
        certificate::reload(&self.certificate, ReloadMode::Always).await
    }

    /// Polls the files every few seconds, forever.
    pub(super) async fn watch(&self, clock: &ClockHandle, on_reload: impl FnMut(Result<CertReload, CertificateError>)) {
        certificate::watch(&self.certificate, clock, on_reload).await;
    }
}

/// True if ALPN selected HTTP/2; `None` if nothing was negotiated.
pub(super) fn negotiated_http2<T>(stream: &TlsStream<T>) -> Option<bool> {
    stream.get_ref().1.alpn_protocol().map(|protocol| protocol == ALPN_PROTOCOLS[0])
}

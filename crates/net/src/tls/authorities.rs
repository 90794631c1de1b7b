//! Client certificate authorities (mutual TLS).

use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use super::key_pair::{CertificateError, certificates, read};

/// Creates a verifier that requires client certificates signed by an authority in `file`.
pub(super) fn verifier(
    file: PathBuf,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let mut roots = RootCertStore::empty();
    for (index, authority) in certificates(&file, &read(&file)?)?.into_iter().enumerate() {
        let bad = |_| CertificateError::BadCertificate { file: file.clone(), position: index + 1 };
        roots.add(authority).map_err(bad)?;
    }
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    built.map_err(|_| CertificateError::NoCertificate { file })
}

//! TLS to upstreams: trust roots and certificate errors.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use sluicegate_config::settings::{self, UpstreamProtocol};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

use super::error::UpstreamError;

/// ALPN identifier of HTTP/2.
pub(super) const ALPN_H2: &[u8] = b"h2";

/// Trust roots for upstreams. The system's roots are loaded once, and only if needed.
pub(super) struct TrustRoots<'a> {
    base: &'a Path,
    system: Option<Arc<RootCertStore>>,
}

impl<'a> TrustRoots<'a> {
    /// Relative file names start at `base`.
    pub(super) fn new(base: &'a Path) -> Self {
        Self { base, system: None }
    }

    /// The TLS connector of an upstream.
    pub(super) fn connector(&mut self, upstream: &settings::Upstream) -> Result<TlsConnector, UpstreamError> {
        let roots = match &upstream.ca {
            None => Arc::clone(self.system.get_or_insert_with(system_roots)),
            Some(file) => {
                let file = self.base.join(file);
                read_roots(&file).map_err(|reason| UpstreamError::Authority {
                    upstream: upstream.name.clone(),
                    file: file.display().to_string(),
                    reason,
                })?
            }
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| UpstreamError::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = match upstream.protocol {
            UpstreamProtocol::Http1 => vec![b"http/1.1".to_vec()],
            UpstreamProtocol::Http2 => vec![ALPN_H2.to_vec()],
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// The system's trust roots, or Mozilla's if the system has none.
fn system_roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // Unreadable system certificates are skipped.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Arc::new(roots)
}

fn read_roots(file: &Path) -> Result<Arc<RootCertStore>, String> {
    let pem = fs::read(file).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("no certificate found: add at least one in PEM format".to_owned());
    }
    Ok(Arc::new(roots))
}

/// Describes a certificate error; `None` if the handshake failed for another reason.
pub(super) fn certificate_error(error: &io::Error, host: &str) -> Option<String> {
    let Error::InvalidCertificate(fault) = error.get_ref()?.downcast_ref::<Error>()? else { return None };
    Some(match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "not valid yet".to_owned(),
        CertificateError::UnknownIssuer => "unknown issuer: configure the CA file with ca".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("not valid for {host}")
        }
        CertificateError::Revoked => "revoked".to_owned(),
        CertificateError::BadEncoding => "malformed".to_owned(),
        CertificateError::BadSignature => "invalid signature".to_owned(),
        other => other.to_string(),
    })
}

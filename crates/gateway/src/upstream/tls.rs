//! TLS towards upstreams: whom to believe, and what is wrong with those who are not believed.

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

/// What is offered to and expected of a server that speaks HTTP/2.
pub(super) const H2: &[u8] = b"h2";

/// Who may vouch for upstreams. The public ones are read once, and only if somebody needs them.
pub(super) struct Authorities<'a> {
    base: &'a Path,
    public: Option<Arc<RootCertStore>>,
}

impl<'a> Authorities<'a> {
    /// `base` is the folder that files are looked up from.
    pub(super) fn new(base: &'a Path) -> Self {
        Self { base, public: None }
    }

    /// The TLS of one upstream.
    pub(super) fn connector(&mut self, upstream: &settings::Upstream) -> Result<TlsConnector, UpstreamError> {
        let roots = match &upstream.ca {
            None => Arc::clone(self.public.get_or_insert_with(public)),
            Some(file) => {
                let file = self.base.join(file);
                read(&file).map_err(|reason| UpstreamError::Authority {
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
            UpstreamProtocol::Http2 => vec![H2.to_vec()],
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// Those the system believes; if it has none, those Mozilla believes.
fn public() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // What the system has but cannot be read is left out.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Arc::new(roots)
}

fn read(file: &Path) -> Result<Arc<RootCertStore>, String> {
    let pem = fs::read(file).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("it has none: it must have at least one, in PEM".to_owned());
    }
    Ok(Arc::new(roots))
}

/// What is wrong with the server's certificate, in words; `None` if the handshake failed for another reason.
pub(super) fn distrust(error: &io::Error, host: &str) -> Option<String> {
    let Error::InvalidCertificate(fault) = error.get_ref()?.downcast_ref::<Error>()? else { return None };
    Some(match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "nobody known vouches for its certificate: name the file of who does with ca".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is not for {host}")
        }
        CertificateError::Revoked => "its certificate was revoked".to_owned(),
        CertificateError::BadEncoding => "its certificate cannot be read".to_owned(),
        CertificateError::BadSignature => "its certificate was not signed by who it names".to_owned(),
        other => other.to_string(),
    })
}

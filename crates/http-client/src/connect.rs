//! Client connections to a server, with TLS for https URLs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::endpoint::Endpoint;

/// Connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Byte stream to a server.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// Connects to one endpoint.
#[derive(Clone)]
pub struct Connector {
    endpoint: Endpoint,
    /// If set, the only addresses to connect to; otherwise the host is resolved for each connection.
    pinned_addresses: Option<Arc<[SocketAddr]>>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    /// Fails if the URL's host cannot have a certificate.
    pub fn new(endpoint: Endpoint) -> Result<Self, String> {
        let tls = if endpoint.is_encrypted { Some((tls()?, server_name(&endpoint)?)) } else { None };
        Ok(Self { endpoint, pinned_addresses: None, tls })
    }

    /// Connects only to these addresses, even if the host later resolves to others.
    pub fn pin_addresses(self, addresses: Vec<SocketAddr>) -> Self {
        Self { pinned_addresses: Some(addresses.into()), ..self }
    }

    /// Opens a connection. The timeout includes the TLS handshake.
    pub async fn connect(&self) -> io::Result<Box<dyn ByteStream>> {
        let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "connect timeout");
        timeout(CONNECT_TIMEOUT, self.connect_inner()).await.map_err(|_| timed_out())?
    }

    async fn connect_inner(&self) -> io::Result<Box<dyn ByteStream>> {
        let stream = match &self.pinned_addresses {
            Some(addresses) => TcpStream::connect(&addresses[..]).await?,
            None => TcpStream::connect((self.endpoint.host.as_str(), self.endpoint.port)).await?,
        };
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((tls, name)) => Ok(Box::new(tls.connect(name.clone(), stream).await?)),
        }
    }
}

fn server_name(endpoint: &Endpoint) -> Result<ServerName<'static>, String> {
    ServerName::try_from(endpoint.host.clone()).map_err(|error| format!("{}: {error}", endpoint.host))
}

/// Trusts the system's root certificates (`SSL_CERT_FILE` overrides them), or Mozilla's if the system has none.
fn tls() -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS setup failed: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The operating system's error message without its number.
pub fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

//! Connections to a server, encrypted if its URL says so.

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

use crate::place::Place;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes to and from a server.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Connects to one place.
#[derive(Clone)]
pub(crate) struct Connector {
    place: Place,
    /// The only addresses to connect to; without them, whatever the host's name means at the time.
    only: Option<Arc<[SocketAddr]>>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    /// Fails if the URL's host can have no certificate.
    pub(crate) fn new(place: Place) -> Result<Self, String> {
        let tls = if place.is_encrypted { Some((tls()?, server_name(&place)?)) } else { None };
        Ok(Self { place, only: None, tls })
    }

    /// Connects only to these addresses, whatever the host's name comes to mean.
    pub(crate) fn only_to(self, addresses: Vec<SocketAddr>) -> Self {
        Self { only: Some(addresses.into()), ..self }
    }

    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer");
        timeout(PATIENCE, self.make()).await.map_err(|_| late())?
    }

    async fn make(&self) -> io::Result<Box<dyn Stream>> {
        let stream = match &self.only {
            Some(addresses) => TcpStream::connect(&addresses[..]).await?,
            None => TcpStream::connect((self.place.host.as_str(), self.place.port)).await?,
        };
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((tls, name)) => Ok(Box::new(tls.connect(name.clone(), stream).await?)),
        }
    }
}

fn server_name(place: &Place) -> Result<ServerName<'static>, String> {
    ServerName::try_from(place.host.clone()).map_err(|error| format!("{}: {error}", place.host))
}

/// Trusts what the system does (`SSL_CERT_FILE` names others), and what Mozilla does if that is nothing.
fn tls() -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("encryption cannot be set up: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// What the system says, without the number it has for it.
pub(crate) fn described(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

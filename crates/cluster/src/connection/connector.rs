//! Makes connections: TCP or TLS, authenticated, with our scripts loaded.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::address::Address;
use super::multiplexed::Connection;
use crate::error::{StartError, StoreError, StoreErrorKind};
use crate::invocation::Script;
use crate::options::{StoreOptions, Tls};

/// Timeout for making a connection, everything included.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum commands queued for writing.
const MAX_QUEUED_COMMANDS: usize = 256;

/// Credentials to use for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Login {
    /// The store's user, in its database.
    Store,
    /// No credentials: sentinels often have no users.
    Anonymous,
    /// The store's user, without a database: a sentinel with users.
    Sentinel,
}

/// Makes connections to the servers of one store.
pub(super) struct Connector {
    login: RedisConnectionInfo,
    sentinel_login: RedisConnectionInfo,
    tls: Option<TlsConnector>,
    scripts: Vec<&'static Script>,
}

impl Connector {
    pub(super) fn new(options: &StoreOptions, scripts: Vec<&'static Script>) -> Result<Self, StartError> {
        let anonymous = RedisConnectionInfo::default().set_skip_set_lib_name();
        let mut sentinel_login = anonymous;
        if let Some(username) = &options.username {
            sentinel_login = sentinel_login.set_username(username);
        }
        if let Some(password) = &options.password {
            sentinel_login = sentinel_login.set_password(password);
        }
        let login = sentinel_login.clone().set_db(i64::from(options.database));
        let tls = options.tls.as_ref().map(tls_connector).transpose()?;
        Ok(Self { login, sentinel_login, tls, scripts })
    }

    /// Connects and authenticates; for the store itself also loads our scripts.
    pub(super) async fn connect(&self, address: &Address, login: Login) -> Result<Connection, StoreError> {
        let connected = timeout(CONNECT_TIMEOUT, self.open(address, login)).await;
        connected
            .unwrap_or_else(|_| Err(StoreError::new(StoreErrorKind::Timeout, format!("{address} does not respond"))))
    }

    async fn open(&self, address: &Address, login: Login) -> Result<Connection, StoreError> {
        let unreachable =
            |error: io::Error| StoreError::new(StoreErrorKind::Unreachable, format!("{address}: {error}"));
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        match &self.tls {
            None => self.handshake(address, login, stream).await,
            Some(tls) => {
                let name = ServerName::try_from(address.host.clone())
                    .map_err(|error| StoreError::new(StoreErrorKind::Unreachable, format!("{address}: {error}")))?;
                let stream = tls.connect(name, stream).await.map_err(unreachable)?;
                self.handshake(address, login, stream).await
            }
        }
    }

    async fn handshake<S>(&self, address: &Address, login: Login, stream: S) -> Result<Connection, StoreError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Deadlines are the client's: a late reply is still awaited, because it must be undone.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(MAX_QUEUED_COMMANDS);
        let anonymous = RedisConnectionInfo::default().set_skip_set_lib_name();
        let info = match login {
            Login::Store => &self.login,
            Login::Sentinel => &self.sentinel_login,
            Login::Anonymous => &anonymous,
        };
        let (multiplexed, reading) = MultiplexedConnection::new_with_config(info, stream, config)
            .await
            .map_err(|error| with_address(address, error.into()))?;
        let connection = Connection::new(address.clone(), multiplexed, reading);
        if login == Login::Store {
            connection.load_scripts(&self.scripts).await.map_err(|error| with_address(address, error.into()))?;
        }
        Ok(connection)
    }
}

fn with_address(address: &Address, error: StoreError) -> StoreError {
    StoreError::new(error.kind, format!("{address}: {}", error.detail))
}

fn tls_connector(tls: &Tls) -> Result<TlsConnector, StartError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &tls.authority {
        let error_of = |reason: String| StartError::Authority { path: path.display().to_string(), reason };
        let pem = fs::read(path).map_err(|error| error_of(error.to_string()))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| error_of(error.to_string()))?;
            roots.add(certificate).map_err(|error| error_of(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(error_of("no certificates found".to_owned()));
        }
    } else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        // Unparsable system certificates are skipped: Mozilla's remain.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

//! Connector for one server.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_config::settings::UpstreamProtocol;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_net::MaybeTlsStream;
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsConnector, TlsStream};

use super::address::ServerAddress;
use super::error::ConnectError;
use super::tls::{ALPN_H2, certificate_error};

/// Settings for connecting to one server.
pub(super) struct ServerConnector {
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    pub(super) protocol: UpstreamProtocol,
    pub(super) timeout: Duration,
    pub(super) clock: ClockHandle,
}

impl ServerConnector {
    /// Connects, including TLS, within the timeout. Names are resolved each time, so DNS changes take effect.
    pub(super) async fn connect(&self, to: &ServerAddress) -> Result<MaybeTlsStream<TcpStream>, ConnectError> {
        let deadline = self.clock.now() + self.timeout;
        match with_deadline(&self.clock, deadline, self.establish(to, deadline)).await {
            Some(connected) => connected,
            None => Err(self.timed_out(to)),
        }
    }

    async fn establish(
        &self,
        to: &ServerAddress,
        deadline: Timestamp,
    ) -> Result<MaybeTlsStream<TcpStream>, ConnectError> {
        let stream = match to.literal() {
            Some(ip) => self.connect_any(to, &[SocketAddr::new(ip, to.port)], deadline).await?,
            None => {
                let lookup = lookup_host((to.host.as_str(), to.port)).await;
                let found = lookup.map_err(|source| ConnectError::Lookup { host: to.host.clone(), source })?;
                self.connect_any(to, &found.collect::<Vec<_>>(), deadline).await?
            }
        };
        match &self.tls {
            None => Ok(MaybeTlsStream::Plain(stream)),
            Some((tls, name)) => self.tls_handshake(to, tls, name.clone(), stream).await,
        }
    }

    /// Tries one address after the other. Each gets an equal share of the remaining time.
    pub(super) async fn connect_any(
        &self,
        to: &ServerAddress,
        addresses: &[SocketAddr],
        deadline: Timestamp,
    ) -> Result<TcpStream, ConnectError> {
        let mut failure = ConnectError::NoAddress { host: to.host.clone() };
        for (index, &address) in addresses.iter().enumerate() {
            let remaining = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
            let now = self.clock.now();
            let share = deadline.saturating_since(now) / remaining;
            failure = match with_deadline(&self.clock, now + share, connect_tcp(address)).await {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(source)) => ConnectError::Unreachable { address, source },
                None => self.timed_out(to),
            };
        }
        Err(failure)
    }

    async fn tls_handshake(
        &self,
        to: &ServerAddress,
        tls: &TlsConnector,
        name: ServerName<'static>,
        stream: TcpStream,
    ) -> Result<MaybeTlsStream<TcpStream>, ConnectError> {
        let stream = tls.connect(name, stream).await.map_err(|source| match certificate_error(&source, &to.host) {
            Some(fault) => ConnectError::Untrusted { server: authority(to), fault },
            None => ConnectError::Tls { server: authority(to), source },
        })?;
        if self.protocol == UpstreamProtocol::Http2 && stream.get_ref().1.alpn_protocol() != Some(ALPN_H2) {
            return Err(ConnectError::NoHttp2 { server: authority(to) });
        }
        Ok(MaybeTlsStream::Tls(Box::new(TlsStream::Client(stream))))
    }

    fn timed_out(&self, to: &ServerAddress) -> ConnectError {
        ConnectError::TimedOut { server: authority(to), after: self.timeout }
    }
}

fn authority(to: &ServerAddress) -> String {
    // It was built from a string.
    String::from_utf8_lossy(to.authority.as_bytes()).into_owned()
}

async fn connect_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The output of `work`, unless `deadline` comes first.
pub(super) async fn with_deadline<T>(
    clock: &ClockHandle,
    deadline: Timestamp,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = clock.sleep_until(deadline) => None,
    }
}

//! Makes connections to one server.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_config::settings::UpstreamProtocol;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_listen::Stream;
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsConnector, TlsStream};

use super::address::Address;
use super::error::ConnectError;
use super::tls::{H2, distrust};

/// The way to one server.
pub(super) struct Connector {
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    pub(super) protocol: UpstreamProtocol,
    pub(super) timeout: Duration,
    pub(super) clock: ClockHandle,
}

impl Connector {
    /// Connects, TLS included, within the timeout. Names are looked up each time, so that changes are followed.
    pub(super) async fn connect(&self, to: &Address) -> Result<Stream<TcpStream>, ConnectError> {
        let deadline = self.clock.now() + self.timeout;
        match before(&self.clock, deadline, self.make(to, deadline)).await {
            Some(made) => made,
            None => Err(self.timed_out(to)),
        }
    }

    async fn make(&self, to: &Address, deadline: Timestamp) -> Result<Stream<TcpStream>, ConnectError> {
        let stream = match to.literal() {
            Some(ip) => self.reach(to, &[SocketAddr::new(ip, to.port)], deadline).await?,
            None => {
                let lookup = lookup_host((to.host.as_str(), to.port)).await;
                let found = lookup.map_err(|source| ConnectError::Lookup { host: to.host.clone(), source })?;
                self.reach(to, &found.collect::<Vec<_>>(), deadline).await?
            }
        };
        match &self.tls {
            None => Ok(Stream::Plain(stream)),
            Some((tls, name)) => self.encrypt(to, tls, name.clone(), stream).await,
        }
    }

    /// Tries one address after the other. One that is silent leaves the others their share of the time.
    pub(super) async fn reach(
        &self,
        to: &Address,
        addresses: &[SocketAddr],
        deadline: Timestamp,
    ) -> Result<TcpStream, ConnectError> {
        let mut failure = ConnectError::NoAddress { host: to.host.clone() };
        for (nth, &address) in addresses.iter().enumerate() {
            let left = u32::try_from(addresses.len() - nth).unwrap_or(u32::MAX);
            let now = self.clock.now();
            let share = deadline.saturating_since(now) / left;
            failure = match before(&self.clock, now + share, open(address)).await {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(source)) => ConnectError::Unreachable { address, source },
                None => self.timed_out(to),
            };
        }
        Err(failure)
    }

    async fn encrypt(
        &self,
        to: &Address,
        tls: &TlsConnector,
        name: ServerName<'static>,
        stream: TcpStream,
    ) -> Result<Stream<TcpStream>, ConnectError> {
        let stream = tls.connect(name, stream).await.map_err(|source| match distrust(&source, &to.host) {
            Some(fault) => ConnectError::Untrusted { server: shown(to), fault },
            None => ConnectError::Tls { server: shown(to), source },
        })?;
        if self.protocol == UpstreamProtocol::Http2 && stream.get_ref().1.alpn_protocol() != Some(H2) {
            return Err(ConnectError::NoHttp2 { server: shown(to) });
        }
        Ok(Stream::Tls(Box::new(TlsStream::Client(stream))))
    }

    fn timed_out(&self, to: &Address) -> ConnectError {
        ConnectError::TimedOut { server: shown(to), after: self.timeout }
    }
}

fn shown(to: &Address) -> String {
    // Made of a string in the first place.
    String::from_utf8_lossy(to.authority.as_bytes()).into_owned()
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// What `work` gives, unless `deadline` comes first.
pub(super) async fn before<T>(clock: &ClockHandle, deadline: Timestamp, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = clock.sleep_until(deadline) => None,
    }
}

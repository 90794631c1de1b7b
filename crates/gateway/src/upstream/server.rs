//! One server of an upstream: where it is, how it fares, and the way to it.

use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;
use sluicegate_config::settings;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_listen::Stream;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::address::Address;
use super::connect::Connector;
use super::error::{ConnectError, UpstreamError};
use super::rest::Rests;
use super::room::{Room, Rooms};
use super::status::{Health, ServerStatus};
use super::watched::Watched;

/// One server of an upstream, shared by all threads.
pub(crate) struct Server {
    /// Requests under way to it.
    pub(super) in_flight: AtomicU64,
    pub(super) rests: Rests,
    pub(super) watched: Watched,
    /// All there ever were.
    pub(super) failures: AtomicU64,
    position: usize,
    address: Address,
    connector: Connector,
    rooms: Rooms,
}

impl Server {
    /// `tls` is the upstream's, and is used if the address says so.
    pub(super) fn new(
        upstream: &settings::Upstream,
        position: usize,
        address: Address,
        tls: Option<&TlsConnector>,
        clock: &ClockHandle,
    ) -> Result<Self, UpstreamError> {
        let tls = match tls.filter(|_| address.tls) {
            None => None,
            Some(tls) => {
                let name = ServerName::try_from(address.host.clone()).map_err(|_| UpstreamError::Url {
                    upstream: upstream.name.clone(),
                    url: address.url.clone(),
                    fault: "has a host that no certificate can be for",
                })?;
                Some((tls.clone(), name))
            }
        };
        Ok(Self {
            in_flight: AtomicU64::new(0),
            rests: Rests::new(clock.clone()),
            watched: Watched::default(),
            failures: AtomicU64::new(0),
            position,
            connector: Connector {
                tls,
                protocol: upstream.protocol,
                timeout: upstream.timeouts.connect,
                clock: clock.clone(),
            },
            address,
            rooms: Rooms::new(upstream.connections),
        })
    }

    /// Its place among the servers of its upstream.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The authority of its URL as a `Host`, without the port that goes without saying.
    pub(crate) fn host(&self) -> &HeaderValue {
        &self.address.authority
    }

    /// What paths begin with: nothing, or such as `/base`.
    pub(crate) fn base_path(&self) -> &str {
        &self.address.base_path
    }

    /// Whether connections to it are encrypted.
    pub(crate) fn is_tls(&self) -> bool {
        self.address.tls
    }

    /// Its address, as the rule file has it.
    pub(crate) fn url(&self) -> &str {
        &self.address.url
    }

    /// Connects, TLS included, within the connect timeout.
    pub(crate) async fn connect(&self) -> Result<Stream<TcpStream>, ConnectError> {
        self.connector.connect(&self.address).await
    }

    /// Room for one more connection, if there is some now.
    #[cfg(test)]
    pub(crate) fn room(&self) -> Option<Room> {
        self.rooms.now()
    }

    /// Waits in line for room for one more connection. Dropping the future leaves the line.
    pub(crate) async fn wait_for_room(&self) -> Room {
        self.rooms.wait().await
    }

    /// How it fares, for operators.
    pub(super) fn status(&self) -> ServerStatus {
        let (failures_in_a_row, rest) = self.rests.report();
        let health = match (self.watched.reason(), rest) {
            (Some(reason), _) => Health::Out { reason },
            (None, Some(left)) => Health::Resting { failures: failures_in_a_row, left },
            (None, None) => Health::Well,
        };
        ServerStatus {
            url: self.address.url.clone(),
            health,
            in_flight: self.in_flight.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

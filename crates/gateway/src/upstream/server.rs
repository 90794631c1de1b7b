//! Server of an upstream: address, health, outlier state and connector.

use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;
use sluicegate_config::settings;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_net::MaybeTlsStream;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::address::ServerAddress;
use super::connect::ServerConnector;
use super::connection_limit::{ConnectionLimit, UpstreamPermit};
use super::error::{ConnectError, UpstreamError};
use super::health::HealthState;
use super::outlier::OutlierDetector;
use super::status::{Health, ServerStatus};

/// One server of an upstream, shared by all threads.
pub(crate) struct Server {
    /// Requests in flight.
    pub(super) in_flight: AtomicU64,
    pub(super) outlier: OutlierDetector,
    pub(super) health: HealthState,
    /// Failures since the start.
    pub(super) failures: AtomicU64,
    position: usize,
    address: ServerAddress,
    connector: ServerConnector,
    connection_limit: ConnectionLimit,
}

impl Server {
    /// Creates a server. `tls` belongs to the upstream and is used if the URL is `https`.
    pub(super) fn new(
        upstream: &settings::Upstream,
        position: usize,
        address: ServerAddress,
        tls: Option<&TlsConnector>,
        clock: &ClockHandle,
    ) -> Result<Self, UpstreamError> {
        let tls = match tls.filter(|_| address.tls) {
            None => None,
            Some(tls) => {
                let name = ServerName::try_from(address.host.clone()).map_err(|_| UpstreamError::Url {
                    upstream: upstream.name.clone(),
                    url: address.url.clone(),
                    fault: "has a host that is not valid in a certificate",
                })?;
                Some((tls.clone(), name))
            }
        };
        Ok(Self {
            in_flight: AtomicU64::new(0),
            outlier: OutlierDetector::new(clock.clone()),
            health: HealthState::default(),
            failures: AtomicU64::new(0),
            position,
            connector: ServerConnector {
                tls,
                protocol: upstream.protocol,
                timeout: upstream.timeouts.connect,
                clock: clock.clone(),
            },
            address,
            connection_limit: ConnectionLimit::new(upstream.max_connections),
        })
    }

    /// Position among the servers of the upstream.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Authority of the URL as a `Host` value, without the default port.
    pub(crate) fn host(&self) -> &HeaderValue {
        &self.address.authority
    }

    /// Path prefix: empty, or a path such as `/base`.
    pub(crate) fn base_path(&self) -> &str {
        &self.address.base_path
    }

    /// True if connections use TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.address.tls
    }

    /// The URL as configured.
    pub(crate) fn url(&self) -> &str {
        &self.address.url
    }

    /// Connects, including TLS, within the connect timeout.
    pub(crate) async fn connect(&self) -> Result<MaybeTlsStream<TcpStream>, ConnectError> {
        self.connector.connect(&self.address).await
    }

    /// Acquires a connection permit, if one is available.
    #[cfg(test)]
    pub(crate) fn try_permit(&self) -> Option<UpstreamPermit> {
        self.connection_limit.try_acquire()
    }

    /// Queues for a connection permit. Dropping the future leaves the queue.
    pub(crate) async fn acquire_permit(&self) -> UpstreamPermit {
        self.connection_limit.acquire().await
    }

    /// Status for operators.
    pub(super) fn status(&self) -> ServerStatus {
        let (failures_in_a_row, ejection) = self.outlier.report();
        let health = match (self.health.reason(), ejection) {
            (Some(reason), _) => Health::Unhealthy { reason },
            (None, Some(remaining)) => Health::Ejected { failures: failures_in_a_row, remaining },
            (None, None) => Health::Healthy,
        };
        ServerStatus {
            url: self.address.url.clone(),
            health,
            in_flight: self.in_flight.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

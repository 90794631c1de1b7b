//! Upstreams and load balancing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderValue;
use http::uri::Authority;
use sluicegate_config::settings::{self, Balance, HostHeader, Servers, UpstreamProtocol};
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;
use smallvec::SmallVec;

use super::address::ServerAddress;
use super::attempt::{Attempt, AttemptedServers};
use super::error::UpstreamError;
use super::outlier::ServerAdmission;
use super::server::Server;
use super::status::UpstreamStatus;
use super::tls::TrustRoots;

/// An upstream service with any number of servers.
pub(crate) struct Upstream {
    servers: Vec<Arc<Server>>,
    /// Round-robin counter, taken modulo the number of available servers.
    next: AtomicUsize,
    settings: settings::Upstream,
    /// The configured `Host`, if it is fixed.
    fixed_host: Option<HeaderValue>,
}

impl Upstream {
    pub(super) fn new(
        settings: &settings::Upstream,
        authorities: &mut TrustRoots<'_>,
        clock: &ClockHandle,
    ) -> Result<Self, UpstreamError> {
        reject_zeros(settings)?;
        let addresses = addresses(settings)?;
        let encrypted = addresses.iter().any(|address| address.tls);
        let tls = if encrypted { Some(authorities.connector(settings)?) } else { None };
        let server = |(position, address)| Server::new(settings, position, address, tls.as_ref(), clock).map(Arc::new);
        let servers = addresses.into_iter().enumerate().map(server).collect::<Result<_, _>>()?;
        Ok(Self { servers, next: AtomicUsize::new(0), fixed_host: fixed_host(settings)?, settings: settings.clone() })
    }

    /// The settings of the upstream.
    pub(crate) fn settings(&self) -> &settings::Upstream {
        &self.settings
    }

    /// The servers in the order of the settings; none for a built-in upstream.
    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// The `Host` to send to this server; `None` for the host requested by the client.
    #[inline]
    pub(crate) fn host<'a>(&'a self, server: &'a Server) -> Option<&'a HeaderValue> {
        match self.settings.host {
            HostHeader::Client => None,
            HostHeader::Server => Some(server.host()),
            HostHeader::Fixed(_) => self.fixed_host.as_ref(),
        }
    }

    /// True if it is sent another `Host` than the requested one.
    #[inline]
    pub(crate) fn sends_own_host(&self) -> bool {
        self.settings.host != HostHeader::Client
    }

    /// True if requests need an absolute URI, as in HTTP/2.
    #[inline]
    pub(crate) fn needs_absolute_uri(&self) -> bool {
        self.settings.protocol == UpstreamProtocol::Http2
    }

    /// Picks a server for a request by the balancing policy, among those that are available and not tried yet. If
    /// all of them are ejected, picks the one whose ejection ends first. `None` if no server is left.
    #[inline]
    pub(crate) fn pick(self: &Arc<Self>, attempted: &AttemptedServers) -> Option<Attempt> {
        match &self.servers[..] {
            [only] => only.admit(attempted).map(|admission| start_attempt(only, admission)),
            servers => self.pick_among(servers, attempted),
        }
    }

    fn pick_among(&self, servers: &[Arc<Server>], attempted: &AttemptedServers) -> Option<Attempt> {
        let mut open: SmallVec<[&Arc<Server>; 16]> = SmallVec::new();
        let mut soonest: Option<(Timestamp, &Arc<Server>)> = None;
        for server in servers {
            match server.admit(attempted) {
                None => {}
                Some(ServerAdmission::Open) => open.push(server),
                // A probe takes precedence, so that a recovered server is detected soon.
                Some(probe @ ServerAdmission::Probe(_)) => return Some(start_attempt(server, probe)),
                Some(ServerAdmission::Ejected(until)) => {
                    soonest = soonest.filter(|(soonest, _)| *soonest <= until).or(Some((until, server)));
                }
            }
        }
        if open.is_empty() {
            return soonest.map(|(until, server)| start_attempt(server, ServerAdmission::Ejected(until)));
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed) % open.len();
        let next = match self.settings.balance {
            Balance::RoundRobin => open.get(first),
            // The first of the least loaded, starting at the round-robin position.
            Balance::LeastInFlight => {
                let (before, from) = open.split_at(first);
                from.iter().chain(before).min_by_key(|server| server.in_flight.load(Ordering::Relaxed))
            }
        };
        next.map(|server| start_attempt(server, ServerAdmission::Open))
    }

    /// Status for operators.
    pub(super) fn status(&self) -> UpstreamStatus {
        let servers = self.servers.iter().map(|server| server.status()).collect();
        UpstreamStatus { name: self.settings.name.clone(), servers }
    }
}

impl Server {
    /// Admission of a request that has tried these servers; `None` if the server is unavailable for it.
    #[inline]
    fn admit(&self, attempted: &AttemptedServers) -> Option<ServerAdmission> {
        if self.health.is_unhealthy() || attempted.contains(self.position()) {
            None
        } else {
            Some(self.outlier.admit())
        }
    }
}

fn start_attempt(server: &Arc<Server>, admission: ServerAdmission) -> Attempt {
    let probe = match admission {
        ServerAdmission::Probe(probe) => Some(probe),
        ServerAdmission::Open | ServerAdmission::Ejected(_) => None,
    };
    Attempt::new(server, probe)
}

fn addresses(upstream: &settings::Upstream) -> Result<Vec<ServerAddress>, UpstreamError> {
    let Servers::Urls(urls) = &upstream.servers else { return Ok(Vec::new()) };
    let error = |url, fault| UpstreamError::Url { upstream: upstream.name.clone(), url: redact_login(url), fault };
    urls.iter().map(|url| ServerAddress::parse(url).map_err(|fault| error(url, fault))).collect()
}

/// Redacts the login in a URL.
fn redact_login(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        (None, Some((_, rest))) => format!("***@{rest}"),
        (_, None) => url.to_owned(),
    }
}

fn fixed_host(upstream: &settings::Upstream) -> Result<Option<HeaderValue>, UpstreamError> {
    let HostHeader::Fixed(host) = &upstream.host else { return Ok(None) };
    let sendable = host.parse::<Authority>().ok().filter(|authority| !authority.as_str().contains('@'));
    match sendable.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok()) {
        Some(value) => Ok(Some(value)),
        None => Err(UpstreamError::Unsendable {
            upstream: upstream.name.clone(),
            field: "host",
            value: redact_login(host),
            remedy: "write a name such as shop.example",
        }),
    }
}

fn reject_zeros(upstream: &settings::Upstream) -> Result<(), UpstreamError> {
    let mut fields = vec![("max_connections", upstream.max_connections == Some(0))];
    fields.push(("timeouts.connect", upstream.timeouts.connect.is_zero()));
    if let Some(check) = &upstream.health {
        fields.push(("health.interval", check.interval.is_zero()));
        fields.push(("health.timeout", check.timeout.is_zero()));
        fields.push(("health.failures", check.failures == 0));
        fields.push(("health.successes", check.successes == 0));
    }
    match fields.into_iter().find(|(_, is_zero)| *is_zero) {
        Some((field, _)) => Err(UpstreamError::Zero { upstream: upstream.name.clone(), field }),
        None => Ok(()),
    }
}

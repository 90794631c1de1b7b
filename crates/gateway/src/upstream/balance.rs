//! An upstream, and which of its servers is next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderValue;
use http::uri::Authority;
use sluicegate_config::settings::{self, Balance, HostHeader, Servers, UpstreamProtocol};
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;
use smallvec::SmallVec;

use super::address::Address;
use super::attempt::{Attempt, Tried};
use super::error::UpstreamError;
use super::rest::Access;
use super::server::Server;
use super::status::UpstreamStatus;
use super::tls::Authorities;

/// A program behind the gateway, on any number of servers.
pub(crate) struct Upstream {
    servers: Vec<Arc<Server>>,
    /// Whose turn it is, modulo however many there are to choose from.
    turn: AtomicUsize,
    settings: settings::Upstream,
    /// The `Host` that is sent whoever asks.
    fixed_host: Option<HeaderValue>,
}

impl Upstream {
    pub(super) fn new(
        settings: &settings::Upstream,
        authorities: &mut Authorities<'_>,
        clock: &ClockHandle,
    ) -> Result<Self, UpstreamError> {
        refuse_zeros(settings)?;
        let addresses = addresses(settings)?;
        let encrypted = addresses.iter().any(|address| address.tls);
        let tls = if encrypted { Some(authorities.connector(settings)?) } else { None };
        let server = |(position, address)| Server::new(settings, position, address, tls.as_ref(), clock).map(Arc::new);
        let servers = addresses.into_iter().enumerate().map(server).collect::<Result<_, _>>()?;
        Ok(Self { servers, turn: AtomicUsize::new(0), fixed_host: fixed_host(settings)?, settings: settings.clone() })
    }

    /// What the rule file says of it.
    pub(crate) fn settings(&self) -> &settings::Upstream {
        &self.settings
    }

    /// Its servers, in the order of the file; none if it is built in.
    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// The `Host` to send to this server of it; `None`: the one the client asked for.
    #[inline]
    pub(crate) fn host<'a>(&'a self, server: &'a Server) -> Option<&'a HeaderValue> {
        match self.settings.host {
            HostHeader::Client => None,
            HostHeader::Server => Some(server.host()),
            HostHeader::Fixed(_) => self.fixed_host.as_ref(),
        }
    }

    /// Whether it is sent another `Host` than the client asked for.
    #[inline]
    pub(crate) fn sends_own_host(&self) -> bool {
        self.settings.host != HostHeader::Client
    }

    /// Whether requests to it name scheme and host, as HTTP/2 has it.
    #[inline]
    pub(crate) fn needs_whole_uri(&self) -> bool {
        self.settings.protocol == UpstreamProtocol::Http2
    }

    /// A server for a request: by the balance, among those that are well and were not tried for it yet. If all
    /// of those rest, the one whose rest ends first. `None`: nobody is left.
    #[inline]
    pub(crate) fn pick(self: &Arc<Self>, tried: &Tried) -> Option<Attempt> {
        match &self.servers[..] {
            [only] => only.enter(tried).map(|access| attempt(only, access)),
            servers => self.pick_of(servers, tried),
        }
    }

    fn pick_of(&self, servers: &[Arc<Server>], tried: &Tried) -> Option<Attempt> {
        let mut open: SmallVec<[&Arc<Server>; 16]> = SmallVec::new();
        let mut soonest: Option<(Timestamp, &Arc<Server>)> = None;
        for server in servers {
            match server.enter(tried) {
                None => {}
                Some(Access::Open) => open.push(server),
                // Its turn comes before that of others, so that it is soon known whether it is back.
                Some(trial @ Access::Trial(_)) => return Some(attempt(server, trial)),
                Some(Access::Resting(until)) => {
                    soonest = soonest.filter(|(soonest, _)| *soonest <= until).or(Some((until, server)));
                }
            }
        }
        if open.is_empty() {
            return soonest.map(|(until, server)| attempt(server, Access::Resting(until)));
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % open.len();
        let next = match self.settings.balance {
            Balance::RoundRobin => open.get(first),
            // The first of the least, counted from whose turn it is.
            Balance::LeastInFlight => {
                let (before, from) = open.split_at(first);
                from.iter().chain(before).min_by_key(|server| server.in_flight.load(Ordering::Relaxed))
            }
        };
        next.map(|server| attempt(server, Access::Open))
    }

    /// How it fares, for operators.
    pub(super) fn status(&self) -> UpstreamStatus {
        let servers = self.servers.iter().map(|server| server.status()).collect();
        UpstreamStatus { name: self.settings.name.clone(), servers }
    }
}

impl Server {
    /// How a request that tried these can be sent here; `None`: not at all.
    #[inline]
    fn enter(&self, tried: &Tried) -> Option<Access> {
        if self.watched.is_out() || tried.has(self.position()) { None } else { Some(self.rests.enter()) }
    }
}

fn attempt(server: &Arc<Server>, access: Access) -> Attempt {
    let trial = match access {
        Access::Trial(trial) => Some(trial),
        Access::Open | Access::Resting(_) => None,
    };
    Attempt::new(server, trial)
}

fn addresses(upstream: &settings::Upstream) -> Result<Vec<Address>, UpstreamError> {
    let Servers::Urls(urls) = &upstream.servers else { return Ok(Vec::new()) };
    let wrong = |url, fault| UpstreamError::Url { upstream: upstream.name.clone(), url: without_login(url), fault };
    urls.iter().map(|url| Address::parse(url).map_err(|fault| wrong(url, fault))).collect()
}

/// A URL that may be shown to anybody.
fn without_login(url: &str) -> String {
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
            value: without_login(host),
            remedy: "write a name such as shop.example",
        }),
    }
}

fn refuse_zeros(upstream: &settings::Upstream) -> Result<(), UpstreamError> {
    let mut fields = vec![("connections", upstream.connections == Some(0))];
    fields.push(("timeouts.connect", upstream.timeouts.connect.is_zero()));
    if let Some(check) = &upstream.health {
        fields.push(("health.every", check.every.is_zero()));
        fields.push(("health.timeout", check.timeout.is_zero()));
        fields.push(("health.failures", check.failures == 0));
        fields.push(("health.successes", check.successes == 0));
    }
    match fields.into_iter().find(|(_, is_zero)| *is_zero) {
        Some((field, _)) => Err(UpstreamError::Zero { upstream: upstream.name.clone(), field }),
        None => Ok(()),
    }
}

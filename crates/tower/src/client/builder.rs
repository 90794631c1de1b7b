//! Builder of client-side limits: service names, waits and pacing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::Sluice;
use sluicegate_engine::rule::AttributeMap;

use super::call::{Call, authority, split_port};
use super::counts::ClientLimitCounters;
use super::destinations::Destinations;
use super::jitter::Jitter;
use super::pacer::Pace;
use super::{ClientLimit, ClientLimitState};

type NameOf = Box<dyn Fn(&Call<'_>) -> Option<String> + Send + Sync>;
type AttributesOf = Box<dyn Fn(&Call<'_>, &mut AttributeMap) + Send + Sync>;

/// Builds a [`ClientLimit`].
#[must_use = "nothing is limited until `build` is called"]
pub struct ClientLimitBuilder {
    sluice: Sluice,
    names: ServiceNames,
    attributes: Option<AttributesOf>,
    max_wait: Duration,
    max_waiting: usize,
    max_hold: Duration,
    max_destinations: usize,
    pace: Pace,
    jitter: Jitter,
}

/// Sources of a service's name.
#[derive(Default)]
pub(super) struct ServiceNames {
    by_call: Option<NameOf>,
    by_host: HashMap<String, String>,
    default_name: Option<String>,
}

impl ServiceNames {
    /// The service's name, if it has one.
    fn service_name<'n>(&'n self, call: &Call<'_>) -> Option<Cow<'n, str>> {
        let by_call = || self.by_call.as_ref().and_then(|name_of| name_of(call)).map(Cow::Owned);
        let by_host = || {
            let name = self.by_host.get(&call.authority()).or_else(|| self.by_host.get(&call.host_name()));
            name.map(|name| Cow::Borrowed(name.as_str()))
        };
        by_call().or_else(by_host).or_else(|| self.default_name.as_deref().map(Cow::Borrowed))
    }

    /// The service as rules name it, and the destination that server hints are stored under: the service's
    /// name for both, else the host, and host and port.
    pub(super) fn service_and_destination<'n>(&'n self, call: &Call<'_>) -> (Cow<'n, str>, Cow<'n, str>) {
        match self.service_name(call) {
            Some(name) => (name.clone(), name),
            None => (Cow::Owned(call.host_name()), Cow::Owned(call.authority())),
        }
    }
}

impl ClientLimitBuilder {
    pub(super) fn new(sluice: Sluice) -> Self {
        Self {
            sluice,
            names: ServiceNames::default(),
            attributes: None,
            max_wait: Duration::from_secs(10),
            max_waiting: 1_000,
            max_hold: Duration::from_secs(3_600),
            max_destinations: 1_024,
            pace: Pace::default(),
            jitter: Jitter::random(),
        }
    }

    /// The called service, unless a host or [`ClientLimitBuilder::service_by`] names another.
    /// Without any name, the service is the host.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.names.default_name = Some(name.into());
        self
    }

    /// The service behind a host, or behind one port of it. Several hosts may be one
    /// service: they share its server hints.
    pub fn host(mut self, host: impl AsRef<str>, service: impl Into<String>) -> Self {
        let (host, port) = split_port(host.as_ref());
        self.names.by_host.insert(authority(host, port), service.into());
        self
    }

    /// Function that names the service of a call; takes precedence over the other names.
    pub fn service_by(mut self, name_of: impl Fn(&Call<'_>) -> Option<String> + Send + Sync + 'static) -> Self {
        self.names.by_call = Some(Box::new(name_of));
        self
    }

    /// Custom attributes of a call, for the rules' keys and conditions.
    pub fn attributes(mut self, add: impl Fn(&Call<'_>, &mut AttributeMap) + Send + Sync + 'static) -> Self {
        self.attributes = Some(Box::new(add));
        self
    }

    /// Maximum wait of a call for server hints; default 10 seconds. A call that
    /// would wait longer is refused at once. The wait for a rule is set by the rule.
    pub fn max_wait(mut self, max: Duration) -> Self {
        self.max_wait = max;
        self
    }

    /// Maximum calls waiting for one destination; default 1,000.
    pub fn max_waiting(mut self, max: usize) -> Self {
        self.max_waiting = max;
        self
    }

    /// Maximum validity of a server hint; default one hour. A broken or hostile server
    /// must not block a client indefinitely.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.max_hold = max;
        self
    }

    /// Maximum number of tracked destinations; default 1,024. Destinations with calls in flight
    /// are always tracked.
    pub fn max_destinations(mut self, max: usize) -> Self {
        self.max_destinations = max;
        self
    }

    /// Pacing of a server's budget.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Extra time added to `Retry-After`, or to the maximum hold. Default: random, up to a tenth of it
    /// and at most ten seconds: clients with the same hint must not return at the same instant.
    pub fn jitter(mut self, more: impl Fn(Duration) -> Duration + Send + Sync + 'static) -> Self {
        self.jitter = Jitter::new(more);
        self
    }

    /// Builds the layer.
    pub fn build(self) -> ClientLimit {
        ClientLimit(Arc::new(ClientLimitState {
            destinations: Destinations::new(self.max_destinations, self.pace, self.max_hold),
            sluice: self.sluice,
            names: self.names,
            attributes: self.attributes,
            max_wait: self.max_wait,
            max_waiting: self.max_waiting,
            max_hold: self.max_hold,
            jitter: self.jitter,
            counters: ClientLimitCounters::default(),
        }))
    }
}

pub(super) type AddAttributes = Option<AttributesOf>;

impl std::fmt::Debug for ClientLimitBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientLimitBuilder")
            .field("max_wait", &self.max_wait)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

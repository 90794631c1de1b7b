//! How calls are named, held and paced.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::Sluice;
use sluicegate_engine::rule::AttributeMap;

use super::call::{Call, authority, split_port};
use super::counts::Counters;
use super::destinations::Destinations;
use super::jitter::Jitter;
use super::pacer::Pace;
use super::{Outgoing, Shared};

type NameOf = Box<dyn Fn(&Call<'_>) -> Option<String> + Send + Sync>;
type AttributesOf = Box<dyn Fn(&Call<'_>, &mut AttributeMap) + Send + Sync>;

/// Makes an [`Outgoing`].
#[must_use = "nothing is limited until `build` is called"]
pub struct OutgoingBuilder {
    sluice: Sluice,
    names: Names,
    attributes: Option<AttributesOf>,
    max_wait: Duration,
    most_waiting: usize,
    longest_hold: Duration,
    most_destinations: usize,
    pace: Pace,
    jitter: Jitter,
}

/// Where the name of a service comes from.
#[derive(Default)]
pub(super) struct Names {
    by_call: Option<NameOf>,
    by_host: HashMap<String, String>,
    of_all: Option<String>,
}

impl Names {
    /// The service's name, if it has one.
    fn of<'n>(&'n self, call: &Call<'_>) -> Option<Cow<'n, str>> {
        let by_call = || self.by_call.as_ref().and_then(|name_of| name_of(call)).map(Cow::Owned);
        let by_host = || {
            let name = self.by_host.get(&call.authority()).or_else(|| self.by_host.get(&call.host_name()));
            name.map(|name| Cow::Borrowed(name.as_str()))
        };
        by_call().or_else(by_host).or_else(|| self.of_all.as_deref().map(Cow::Borrowed))
    }

    /// The service as rules name it, and the destination as its answers are remembered: the service's
    /// name for both, else the host, and host and port.
    pub(super) fn service_and_destination<'n>(&'n self, call: &Call<'_>) -> (Cow<'n, str>, Cow<'n, str>) {
        match self.of(call) {
            Some(name) => (name.clone(), name),
            None => (Cow::Owned(call.host_name()), Cow::Owned(call.authority())),
        }
    }
}

impl OutgoingBuilder {
    pub(super) fn new(sluice: Sluice) -> Self {
        Self {
            sluice,
            names: Names::default(),
            attributes: None,
            max_wait: Duration::from_secs(10),
            most_waiting: 1_000,
            longest_hold: Duration::from_secs(3_600),
            most_destinations: 1_024,
            pace: Pace::default(),
            jitter: Jitter::by_chance(),
        }
    }

    /// The service that calls go to, unless a host or [`OutgoingBuilder::service_by`] says otherwise.
    /// Without any name, the service is the host.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.names.of_all = Some(name.into());
        self
    }

    /// The service behind a host, or behind one port of it if that is given. Several hosts may be one
    /// service: they share what its answers say.
    pub fn host(mut self, host: impl AsRef<str>, service: impl Into<String>) -> Self {
        let (host, port) = split_port(host.as_ref());
        self.names.by_host.insert(authority(host, port), service.into());
        self
    }

    /// The service of a call, where neither one name nor the host tells; it comes first.
    pub fn service_by(mut self, name_of: impl Fn(&Call<'_>) -> Option<String> + Send + Sync + 'static) -> Self {
        self.names.by_call = Some(Box::new(name_of));
        self
    }

    /// Further attributes of a call, for the rules' keys and conditions.
    pub fn attributes(mut self, add: impl Fn(&Call<'_>, &mut AttributeMap) + Send + Sync + 'static) -> Self {
        self.attributes = Some(Box::new(add));
        self
    }

    /// The longest a call waits because of what the server said; 10 seconds unless told otherwise. Who
    /// would have to wait longer is refused at once. How long it waits for a rule, the rule says.
    pub fn max_wait(mut self, longest: Duration) -> Self {
        self.max_wait = longest;
        self
    }

    /// The most calls that wait for one destination; 1,000 unless told otherwise.
    pub fn max_waiting(mut self, most: usize) -> Self {
        self.most_waiting = most;
        self
    }

    /// The longest that anything a server says counts; an hour unless told otherwise. A server that
    /// is broken or hostile must not silence a caller for ever.
    pub fn longest_hold(mut self, longest: Duration) -> Self {
        self.longest_hold = longest;
        self
    }

    /// How many destinations are remembered; 1,024 unless told otherwise. Those with calls under way
    /// are always remembered.
    pub fn max_destinations(mut self, most: usize) -> Self {
        self.most_destinations = most;
        self
    }

    /// How a server's budget is spent.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// How much longer than `Retry-After` asks, or than the longest hold, nothing is sent. By itself up to a tenth of it, by
    /// chance, and ten seconds at most: a fleet that was told the same must not return in one instant.
    pub fn jitter(mut self, more: impl Fn(Duration) -> Duration + Send + Sync + 'static) -> Self {
        self.jitter = Jitter::by(more);
        self
    }

    /// Ready to be put around a client.
    pub fn build(self) -> Outgoing {
        Outgoing(Arc::new(Shared {
            destinations: Destinations::new(self.most_destinations, self.pace, self.longest_hold),
            sluice: self.sluice,
            names: self.names,
            attributes: self.attributes,
            max_wait: self.max_wait,
            most_waiting: self.most_waiting,
            longest_hold: self.longest_hold,
            jitter: self.jitter,
            counters: Counters::default(),
        }))
    }
}

pub(super) type AddAttributes = Option<AttributesOf>;

impl std::fmt::Debug for OutgoingBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutgoingBuilder")
            .field("max_wait", &self.max_wait)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

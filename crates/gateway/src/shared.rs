//! What all threads of a gateway share.

use bytes::Bytes;
use http::Response;
use sluicegate_config::settings::Timeouts;
use sluicegate_door::Workers;
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http::Renderer;
use sluicegate_http::attributes::AttributeSources;
use sluicegate_http::identity::Forwarding;

use crate::log::AccessLog;
use crate::neighbours::Neighbours;
use crate::route::Router;
use crate::tally::Tallies;
use crate::upstream::Upstreams;

/// Everything that is the same for all requests.
pub(crate) struct Shared {
    pub(crate) clock: ClockHandle,
    pub(crate) sluice: Sluice,
    pub(crate) renderer: Renderer,
    pub(crate) forwarding: Forwarding,
    pub(crate) sources: AttributeSources,
    pub(crate) router: Router,
    /// Where routes lead, by their numbers.
    pub(crate) places: Vec<Place>,
    pub(crate) upstreams: Upstreams,
    pub(crate) workers: Workers,
    /// Where requests are noted, if anywhere.
    pub(crate) log: Option<AccessLog>,
    pub(crate) timeouts: Timeouts,
    /// Its threads, as they see each other.
    pub(crate) neighbours: Neighbours,
    /// What all threads have answered.
    pub(crate) tallies: Tallies,
    /// How many bytes the head of a request may have.
    pub(crate) longest_head: usize,
}

/// Where a route leads.
pub(crate) enum Place {
    /// To an upstream.
    Upstream(Way),
    /// To the built-in demo, under this name.
    Demo(String),
    /// It is answered here.
    Answer(Response<Bytes>),
}

/// How a request gets to an upstream.
pub(crate) struct Way {
    /// The upstream's number.
    pub(crate) upstream: usize,
    /// Its name: what rules know as the service.
    pub(crate) name: String,
    /// What is taken off the front of the path.
    pub(crate) strip: Option<String>,
}

impl Place {
    /// What rules know it as: `match: service shop`.
    pub(crate) fn service(&self) -> &str {
        match self {
            Self::Upstream(way) => &way.name,
            Self::Demo(name) => name,
            Self::Answer(_) => "",
        }
    }
}

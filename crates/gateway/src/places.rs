//! From settings to where routes lead, and who clients are.

use http::HeaderValue;
use http::header::HeaderName;
use sluicegate_config::settings::{self, Destination, ForwardedHeader, HostHeader, Servers};
use sluicegate_http::identity::{self, Forwarding, TrustedProxies};
use sluicegate_http::reply;

use crate::shared::{Place, Way};
use crate::upstream::Upstreams;

/// Where each route leads.
pub(crate) fn of(gateway: &settings::Gateway, upstreams: &Upstreams) -> Vec<Place> {
    gateway.routes.iter().map(|route| place(&route.to, upstreams)).collect()
}

fn place(to: &Destination, upstreams: &Upstreams) -> Place {
    match to {
        Destination::Answer(answer) => Place::Answer(reply::plain(answer)),
        Destination::Upstream { name, strip } => {
            // The reader of rule files sees to it that there is one; a route to nowhere finds no server.
            let Some(position) = upstreams.position(name) else { return Place::Demo(name.clone()) };
            let upstream = upstreams.get(position).settings();
            if upstream.servers == Servers::Builtin {
                return Place::Demo(name.clone());
            }
            let fixed_host = match &upstream.host {
                HostHeader::Fixed(host) => HeaderValue::from_str(host).ok(),
                HostHeader::Client | HostHeader::Server => None,
            };
            let (host, strip) = (upstream.host.clone(), strip.clone());
            Place::Upstream(Way { upstream: position, name: name.clone(), strip, host, fixed_host })
        }
    }
}

/// Whose word about clients counts.
pub(crate) fn forwarding(gateway: &settings::Gateway) -> Forwarding {
    let trusted: TrustedProxies = gateway.trusted_proxies.iter().copied().collect();
    Forwarding::from(trusted).with_header(match &gateway.forwarded {
        ForwardedHeader::XForwardedFor => identity::ForwardedHeader::XForwardedFor,
        ForwardedHeader::Forwarded => identity::ForwardedHeader::Forwarded,
        ForwardedHeader::Single(name) => {
            HeaderName::try_from(name).map_or(identity::ForwardedHeader::Nothing, identity::ForwardedHeader::Single)
        }
    })
}

//! Builds the route targets from the settings.

use sluicegate_config::settings::{self, Destination, Servers};
use sluicegate_http_adapter::reply;

use crate::context::{RouteTarget, UpstreamTarget};
use crate::upstream::Upstreams;

/// Builds the target of each route.
pub(crate) fn build(gateway: &settings::Gateway, upstreams: &Upstreams) -> Vec<RouteTarget> {
    gateway.routes.iter().map(|route| build_target(&route.to, upstreams)).collect()
}

fn build_target(to: &Destination, upstreams: &Upstreams) -> RouteTarget {
    match to {
        Destination::Respond(response) => RouteTarget::Static(reply::render_reply(response)),
        Destination::Upstream { name, strip } => {
            // The rule file parser guarantees that the upstream exists.
            let Some(position) = upstreams.position(name) else { return RouteTarget::Demo(name.clone()) };
            let upstream = upstreams.get(position).settings();
            if upstream.servers == Servers::Builtin {
                return RouteTarget::Demo(name.clone());
            }
            RouteTarget::Upstream(UpstreamTarget { upstream: position, name: name.clone(), strip: strip.clone() })
        }
    }
}

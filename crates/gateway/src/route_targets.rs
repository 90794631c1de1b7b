//! Builds the route targets from the settings.

use sluicegate_config::settings::{self, Destination, Servers};
use sluicegate_http_adapter::reply;
use thiserror::Error;

use crate::context::{RouteTarget, UpstreamTarget};
use crate::upstream::Upstreams;

/// A route to an upstream that does not exist.
#[derive(Debug, Error)]
#[error("a route leads to the upstream {0:?}, which is not defined: add it to `upstreams`")]
pub struct UnknownUpstream(String);

/// Builds the target of each route.
pub(crate) fn build(gateway: &settings::Gateway, upstreams: &Upstreams) -> Result<Vec<RouteTarget>, UnknownUpstream> {
    gateway.routes.iter().map(|route| build_target(&route.to, upstreams)).collect()
}

fn build_target(to: &Destination, upstreams: &Upstreams) -> Result<RouteTarget, UnknownUpstream> {
    Ok(match to {
        Destination::Respond(response) => RouteTarget::Static(reply::render_reply(response)),
        Destination::Upstream { name, strip } => {
            // The rule file parser reports this first; settings built by a program may lack the upstream.
            let position = upstreams.position(name).ok_or_else(|| UnknownUpstream(name.clone()))?;
            match upstreams.get(position).settings().servers {
                Servers::Builtin => RouteTarget::Demo(name.clone()),
                _ => RouteTarget::Upstream(UpstreamTarget {
                    upstream: position,
                    name: name.clone(),
                    strip: strip.clone(),
                }),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sluicegate_engine::clock::{ClockHandle, ManualClock};

    use super::*;

    #[test]
    fn a_route_to_an_unknown_upstream_is_an_error() {
        let clock: ClockHandle = ManualClock::new().into();
        let upstreams = Upstreams::new(&[], Path::new("."), &clock).unwrap();
        let to = Destination::Upstream { name: "shop".to_owned(), strip: None };
        let error = build_target(&to, &upstreams).err().map(|error| error.to_string());
        let expected = "a route leads to the upstream \"shop\", which is not defined: add it to `upstreams`";
        assert_eq!(error.as_deref(), Some(expected));
    }
}

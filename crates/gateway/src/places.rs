//! From settings to where routes lead.

use sluicegate_config::settings::{self, Destination, Servers};
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
            Place::Upstream(Way { upstream: position, name: name.clone(), strip: strip.clone() })
        }
    }
}

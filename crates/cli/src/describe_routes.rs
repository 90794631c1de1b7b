//! Text description of the gateway: its listeners and routes.

use serde_json::{Map, Value, json};
use sluicegate_config::settings::{Destination, Gateway, Listener, Route, Servers, Upstream};
use sluicegate_engine::rule::Reply;
use sluicegate_terminal::table::{RowStyle, draw};

/// The gateway as text.
pub(crate) fn render_text(gateway: &Gateway) -> String {
    let listeners: Vec<String> = gateway.listen.iter().map(listener).collect();
    let mut page = format!("gateway at {}\n", listeners.join(", "));
    if !gateway.routes.is_empty() {
        let rows = gateway.routes.iter().map(|route| [requests(route), destination(gateway, route)]).collect();
        page.push('\n');
        page.push_str(&draw(RowStyle::Plain, ["requests", "destination"], rows));
    }
    page
}

/// The gateway as JSON.
pub(crate) fn render_json(gateway: &Gateway) -> Value {
    let listen = |it: &Listener| json!({ "address": it.address.to_string(), "tls": it.tls.is_some(), "proxy_protocol": it.proxy_protocol });
    let upstream = |it: &Upstream| {
        let servers = match &it.servers {
            Servers::Builtin => json!("builtin"),
            Servers::Urls(urls) => json!(urls),
        };
        (it.name.clone(), servers)
    };
    let route = |it: &Route| {
        let to = match &it.to {
            Destination::Upstream { name, strip } => json!({ "upstream": name, "strip_prefix": strip }),
            Destination::Respond(Reply::Redirect { status, location }) => {
                json!({ "status": status, "location": location })
            }
            Destination::Respond(Reply::Refuse { status, .. } | Reply::Degrade { status, .. }) => {
                json!({ "status": status })
            }
        };
        json!({ "host": it.host, "methods": it.methods, "path": it.path, "to": to })
    };
    json!({
        "listen": gateway.listen.iter().map(listen).collect::<Vec<_>>(),
        "upstreams": gateway.upstreams.iter().map(upstream).collect::<Map<_, _>>(),
        "routes": gateway.routes.iter().map(route).collect::<Vec<_>>(),
    })
}

fn listener(listener: &Listener) -> String {
    let address = listener.address;
    match (listener.tls.is_some(), listener.proxy_protocol) {
        (false, false) => address.to_string(),
        (true, false) => format!("{address} (TLS)"),
        (false, true) => format!("{address} (PROXY)"),
        (true, true) => format!("{address} (PROXY, TLS)"),
    }
}

/// `GET|POST shop.example/v1/{*rest}`.
fn requests(route: &Route) -> String {
    let methods = route.methods.join("|");
    let space = if methods.is_empty() { "" } else { " " };
    format!("{methods}{space}{}{}", route.host.as_deref().unwrap_or_default(), route.path)
}

fn destination(gateway: &Gateway, route: &Route) -> String {
    match &route.to {
        Destination::Upstream { name, strip } => {
            let servers = match gateway.upstreams.iter().find(|it| it.name == *name).map(|it| &it.servers) {
                Some(Servers::Urls(urls)) => urls.join(", "),
                Some(Servers::Builtin) => "built-in demo".to_owned(),
                None => "unknown upstream".to_owned(),
            };
            let strip = strip.as_deref().map_or_else(String::new, |strip| format!(", strip_prefix {strip}"));
            format!("{name}: {servers}{strip}")
        }
        Destination::Respond(Reply::Redirect { status, location }) => format!("redirect {status} to {location}"),
        Destination::Respond(Reply::Refuse { status, .. } | Reply::Degrade { status, .. }) => {
            format!("response {status}")
        }
    }
}

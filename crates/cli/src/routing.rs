//! The gateway in words: where it listens, and which requests go where.

use serde_json::{Map, Value, json};
use sluicegate_config::settings::{Destination, Gateway, Listener, Route, Servers, Upstream};
use sluicegate_engine::rule::Reply;

use crate::table::{Rows, draw};

/// The gateway as a few lines of text.
pub(crate) fn page(gateway: &Gateway) -> String {
    let listeners: Vec<String> = gateway.listen.iter().map(listener).collect();
    let mut page = format!("gateway at {}\n", listeners.join(", "));
    if !gateway.routes.is_empty() {
        let rows = gateway.routes.iter().map(|route| [requests(route), destination(gateway, route)]).collect();
        page.push('\n');
        page.push_str(&draw(Rows::Plain, ["requests", "go to"], rows));
    }
    page
}

/// The gateway for programs.
pub(crate) fn document(gateway: &Gateway) -> Value {
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
            Destination::Upstream { name, strip } => json!({ "upstream": name, "strip": strip }),
            Destination::Answer(Reply::Redirect { status, location }) => {
                json!({ "status": status, "location": location })
            }
            Destination::Answer(Reply::Refuse { status, .. } | Reply::Degrade { status, .. }) => {
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
                Some(Servers::Builtin) => "the built-in demo program".to_owned(),
                None => "nowhere".to_owned(),
            };
            let strip = strip.as_deref().map_or_else(String::new, |strip| format!(", without {strip}"));
            format!("{name}: {servers}{strip}")
        }
        Destination::Answer(Reply::Redirect { status, location }) => format!("answered here: {status} to {location}"),
        Destination::Answer(Reply::Refuse { status, .. } | Reply::Degrade { status, .. }) => {
            format!("answered here: {status}")
        }
    }
}

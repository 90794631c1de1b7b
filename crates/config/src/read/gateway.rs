//! `gateway`, `server` and `admin`.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::fields::Fields;
use super::item::Item;
use super::nearest;
use crate::diagnostic::{Finding, quoted};
use crate::grammar::Shape;
use crate::settings::{
    self, Admin, Connections, Destination, ForwardedHeader, Gateway, Route, Server, Servers, Timeouts, Upstream,
};
use crate::source::Span;
use crate::tree::Value;

/// Where something listens, and where the file says so.
pub(crate) type Listener = (SocketAddr, Span);

/// Reads `gateway`.
pub(crate) fn gateway(fields: &Fields<'_>, listeners: &mut Vec<Listener>) -> Gateway {
    let listen = listener(fields, "listen", listeners).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)));
    let connections = fields.section("connections").map(|it| connections(&it)).unwrap_or_default();
    let in_flight = fields.count32("in_flight");
    let networks = fields.get("trusted_proxies").and_then(|it| it.items());
    let trusted_proxies = networks.into_iter().flatten().filter_map(|it| it.network()).collect();
    let upstreams = fields.get("upstreams").map(upstreams).unwrap_or_default();
    let routes = fields.get("routes").map(|it| routes(it, &upstreams)).unwrap_or_default();
    Gateway {
        listen: vec![settings::Listener { address: listen, tls: None, proxy_protocol: false }],
        connections,
        in_flight,
        threads: None,
        trusted_proxies,
        forwarded: ForwardedHeader::default(),
        attributes: Vec::new(),
        jwt: None,
        timeouts: Timeouts::default(),
        max_head: 64 << 10,
        access_log: None,
        upstreams,
        routes,
    }
}

/// Reads `server`.
pub(crate) fn server(fields: &Fields<'_>, listeners: &mut Vec<Listener>) -> Server {
    Server {
        rls: listener(fields, "rls", listeners),
        http: listener(fields, "http", listeners),
        resp: listener(fields, "resp", listeners),
    }
}

/// Reads `admin`.
pub(crate) fn admin(fields: &Fields<'_>, listeners: &mut Vec<Listener>) -> Admin {
    let listen = listener(fields, "listen", listeners).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 9900)));
    if !listen.ip().is_loopback() {
        fields.context.report(
            Finding::warning(fields.value_span("listen"), "the admin pages can be reached from other machines")
                .label("not a loopback address")
                .help("listen on 127.0.0.1 unless a firewall stands before it"),
        );
    }
    Admin { listen }
}

/// An address to listen on. Two of the same are reported: the second could not be had.
fn listener(fields: &Fields<'_>, name: &'static str, listeners: &mut Vec<Listener>) -> Option<SocketAddr> {
    let item = fields.get(name)?;
    let address = item.address()?;
    let taken = listeners.iter().find(|(other, _)| {
        let meet = |a: &SocketAddr, b: &SocketAddr| a.ip().is_unspecified() && a.is_ipv4() == b.is_ipv4();
        address.port() != 0
            && other.port() == address.port()
            && (other.ip() == address.ip() || meet(other, &address) || meet(&address, other))
    });
    if let Some((other, span)) = taken {
        item.context.report(
            Finding::error(item.span(), format!("{address} is taken by another listener"))
                .label("cannot be had twice")
                .also(*span, format!("{other} is given out here"))
                .help("give each listener a port of its own"),
        );
    }
    listeners.push((address, item.span()));
    Some(address)
}

fn connections(fields: &Fields<'_>) -> Connections {
    let usual = Connections::default();
    Connections {
        max: fields.count32("max").unwrap_or(usual.max),
        queue: fields.count32("queue").unwrap_or(usual.queue),
        per_client: fields.count32("per_client"),
    }
}

fn upstreams(item: Item<'_>) -> Vec<Upstream> {
    let (Value::Map(entries), Shape::Map(shape)) = (&item.node.value, item.shape) else {
        item.mismatch(Some("write `upstreams: { name: [\"http://127.0.0.1:9001\"] }`".to_owned()));
        return Vec::new();
    };
    let mut upstreams = Vec::new();
    for entry in entries {
        let value = Item { node: &entry.value, shape, ..item }.narrow();
        let servers = match value.shape {
            Shape::Word(_) => value.word().map(|_| Servers::Builtin),
            Shape::Url => url(&value).map(|url| Servers::Urls(vec![url])),
            Shape::List(_) => value.items().map(|items| Servers::Urls(items.filter_map(|it| url(&it)).collect())),
            _ => {
                value.mismatch(None);
                None
            }
        };
        if let Value::List(nodes) = &entry.value.value
            && nodes.is_empty()
        {
            item.context.report(
                Finding::error(entry.value.span, format!("upstream `{}` has no server", entry.key))
                    .label("empty")
                    .help("give it at least one URL"),
            );
        }
        // A wrong one keeps its name, so that routes to it are not reported too.
        let servers = servers.unwrap_or(Servers::Builtin);
        upstreams.push(Upstream::new(entry.key.to_string(), servers));
    }
    upstreams
}

fn url(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let fault = match host {
        None if text == "builtin" => "`builtin` stands alone, not in a list",
        None => "does not begin with http:// or https://",
        Some("") => "no host",
        Some(host) if host.contains('@') => "a login has no place here",
        Some(host) if !has_good_port(host) => "the port is no number from 1 to 65535",
        Some(_) if !text.bytes().all(|b| b.is_ascii_graphic()) => "spaces and special characters must be escaped",
        Some(_) if text.contains(['?', '#']) => "a base URL has no query",
        Some(_) => return Some(text.to_owned()),
    };
    item.context.report(
        Finding::error(item.span(), format!("{} is no upstream", quoted(text)))
            .label(fault)
            .help("write a URL such as http://127.0.0.1:9001"),
    );
    None
}

fn has_good_port(host: &str) -> bool {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => {
            !name.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        }
        _ => true,
    }
}

fn routes(item: Item<'_>, upstreams: &[Upstream]) -> Vec<Route> {
    let mut seen: HashMap<String, Span> = HashMap::new();
    let mut routes = Vec::new();
    for item in item.items().into_iter().flatten() {
        let Some(fields) = item.section() else { continue };
        let path = fields.get("path").and_then(|it| route_path(&it));
        let upstream = fields.get("upstream").and_then(|it| Some((it.text()?, it.span())));
        if let Some((name, span)) = upstream
            && !upstreams.iter().any(|it| it.name == name)
        {
            let known = || upstreams.iter().map(|it| it.name.as_str());
            let help = match nearest(name, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if upstreams.is_empty() => "say under `upstreams` where it is".to_owned(),
                None => format!("known are {}", known().collect::<Vec<_>>().join(", ")),
            };
            item.context.report(
                Finding::error(span, format!("there is no upstream {}", quoted(name))).label("not known").help(help),
            );
        }
        let (Some(path), Some((upstream, _))) = (path, upstream) else { continue };
        if let Some(first) = seen.insert(path.clone(), fields.value_span("path")) {
            item.context.report(
                Finding::error(fields.value_span("path"), format!("the path {} is routed twice", quoted(&path)))
                    .label("again here")
                    .also(first, "first here")
                    .help("keep one of them"),
            );
        }
        let to = Destination::Upstream { name: upstream.to_owned(), strip: None };
        routes.push(Route { host: None, methods: Vec::new(), path, to });
    }
    routes
}

fn route_path(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    match route_fault(text) {
        None => Some(text.to_owned()),
        Some(fault) => {
            item.context.report(
                Finding::error(item.span(), format!("{} is no route", quoted(text)))
                    .label(fault)
                    .help("write a path such as /api/orders/{id} or /api/{*rest}"),
            );
            None
        }
    }
}

/// What is wrong with a route's path.
fn route_fault(path: &str) -> Option<&'static str> {
    let Some(rest) = path.strip_prefix('/') else { return Some("does not begin with `/`") };
    if path.chars().any(|c| c.is_control() || c == ' ') {
        return Some("has a space or control character");
    }
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let inner = segment.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let name = match inner {
            Some(inner) => inner.strip_prefix('*').unwrap_or(inner),
            None if segment.contains(['{', '}']) => return Some("`{name}` must be a whole segment"),
            None if segment.contains('*') => return Some("`*` stands only within `{*name}`"),
            None => continue,
        };
        if name.is_empty() || name.contains(['{', '}', '*']) {
            return Some("a parameter needs a name");
        }
        if inner.is_some_and(|inner| inner.starts_with('*')) && segments.peek().is_some() {
            return Some("`{*name}` takes all that follows and must be last");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_whole_segments() {
        for good in ["/", "/api/{*rest}", "/{*rest}", "/a/{id}/b", "/a/"] {
            assert_eq!(route_fault(good), None, "{good}");
        }
        for bad in ["", "api", "/{*rest}/b", "/a{id}", "/{}", "/{*}", "/a b", "/**", "/{a}{b}"] {
            assert!(route_fault(bad).is_some(), "{bad}");
        }
    }
}

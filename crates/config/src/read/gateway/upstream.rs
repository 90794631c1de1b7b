//! `gateway.upstreams`.

use super::super::Context;
use super::super::beside::file_path;
use super::super::fields::Fields;
use super::super::host::host;
use super::super::item::Item;
use super::super::nearest;
use super::time;
use crate::diagnostic::{Finding, quoted};
use crate::grammar::Shape;
use crate::settings::{
    Balance, Destination, HealthCheck, HostHeader, Route, Servers, Upstream, UpstreamProtocol, UpstreamTimeouts,
};
use crate::source::Span;
use crate::tree::Value;

/// The upstreams, with the places of their names.
pub(super) fn upstreams(item: Item<'_>) -> Vec<(Upstream, Span)> {
    let (Value::Map(entries), Shape::Map(shape)) = (&item.node.value, item.shape) else {
        item.mismatch(Some("write `upstreams: { name: [\"http://127.0.0.1:9001\"] }`".to_owned()));
        return Vec::new();
    };
    let mut upstreams = Vec::new();
    for entry in entries {
        let value = Item { node: &entry.value, shape, ..item }.narrow();
        let upstream = match value.shape {
            Shape::Section(_) => value.section().map(|it| long_form(&entry.key, &it)),
            _ => servers(value, &entry.key).map(|servers| Upstream::new(entry.key.to_string(), servers)),
        };
        // A wrong one keeps its name, so that routes to it are not reported too.
        let upstream = upstream.unwrap_or_else(|| Upstream::new(entry.key.to_string(), Servers::Builtin));
        upstreams.push((upstream, entry.key_span));
    }
    upstreams
}

fn long_form(name: &str, fields: &Fields<'_>) -> Upstream {
    let servers = fields.get("servers").and_then(|it| servers(it.narrow(), name)).unwrap_or(Servers::Builtin);
    let usual = Upstream::new(name, servers);
    let balance = match fields.word("balance") {
        Some("least_in_flight") => Balance::LeastInFlight,
        _ => Balance::RoundRobin,
    };
    let protocol = match fields.word("protocol") {
        Some("http2") => UpstreamProtocol::Http2,
        _ => UpstreamProtocol::Http1,
    };
    let ca = fields.get("ca").and_then(|it| file_path(&it));
    let encrypted = matches!(&usual.servers, Servers::Urls(urls) if urls.iter().any(|url| url.starts_with("https://")));
    if ca.is_some() && !encrypted {
        fields.context.report(
            Finding::error(fields.value_span("ca"), "`ca` without encryption")
                .label("none of the servers is asked with TLS")
                .help("begin their URLs with https://, or remove `ca`"),
        );
    }
    Upstream {
        balance,
        protocol,
        health: fields.get("health").and_then(|it| health(it.narrow())),
        retries: fields.count32("retries").unwrap_or(usual.retries),
        host: fields.get("host").and_then(|it| host_header(it.narrow())).unwrap_or_default(),
        connections: fields.count32("connections"),
        ca,
        timeouts: fields.section("timeouts").map(|it| timeouts(&it)).unwrap_or_default(),
        ..usual
    }
}

fn servers(item: Item<'_>, name: &str) -> Option<Servers> {
    if let Value::List(nodes) = &item.node.value
        && nodes.is_empty()
    {
        item.context.report(
            Finding::error(item.span(), format!("upstream `{name}` has no server"))
                .label("empty")
                .help("give it at least one URL"),
        );
    }
    match item.shape {
        Shape::Word(_) => item.word().map(|_| Servers::Builtin),
        Shape::Url => url(&item).map(|url| Servers::Urls(vec![url])),
        Shape::List(_) => item.items().map(|items| Servers::Urls(items.filter_map(|it| url(&it)).collect())),
        _ => {
            item.mismatch(None);
            None
        }
    }
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

fn health(item: Item<'_>) -> Option<HealthCheck> {
    match item.shape {
        Shape::Path => health_path(&item).map(HealthCheck::new),
        Shape::Section(_) => {
            let fields = item.section()?;
            let path = fields.get("path").and_then(|it| health_path(&it));
            let usual = HealthCheck::new(String::new());
            let check = HealthCheck {
                every: time(&fields, "every", usual.every),
                timeout: time(&fields, "timeout", usual.timeout),
                failures: fields.count32("failures").unwrap_or(usual.failures),
                successes: fields.count32("successes").unwrap_or(usual.successes),
                path: String::new(),
            };
            Some(HealthCheck { path: path?, ..check })
        }
        _ => {
            item.mismatch(None);
            None
        }
    }
}

fn health_path(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    let fault = match text {
        _ if !text.starts_with('/') => "does not begin with `/`",
        _ if !text.bytes().all(|b| b.is_ascii_graphic()) => "spaces and special characters must be escaped",
        _ if text.contains('#') => "`#` is never sent",
        _ => return Some(text.to_owned()),
    };
    item.context.report(
        Finding::error(item.span(), format!("{} cannot be asked for", quoted(text)))
            .label(fault)
            .help("write a path such as /healthz"),
    );
    None
}

fn host_header(item: Item<'_>) -> Option<HostHeader> {
    match item.shape {
        Shape::Word(_) => match item.word()? {
            "server" => Some(HostHeader::Server),
            _ => Some(HostHeader::Client),
        },
        Shape::Host => {
            let name = host(&item)?;
            if let Some(near) = nearest(&name, ["client", "server"].into_iter()) {
                item.context.report(
                    Finding::warning(item.span(), format!("the upstream is sent the host {}", quoted(&name)))
                        .label("a fixed name")
                        .help(format!("did you mean `{near}`?")),
                );
            }
            Some(HostHeader::Fixed(name))
        }
        _ => {
            item.mismatch(None);
            None
        }
    }
}

fn timeouts(fields: &Fields<'_>) -> UpstreamTimeouts {
    let usual = UpstreamTimeouts::default();
    UpstreamTimeouts {
        connect: time(fields, "connect", usual.connect),
        answer: time(fields, "answer", usual.answer),
        body: time(fields, "body", usual.body),
        idle: time(fields, "idle", usual.idle),
    }
}

/// Upstreams that no route leads to.
pub(super) fn report_unused(context: &Context<'_>, upstreams: &[(Upstream, Span)], routes: &[(Route, Span)]) {
    let used: std::collections::HashSet<&str> = routes
        .iter()
        .filter_map(|(route, _)| match &route.to {
            Destination::Upstream { name, .. } => Some(name.as_str()),
            Destination::Answer(_) => None,
        })
        .collect();
    for (upstream, span) in upstreams.iter().filter(|(upstream, _)| !used.contains(upstream.name.as_str())) {
        let name = &upstream.name;
        context.report(
            Finding::warning(*span, format!("no route leads to the upstream {}", quoted(name)))
                .label("never asked")
                .help(format!("add `{{ path: \"/{{*rest}}\", upstream: {name} }}` to `routes`, or remove it")),
        );
    }
}

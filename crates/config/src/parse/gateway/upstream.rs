//! Parses `gateway.upstreams`.

use sluicegate_engine::spelling::nearest;

use super::super::ParseContext;
use super::super::host::host;
use super::super::map::FieldMap;
use super::super::paths::file_path;
use super::super::value::FieldValue;
use super::time;
use crate::diagnostic::{DiagnosticBuilder, quoted};
use crate::grammar::Shape;
use crate::settings::{
    Balance, Destination, HealthCheck, HostHeader, Route, Servers, Upstream, UpstreamProtocol, UpstreamTimeouts,
};
use crate::source::Span;
use crate::tree::Value;

/// Parses the upstreams with the spans of their names.
pub(super) fn upstreams(item: FieldValue<'_>) -> Vec<(Upstream, Span)> {
    let (Value::Map(entries), Shape::Map(shape)) = (&item.node.value, item.shape) else {
        item.mismatch(Some("write `upstreams: { name: [\"http://127.0.0.1:9001\"] }`".to_owned()));
        return Vec::new();
    };
    let mut upstreams = Vec::new();
    for entry in entries {
        let value = FieldValue { node: &entry.value, shape, ..item }.narrow();
        let upstream = match value.shape {
            Shape::Section(_) => value.section().map(|it| long_form(&entry.key, &it)),
            _ => servers(value, &entry.key).map(|servers| Upstream::new(entry.key.to_string(), servers)),
        };
        // An invalid upstream keeps its name, so that routes to it are not reported too.
        let upstream = upstream.unwrap_or_else(|| Upstream::new(entry.key.to_string(), Servers::Builtin));
        upstreams.push((upstream, entry.key_span));
    }
    upstreams
}

fn long_form(name: &str, fields: &FieldMap<'_>) -> Upstream {
    let servers = fields.get("servers").and_then(|it| servers(it.narrow(), name)).unwrap_or(Servers::Builtin);
    let defaults = Upstream::new(name, servers);
    let balance = match fields.keyword("balance") {
        Some("least_in_flight") => Balance::LeastInFlight,
        _ => Balance::RoundRobin,
    };
    let protocol = match fields.keyword("protocol") {
        Some("http2") => UpstreamProtocol::Http2,
        _ => UpstreamProtocol::Http1,
    };
    let ca = fields.get("ca").and_then(|it| file_path(&it));
    let uses_tls =
        matches!(&defaults.servers, Servers::Urls(urls) if urls.iter().any(|url| url.starts_with("https://")));
    if ca.is_some() && !uses_tls {
        fields.context.report(
            DiagnosticBuilder::error(fields.value_span("ca"), "`ca` requires TLS")
                .label("no server URL uses TLS")
                .help("start the server URLs with https://, or remove `ca`"),
        );
    }
    Upstream {
        balance,
        protocol,
        health: fields.get("health").and_then(|it| health(it.narrow())),
        retries: fields.count32("retries").unwrap_or(defaults.retries),
        host: fields.get("host").and_then(|it| host_header(it.narrow())).unwrap_or_default(),
        max_connections: fields.count32("max_connections"),
        ca,
        timeouts: fields.section("timeouts").map(|it| timeouts(&it)).unwrap_or_default(),
        ..defaults
    }
}

fn servers(item: FieldValue<'_>, name: &str) -> Option<Servers> {
    if let Value::List(nodes) = &item.node.value
        && nodes.is_empty()
    {
        item.context.report(
            DiagnosticBuilder::error(item.span(), format!("upstream `{name}` has no server"))
                .label("empty")
                .help("add a URL such as http://127.0.0.1:9001"),
        );
    }
    match item.shape {
        Shape::Keyword(_) => item.keyword().map(|_| Servers::Builtin),
        Shape::Url => url(&item).map(|url| Servers::Urls(vec![url])),
        Shape::List(_) => item.items().map(|items| Servers::Urls(items.filter_map(|it| url(&it)).collect())),
        _ => {
            item.mismatch(None);
            None
        }
    }
}

fn url(item: &FieldValue<'_>) -> Option<String> {
    let text = item.text()?;
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let error = match host {
        None if text == "builtin" => "`builtin` is not allowed in a list",
        None => "does not start with http:// or https://",
        Some("") => "no host",
        Some(host) if host.contains('@') => "a user name or password is not allowed",
        Some(host) if !has_valid_port(host) => "the port is not a number from 1 to 65535",
        Some(_) if !text.bytes().all(|b| b.is_ascii_graphic()) => "spaces and special characters must be escaped",
        Some(_) if text.contains(['?', '#']) => "a query or fragment is not allowed",
        Some(_) => return Some(text.to_owned()),
    };
    item.context.report(
        DiagnosticBuilder::error(item.span(), format!("{} is not a valid server URL", quoted(text)))
            .label(error)
            .help("write a URL such as http://127.0.0.1:9001"),
    );
    None
}

fn has_valid_port(host: &str) -> bool {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => {
            !name.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        }
        _ => true,
    }
}

fn health(item: FieldValue<'_>) -> Option<HealthCheck> {
    match item.shape {
        Shape::Path => health_path(&item).map(HealthCheck::new),
        Shape::Section(_) => {
            let fields = item.section()?;
            let path = fields.get("path").and_then(|it| health_path(&it));
            let defaults = HealthCheck::new(String::new());
            let check = HealthCheck {
                interval: time(&fields, "interval", defaults.interval),
                timeout: time(&fields, "timeout", defaults.timeout),
                failures: fields.count32("failures").unwrap_or(defaults.failures),
                successes: fields.count32("successes").unwrap_or(defaults.successes),
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

fn health_path(item: &FieldValue<'_>) -> Option<String> {
    let text = item.text()?;
    let error = match text {
        _ if !text.starts_with('/') => "does not start with `/`",
        _ if !text.bytes().all(|b| b.is_ascii_graphic()) => "spaces and special characters must be escaped",
        _ if text.contains('#') => "a fragment is not allowed",
        _ => return Some(text.to_owned()),
    };
    item.context.report(
        DiagnosticBuilder::error(item.span(), format!("{} is not a valid health check path", quoted(text)))
            .label(error)
            .help("write a path such as /healthz"),
    );
    None
}

fn host_header(item: FieldValue<'_>) -> Option<HostHeader> {
    match item.shape {
        Shape::Keyword(_) => match item.keyword()? {
            "server" => Some(HostHeader::Server),
            _ => Some(HostHeader::Client),
        },
        Shape::Host => {
            let name = host(&item)?;
            if let Some(near) = nearest(&name, ["client", "server"]) {
                item.context.report(
                    DiagnosticBuilder::warning(
                        item.span(),
                        format!("the upstream receives the fixed host {}", quoted(&name)),
                    )
                    .label("not a keyword")
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

fn timeouts(fields: &FieldMap<'_>) -> UpstreamTimeouts {
    let defaults = UpstreamTimeouts::default();
    UpstreamTimeouts {
        connect: time(fields, "connect", defaults.connect),
        response: time(fields, "response", defaults.response),
        body: time(fields, "body", defaults.body),
        idle: time(fields, "idle", defaults.idle),
    }
}

/// Reports upstreams that no route uses.
pub(super) fn report_unused(context: &ParseContext<'_>, upstreams: &[(Upstream, Span)], routes: &[(Route, Span)]) {
    let used: std::collections::HashSet<&str> = routes
        .iter()
        .filter_map(|(route, _)| match &route.to {
            Destination::Upstream { name, .. } => Some(name.as_str()),
            Destination::Respond(_) => None,
        })
        .collect();
    for (upstream, span) in upstreams.iter().filter(|(upstream, _)| !used.contains(upstream.name.as_str())) {
        let name = &upstream.name;
        context.report(
            DiagnosticBuilder::warning(*span, format!("no route uses the upstream {}", quoted(name)))
                .label("unused")
                .help(format!(
                    "add `{{ path: \"/{{*rest}}\", upstream: {name} }}` to `routes`, or remove the upstream"
                )),
        );
    }
}

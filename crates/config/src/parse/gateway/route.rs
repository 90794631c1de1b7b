//! Parses `gateway.routes`.

use std::collections::{HashMap, HashSet};

use sluicegate_engine::spelling::nearest;

use super::super::host::host_pattern;
use super::super::map::FieldMap;
use super::super::reply::{is_header_name, route_response};
use super::super::value::FieldValue;
use super::path::{route_path, strip_prefix, without_param_names};
use crate::diagnostic::{DiagnosticBuilder, quoted};
use crate::settings::{Destination, Route, Upstream};
use crate::source::Span;

/// Known methods, for spelling suggestions.
const KNOWN_METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];

/// Maximum number of upstreams listed in a message.
const MAX_NAMED: usize = 20;

/// Parses the routes with the spans of their paths.
pub(super) fn routes(item: FieldValue<'_>, upstreams: &[(Upstream, Span)]) -> Vec<(Route, Span)> {
    let upstreams = UpstreamNames::of(upstreams);
    let mut seen = DeclaredRoutes::default();
    let mut routes = Vec::new();
    for item in item.items().into_iter().flatten() {
        let Some(fields) = item.section() else { continue };
        let host = fields.get("host").map(|it| host_pattern(&it));
        let methods = fields.get("methods").map_or_else(|| Some(Vec::new()), methods);
        let path = fields.get("path").and_then(|it| route_path(&it));
        let to = destination(&fields, path.as_deref(), &upstreams);
        // An invalid host or method must not become a match-all.
        let host = host.map_or_else(|| Some(None), |host| host.map(Some));
        let (Some(host), Some(methods), Some(path), Some(to)) = (host, methods, path, to) else { continue };
        let route = Route { host, methods, path, to };
        seen.report_duplicate(&fields, &route);
        routes.push((route, fields.value_span("path")));
    }
    routes
}

/// Names of the upstreams.
struct UpstreamNames<'u> {
    all: HashSet<&'u str>,
    /// Names listed in messages.
    listed: Vec<&'u str>,
}

impl<'u> UpstreamNames<'u> {
    fn of(upstreams: &'u [(Upstream, Span)]) -> Self {
        let names = || upstreams.iter().map(|(upstream, _)| upstream.name.as_str());
        Self { all: names().collect(), listed: names().take(MAX_NAMED).collect() }
    }
}

/// Declared routes by host and path, then by method, with their spans.
#[derive(Default)]
struct DeclaredRoutes(HashMap<(Option<String>, String), HashMap<Option<String>, Span>>);

impl DeclaredRoutes {
    /// Reports a route that duplicates an earlier one. A route with methods is more specific than one without
    /// and is no duplicate.
    fn report_duplicate(&mut self, fields: &FieldMap<'_>, route: &Route) {
        let methods = route.methods.iter().cloned().map(Some);
        let any = route.methods.is_empty().then_some(None);
        let span = fields.value_span("path");
        let seen = self.0.entry((route.host.clone(), without_param_names(&route.path))).or_default();
        let mut duplicate = None;
        for method in methods.chain(any) {
            if let Some(first) = seen.insert(method.clone(), span) {
                duplicate = duplicate.or(Some((method, first)));
            }
        }
        let Some((method, first)) = duplicate else { return };
        let method = method.map_or_else(String::new, |method| format!("{method} "));
        let host = route.host.as_deref().unwrap_or_default();
        fields.context.report(
            DiagnosticBuilder::error(
                span,
                format!("duplicate route {}", quoted(&format!("{method}{host}{}", route.path))),
            )
            .label("duplicate")
            .with_related(first, "first route")
            .help("remove one of them, or distinguish them by `host` or `methods`"),
        );
    }
}

fn methods(item: FieldValue<'_>) -> Option<Vec<String>> {
    let mut methods = Vec::new();
    let mut spans: HashMap<String, Span> = HashMap::new();
    let mut is_valid = true;
    for item in item.items()? {
        let Some(method) = method(&item) else {
            is_valid = false;
            continue;
        };
        if let Some(first) = spans.insert(method.clone(), item.span()) {
            item.context.report(
                DiagnosticBuilder::error(item.span(), format!("duplicate method `{method}`"))
                    .label("duplicate")
                    .with_related(first, "first")
                    .help("remove one of them"),
            );
            continue;
        }
        methods.push(method);
    }
    if methods.is_empty() && is_valid {
        item.context.report(
            DiagnosticBuilder::error(item.span(), "the route has no method")
                .label("empty")
                .help("add a method such as GET, or remove `methods` to match all methods"),
        );
    }
    is_valid.then_some(methods)
}

fn method(item: &FieldValue<'_>) -> Option<String> {
    let text = item.text()?;
    let near = || nearest(text, KNOWN_METHODS);
    let error = match text {
        _ if !is_header_name(text) => "only letters are allowed",
        _ if text.bytes().any(|b| b.is_ascii_lowercase()) => "methods are upper case",
        _ => {
            if let Some(near) = near().filter(|near| *near != text) {
                item.context.report(
                    DiagnosticBuilder::warning(item.span(), format!("unusual method {}", quoted(text)))
                        .label("few clients send it")
                        .help(format!("did you mean `{near}`?")),
                );
            }
            return Some(text.to_owned());
        }
    };
    let help = match near() {
        Some(near) => format!("did you mean `{near}`?"),
        None if is_header_name(text) => format!("write {}", text.to_ascii_uppercase()),
        None => "write a method such as GET or POST".to_owned(),
    };
    item.context.report(
        DiagnosticBuilder::error(item.span(), format!("{} is not a valid method", quoted(text)))
            .label(error)
            .help(help),
    );
    None
}

fn destination(fields: &FieldMap<'_>, path: Option<&str>, upstreams: &UpstreamNames<'_>) -> Option<Destination> {
    let upstream = fields.get("upstream").and_then(|it| upstream(&it, upstreams));
    let strip = fields.get("strip_prefix").map(|it| strip_prefix(&it, path));
    let response = fields.section("respond").map(|it| route_response(&it));
    let is_present = |name| fields.has(name) || fields.has_typo_of(name);
    match (is_present("upstream"), is_present("respond")) {
        (false, false) => fields.context.report(
            DiagnosticBuilder::error(fields.first_key_span(), "the route has no target")
                .label("neither `upstream` nor `respond`")
                .help("add `upstream: NAME`, or `respond: { status: 404 }`"),
        ),
        (true, true) => fields.context.report(
            DiagnosticBuilder::error(fields.key_span("respond"), "`upstream` and `respond` are mutually exclusive")
                .label("second target")
                .with_related(fields.key_span("upstream"), "first target")
                .help("remove one of them"),
        ),
        (false, true) if strip.is_some() => fields.context.report(
            DiagnosticBuilder::error(fields.key_span("strip_prefix"), "`strip_prefix` has no effect")
                .label("the request is not forwarded")
                .help("remove `strip_prefix`, or use `upstream` instead of `respond`"),
        ),
        _ => {}
    }
    match (upstream, response) {
        (Some(name), _) => Some(Destination::Upstream { name, strip: strip.flatten() }),
        (None, Some(response)) => response.map(Destination::Respond),
        (None, None) => None,
    }
}

fn upstream(item: &FieldValue<'_>, upstreams: &UpstreamNames<'_>) -> Option<String> {
    let name = item.text()?;
    if !upstreams.all.contains(name) {
        let help = match nearest(name, upstreams.listed.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if upstreams.listed.is_empty() => "define it under `upstreams`".to_owned(),
            None => format!("known upstreams are {}", upstreams.listed.join(", ")),
        };
        item.context.report(
            DiagnosticBuilder::error(item.span(), format!("unknown upstream {}", quoted(name)))
                .label("not defined")
                .help(help),
        );
    }
    Some(name.to_owned())
}

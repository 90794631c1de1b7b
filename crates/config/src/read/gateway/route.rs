//! `gateway.routes`.

use std::collections::{HashMap, HashSet};

use super::super::fields::Fields;
use super::super::host::host_pattern;
use super::super::item::Item;
use super::super::nearest;
use super::super::reply::{answer, is_header_name};
use crate::diagnostic::{Finding, quoted};
use crate::settings::{Destination, Route, Upstream};
use crate::source::Span;

/// The methods that a slip of the pen is compared with.
const USUAL_METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];

/// The routes, with the places of their paths.
pub(super) fn routes(item: Item<'_>, upstreams: &[(Upstream, Span)]) -> Vec<(Route, Span)> {
    let mut seen = Seen::default();
    let mut routes = Vec::new();
    for item in item.items().into_iter().flatten() {
        let Some(fields) = item.section() else { continue };
        let host = fields.get("host").map(|it| host_pattern(&it));
        let methods = fields.get("methods").map_or_else(|| Some(Vec::new()), methods);
        let path = fields.get("path").and_then(|it| route_path(&it));
        let to = destination(&fields, path.as_deref(), upstreams);
        // What is wrong is not taken for any host or any method.
        let host = host.map_or_else(|| Some(None), |host| host.map(Some));
        let (Some(host), Some(methods), Some(path), Some(to)) = (host, methods, path, to) else { continue };
        let route = Route { host, methods, path, to };
        seen.report_again(&fields, &route);
        routes.push((route, fields.value_span("path")));
    }
    routes
}

/// Which requests were routed where in the file.
#[derive(Default)]
struct Seen(HashMap<(Option<String>, Option<String>, String), Span>);

impl Seen {
    /// Reports a route for requests that another one is for already. Where one is for some methods and the
    /// other for any, the first is the more exact.
    fn report_again(&mut self, fields: &Fields<'_>, route: &Route) {
        let methods = route.methods.iter().cloned().map(Some);
        let none = route.methods.is_empty().then_some(None);
        let span = fields.value_span("path");
        let mut again = None;
        for method in methods.chain(none) {
            let requests = (route.host.clone(), method.clone(), without_names(&route.path));
            if let Some(first) = self.0.insert(requests, span) {
                again = again.or(Some((method, first)));
            }
        }
        let Some((method, first)) = again else { return };
        let method = method.map_or_else(String::new, |method| format!("{method} "));
        let host = route.host.as_deref().unwrap_or_default();
        fields.context.report(
            Finding::error(span, format!("{} is routed twice", quoted(&format!("{method}{host}{}", route.path))))
                .label("again here")
                .also(first, "first here")
                .help("keep one of them, or tell them apart by `host` or `methods`"),
        );
    }
}

/// A path without the names of its parameters: two that differ in nothing else are for the same requests.
fn without_names(path: &str) -> String {
    let segment = |segment: &str| match segment {
        _ if segment.starts_with("{*") => "{*}".to_owned(),
        _ if segment.starts_with('{') => "{}".to_owned(),
        literal => literal.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn methods(item: Item<'_>) -> Option<Vec<String>> {
    let mut methods: Vec<(String, Span)> = Vec::new();
    let mut sound = true;
    for item in item.items()? {
        let Some(method) = method(&item) else {
            sound = false;
            continue;
        };
        match methods.iter().find(|(other, _)| *other == method) {
            None => methods.push((method, item.span())),
            Some((_, first)) => item.context.report(
                Finding::error(item.span(), format!("`{method}` is among the methods already"))
                    .label("again here")
                    .also(*first, "first here")
                    .help("keep one of them"),
            ),
        }
    }
    if methods.is_empty() && sound {
        item.context.report(
            Finding::error(item.span(), "this route is for no method")
                .label("empty")
                .help("name one such as GET, or leave `methods` out for any"),
        );
    }
    sound.then(|| methods.into_iter().map(|(method, _)| method).collect())
}

fn method(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    let near = || nearest(text, USUAL_METHODS.into_iter());
    let fault = match text {
        _ if !is_header_name(text) => "letters only",
        _ if text.bytes().any(|b| b.is_ascii_lowercase()) => "methods are written in capitals",
        _ => {
            if let Some(near) = near().filter(|near| *near != text) {
                item.context.report(
                    Finding::warning(item.span(), format!("{} is no usual method", quoted(text)))
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
    item.context.report(Finding::error(item.span(), format!("{} is no method", quoted(text))).label(fault).help(help));
    None
}

fn destination(fields: &Fields<'_>, path: Option<&str>, upstreams: &[(Upstream, Span)]) -> Option<Destination> {
    let upstream = fields.get("upstream").and_then(|it| upstream(&it, upstreams));
    let strip = fields.get("strip").map(|it| strip(&it, path));
    let answer = fields.section("answer").map(|it| answer(&it));
    let meant = |name| fields.has(name) || fields.has_slip_of(name);
    match (meant("upstream"), meant("answer")) {
        (false, false) => fields.context.report(
            Finding::error(fields.head(), "this route leads nowhere")
                .label("neither `upstream` nor `answer`")
                .help("add `upstream: NAME`, or `answer: { status: 404 }`"),
        ),
        (true, true) => fields.context.report(
            Finding::error(fields.key_span("answer"), "`upstream` and `answer` cannot both answer")
                .label("a second answer")
                .also(fields.key_span("upstream"), "the first")
                .help("keep one of them"),
        ),
        (false, true) if strip.is_some() => fields.context.report(
            Finding::error(fields.key_span("strip"), "`strip` has no effect")
                .label("nothing is sent on")
                .help("remove it, or name an `upstream` instead of `answer`"),
        ),
        _ => {}
    }
    match (upstream, answer) {
        (Some(name), _) => Some(Destination::Upstream { name, strip: strip.flatten() }),
        (None, Some(answer)) => answer.map(Destination::Answer),
        (None, None) => None,
    }
}

fn upstream(item: &Item<'_>, upstreams: &[(Upstream, Span)]) -> Option<String> {
    let name = item.text()?;
    let known = || upstreams.iter().map(|(it, _)| it.name.as_str());
    if !known().any(|it| it == name) {
        let help = match nearest(name, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if upstreams.is_empty() => "say under `upstreams` where it is".to_owned(),
            None => format!("known are {}", known().collect::<Vec<_>>().join(", ")),
        };
        item.context.report(
            Finding::error(item.span(), format!("there is no upstream {}", quoted(name))).label("not known").help(help),
        );
    }
    Some(name.to_owned())
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
    if path.contains(['?', '#']) {
        return Some("a path has no query");
    }
    let mut names: HashSet<&str> = HashSet::new();
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
        if !names.insert(name) {
            return Some("two parameters of one name");
        }
        if inner.is_some_and(|inner| inner.starts_with('*')) && segments.peek().is_some() {
            return Some("`{*name}` takes all that follows and must be last");
        }
    }
    None
}

fn strip(item: &Item<'_>, path: Option<&str>) -> Option<String> {
    let text = item.text()?;
    let Some((label, help)) = path.and_then(|path| strip_fault(text, path)) else { return Some(text.to_owned()) };
    item.context
        .report(Finding::error(item.span(), format!("{} cannot be taken off", quoted(text))).label(label).help(help));
    None
}

/// What is wrong with what is taken off a path, and the remedy.
fn strip_fault(strip: &str, path: &str) -> Option<(&'static str, String)> {
    let literal: Vec<&str> = path.split('/').skip(1).take_while(|segment| !segment.starts_with('{')).collect();
    let longest = || match literal.join("/").trim_end_matches('/') {
        "" => "remove it: there is nothing before the path's parameters".to_owned(),
        segments => format!("write a leading part of the path, at most /{segments}"),
    };
    let Some(rest) = strip.strip_prefix('/') else { return Some(("does not begin with `/`", longest())) };
    if rest.is_empty() {
        return Some(("nothing", "remove it".to_owned()));
    }
    if let Some(without) = strip.strip_suffix('/') {
        return Some(("whole segments only", format!("write {without}, without the slash at its end")));
    }
    let mut expected = literal.iter();
    let fits = rest.split('/').all(|segment| expected.next() == Some(&segment));
    (!fits).then(|| ("not what the path begins with", longest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_whole_segments() {
        for good in ["/", "/api/{*rest}", "/{*rest}", "/a/{id}/b", "/a/"] {
            assert_eq!(route_fault(good), None, "{good}");
        }
        for bad in ["", "api", "/{*rest}/b", "/a{id}", "/{}", "/{*}", "/a b", "/**", "/{a}{b}", "/a?b", "/{a}/{a}"] {
            assert!(route_fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn leading_segments_can_be_taken_off() {
        for (strip, path) in [("/v1", "/v1/{*rest}"), ("/a", "/a/b/{id}"), ("/a/b", "/a/b/{id}"), ("/a", "/a")] {
            assert_eq!(strip_fault(strip, path), None, "{strip} {path}");
        }
        for (strip, path) in [
            ("/v", "/v1/{*rest}"),
            ("/v1/x", "/v1/{*rest}"),
            ("v1", "/v1"),
            ("/", "/a"),
            ("/a/", "/a/b"),
            ("/a", "/{a}"),
        ] {
            assert!(strip_fault(strip, path).is_some(), "{strip} {path}");
        }
    }

    #[test]
    fn names_of_parameters_tell_no_paths_apart() {
        assert_eq!(without_names("/a/{id}/{*rest}"), without_names("/a/{name}/{*path}"));
        assert_ne!(without_names("/a/{id}"), without_names("/a/{*id}"));
    }
}

//! `gateway.routes`.

use std::collections::{HashMap, HashSet};

use super::super::fields::Fields;
use super::super::host::host_pattern;
use super::super::item::Item;
use super::super::nearest;
use super::super::reply::{answer, is_header_name};
use super::path::{route_path, strip, without_names};
use crate::diagnostic::{Finding, quoted};
use crate::settings::{Destination, Route, Upstream};
use crate::source::Span;

/// The methods that a slip of the pen is compared with.
const USUAL_METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];

/// How many upstreams a message names.
const MOST_NAMED: usize = 20;

/// The routes, with the places of their paths.
pub(super) fn routes(item: Item<'_>, upstreams: &[(Upstream, Span)]) -> Vec<(Route, Span)> {
    let upstreams = Names::of(upstreams);
    let mut seen = Seen::default();
    let mut routes = Vec::new();
    for item in item.items().into_iter().flatten() {
        let Some(fields) = item.section() else { continue };
        let host = fields.get("host").map(|it| host_pattern(&it));
        let methods = fields.get("methods").map_or_else(|| Some(Vec::new()), methods);
        let path = fields.get("path").and_then(|it| route_path(&it));
        let to = destination(&fields, path.as_deref(), &upstreams);
        // What is wrong is not taken for any host or any method.
        let host = host.map_or_else(|| Some(None), |host| host.map(Some));
        let (Some(host), Some(methods), Some(path), Some(to)) = (host, methods, path, to) else { continue };
        let route = Route { host, methods, path, to };
        seen.report_again(&fields, &route);
        routes.push((route, fields.value_span("path")));
    }
    routes
}

/// The names of the upstreams.
struct Names<'u> {
    all: HashSet<&'u str>,
    /// Those that messages name.
    first: Vec<&'u str>,
}

impl<'u> Names<'u> {
    fn of(upstreams: &'u [(Upstream, Span)]) -> Self {
        let names = || upstreams.iter().map(|(upstream, _)| upstream.name.as_str());
        Self { all: names().collect(), first: names().take(MOST_NAMED).collect() }
    }
}

/// Which requests were routed where in the file: by host and path, and by method.
#[derive(Default)]
struct Seen(HashMap<(Option<String>, String), HashMap<Option<String>, Span>>);

impl Seen {
    /// Reports a route for requests that another one is for already. Where one is for some methods and the
    /// other for any, the first is the more exact.
    fn report_again(&mut self, fields: &Fields<'_>, route: &Route) {
        let methods = route.methods.iter().cloned().map(Some);
        let any = route.methods.is_empty().then_some(None);
        let span = fields.value_span("path");
        let seen = self.0.entry((route.host.clone(), without_names(&route.path))).or_default();
        let mut again = None;
        for method in methods.chain(any) {
            if let Some(first) = seen.insert(method.clone(), span) {
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

fn methods(item: Item<'_>) -> Option<Vec<String>> {
    let mut methods = Vec::new();
    let mut places: HashMap<String, Span> = HashMap::new();
    let mut sound = true;
    for item in item.items()? {
        let Some(method) = method(&item) else {
            sound = false;
            continue;
        };
        if let Some(first) = places.insert(method.clone(), item.span()) {
            item.context.report(
                Finding::error(item.span(), format!("`{method}` is among the methods already"))
                    .label("again here")
                    .also(first, "first here")
                    .help("keep one of them"),
            );
            continue;
        }
        methods.push(method);
    }
    if methods.is_empty() && sound {
        item.context.report(
            Finding::error(item.span(), "this route is for no method")
                .label("empty")
                .help("name one such as GET, or leave `methods` out for any"),
        );
    }
    sound.then_some(methods)
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

fn destination(fields: &Fields<'_>, path: Option<&str>, upstreams: &Names<'_>) -> Option<Destination> {
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

fn upstream(item: &Item<'_>, upstreams: &Names<'_>) -> Option<String> {
    let name = item.text()?;
    if !upstreams.all.contains(name) {
        let help = match nearest(name, upstreams.first.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if upstreams.first.is_empty() => "say under `upstreams` where it is".to_owned(),
            None => format!("known are {}", upstreams.first.join(", ")),
        };
        item.context.report(
            Finding::error(item.span(), format!("there is no upstream {}", quoted(name))).label("not known").help(help),
        );
    }
    Some(name.to_owned())
}

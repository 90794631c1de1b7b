//! `gateway`.

mod identity;
pub(super) mod listen;
mod path;
mod route;
mod upstream;

use std::time::Duration;

use super::beside::file_path;
use super::fields::Fields;
use super::item::Item;
use super::listener::Listener;
use crate::diagnostic::Finding;
use crate::grammar::Shape;
use crate::settings::{AccessLog, Connections, Gateway, LogFormat, Timeouts};

/// What a request's head may have, in bytes: less would refuse what browsers send, more is an attack.
const HEAD: std::ops::RangeInclusive<u64> = 8 << 10..=1 << 20;

/// The most bytes of a head when nobody says how many.
const USUAL_HEAD: u32 = 64 << 10;

/// Reads `gateway`.
pub(crate) fn gateway(fields: &Fields<'_>, listeners: &mut Vec<Listener>) -> Gateway {
    let networks = fields.get("trusted_proxies").and_then(|it| it.items());
    let trusted_proxies: Vec<_> = networks.into_iter().flatten().filter_map(|it| it.network()).collect();
    let listen = listen::listen(fields, listeners);
    listen::report_untrusted(fields, &listen);
    let jwt = fields.section("jwt").and_then(|it| identity::jwt(&it));
    let upstreams = fields.get("upstreams").map(upstream::upstreams).unwrap_or_default();
    let routes = fields.get("routes").map(|it| route::routes(it, &upstreams)).unwrap_or_default();
    upstream::report_unused(fields.context, &upstreams, &routes);
    Gateway {
        listen: listen.into_iter().map(|(listener, _)| listener).collect(),
        connections: fields.section("connections").map(|it| connections(&it)).unwrap_or_default(),
        in_flight: fields.count32("in_flight"),
        threads: fields.count32("threads"),
        trusted_proxies,
        forwarded: identity::forwarded(fields),
        attributes: identity::attributes(fields),
        jwt,
        timeouts: fields.section("timeouts").map(|it| timeouts(&it, Timeouts::default())).unwrap_or_default(),
        max_head: fields.get("max_head").and_then(|it| max_head(&it)).unwrap_or(USUAL_HEAD),
        access_log: fields.get("access_log").and_then(|it| access_log(it.narrow())),
        upstreams: upstreams.into_iter().map(|(upstream, _)| upstream).collect(),
        routes: routes.into_iter().map(|(route, _)| route).collect(),
    }
}

pub(super) fn connections(fields: &Fields<'_>) -> Connections {
    let usual = Connections::default();
    Connections {
        max: fields.count32("max").unwrap_or(usual.max),
        queue: fields.count32("queue").unwrap_or(usual.queue),
        per_client: fields.count32("per_client"),
    }
}

/// Reads `timeouts`; what is not said is as usual.
pub(super) fn timeouts(fields: &Fields<'_>, usual: Timeouts) -> Timeouts {
    Timeouts {
        head: time(fields, "head", usual.head),
        idle: time(fields, "idle", usual.idle),
        request_body: time(fields, "request_body", usual.request_body),
        send: time(fields, "send", usual.send),
        stop: time(fields, "stop", usual.stop),
    }
}

/// A time that is not zero.
fn time(fields: &Fields<'_>, name: &'static str, usual: Duration) -> Duration {
    fields.get(name).and_then(|it| it.some_duration()).unwrap_or(usual)
}

fn max_head(item: &Item<'_>) -> Option<u32> {
    let size = item.size()?;
    if !HEAD.contains(&size) {
        item.context.report(
            Finding::error(item.span(), "`max_head` is out of bounds")
                .label(if size < *HEAD.start() {
                    "good requests would be refused"
                } else {
                    "more than any request needs"
                })
                .help("give it a size from 8KiB to 1MiB"),
        );
        return None;
    }
    u32::try_from(size).ok()
}

fn access_log(item: Item<'_>) -> Option<AccessLog> {
    if !matches!(item.shape, Shape::Section(_)) {
        return Some(AccessLog { file: log_file(&item)?, format: LogFormat::default() });
    }
    let fields = item.section()?;
    let format = match fields.word("format") {
        Some("common") => LogFormat::Common,
        _ => LogFormat::Json,
    };
    Some(AccessLog { file: fields.get("file").and_then(|it| log_file(&it))?, format })
}

/// A file, or standard output.
fn log_file(item: &Item<'_>) -> Option<String> {
    if item.text()? == "-" { Some("-".to_owned()) } else { file_path(item) }
}

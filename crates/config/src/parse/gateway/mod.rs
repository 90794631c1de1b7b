//! Parses `gateway`.

mod identity;
pub(super) mod listen;
mod path;
mod route;
mod upstream;

use std::time::Duration;

use super::listener::ClaimedAddress;
use super::map::FieldMap;
use super::paths::file_path;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::grammar::Shape;
use crate::settings::{AccessLog, AccessLogFormat, Connections, Gateway, Timeouts};

/// Allowed values of `max_header_size`, in bytes: less would refuse normal browsers, more invites attacks.
const HEADER_BYTES: std::ops::RangeInclusive<u64> = 8 << 10..=1 << 20;

/// Default of `max_header_size`, in bytes.
const DEFAULT_HEADER_BYTES: u32 = 64 << 10;

/// Parses `gateway`.
pub(crate) fn gateway(fields: &FieldMap<'_>, listeners: &mut Vec<ClaimedAddress>) -> Gateway {
    let networks = fields.get("trusted_proxies").and_then(|it| it.items());
    let trusted_proxies: Vec<_> = networks.into_iter().flatten().filter_map(|it| it.network()).collect();
    let listen = listen::listen(fields, listeners);
    listen::report_missing_trusted_proxies(fields, &listen);
    let jwt = fields.section("jwt").and_then(|it| identity::jwt(&it));
    let upstreams = fields.get("upstreams").map(upstream::upstreams).unwrap_or_default();
    let routes = fields.get("routes").map(|it| route::routes(it, &upstreams)).unwrap_or_default();
    upstream::report_unused(fields.context, &upstreams, &routes);
    Gateway {
        listen: listen.into_iter().map(|(listener, _)| listener).collect(),
        connections: fields.section("connections").map(|it| connections(&it)).unwrap_or_default(),
        max_in_flight: fields.count32("max_in_flight"),
        threads: fields.count32("threads"),
        trusted_proxies,
        client_ip_header: identity::client_ip_header(fields),
        attributes: identity::attributes(fields),
        jwt,
        timeouts: fields.section("timeouts").map(|it| timeouts(&it, Timeouts::default())).unwrap_or_default(),
        max_header_size: fields
            .get("max_header_size")
            .and_then(|it| max_header_size(&it))
            .unwrap_or(DEFAULT_HEADER_BYTES),
        access_log: fields.get("access_log").and_then(|it| access_log(it.narrow())),
        upstreams: upstreams.into_iter().map(|(upstream, _)| upstream).collect(),
        routes: routes.into_iter().map(|(route, _)| route).collect(),
    }
}

pub(super) fn connections(fields: &FieldMap<'_>) -> Connections {
    let defaults = Connections::default();
    Connections {
        max: fields.count32("max").unwrap_or(defaults.max),
        queue: fields.count32("queue").unwrap_or(defaults.queue),
        per_client: fields.count32("per_client"),
    }
}

/// Parses `timeouts`; missing values take the defaults.
pub(super) fn timeouts(fields: &FieldMap<'_>, defaults: Timeouts) -> Timeouts {
    Timeouts {
        header: time(fields, "header", defaults.header),
        idle: time(fields, "idle", defaults.idle),
        request_body: time(fields, "request_body", defaults.request_body),
        write: time(fields, "write", defaults.write),
        drain: time(fields, "drain", defaults.drain),
    }
}

/// Parses a nonzero duration.
fn time(fields: &FieldMap<'_>, name: &'static str, default: Duration) -> Duration {
    fields.get(name).and_then(|it| it.nonzero_duration()).unwrap_or(default)
}

fn max_header_size(item: &FieldValue<'_>) -> Option<u32> {
    let size = item.size()?;
    if !HEADER_BYTES.contains(&size) {
        item.context.report(
            DiagnosticBuilder::error(item.span(), "`max_header_size` is out of range")
                .label(if size < *HEADER_BYTES.start() { "less than 8KiB" } else { "more than 1MiB" })
                .help("use a size from 8KiB to 1MiB"),
        );
        return None;
    }
    u32::try_from(size).ok()
}

fn access_log(item: FieldValue<'_>) -> Option<AccessLog> {
    if !matches!(item.shape, Shape::Section(_)) {
        return Some(AccessLog { file: log_file(&item)?, format: AccessLogFormat::default() });
    }
    let fields = item.section()?;
    let format = match fields.keyword("format") {
        Some("common") => AccessLogFormat::Common,
        _ => AccessLogFormat::Json,
    };
    Some(AccessLog { file: fields.get("file").and_then(|it| log_file(&it))?, format })
}

/// Parses a file name, or `-` for standard output.
fn log_file(item: &FieldValue<'_>) -> Option<String> {
    if item.text()? == "-" { Some("-".to_owned()) } else { file_path(item) }
}

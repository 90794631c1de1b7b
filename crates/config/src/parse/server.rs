//! Parses `server`.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::gateway::listen::certificate;
use super::gateway::{connections, timeouts};
use super::listener::{ClaimedAddress, address, listener};
use super::map::FieldMap;
use super::paths::file_path;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::grammar::Shape;
use crate::settings::{Server, Service};

/// Allowed request sizes, in bytes.
const REQUEST_BYTES: RangeInclusive<u64> = 1 << 10..=64 << 20;

/// Maximum busy-poll time, far longer than a thread wakeup takes.
const MAX_BUSY_POLL: Duration = Duration::from_millis(1);

/// Maximum shutdown delay.
const MAX_SHUTDOWN_DELAY: Duration = Duration::from_secs(600);

/// Parses `server`.
pub(crate) fn server(fields: &FieldMap<'_>, listeners: &mut Vec<ClaimedAddress>) -> Server {
    let defaults = Server::default();
    let mut service = |name| fields.get(name).and_then(|it| service(it.narrow(), listeners));
    let (rls, http, resp) = (service("rls"), service("http"), service("resp"));
    if !["rls", "http", "resp"].iter().any(|name| fields.has(name) || fields.has_typo_of(name)) {
        fields.context.report(
            DiagnosticBuilder::warning(fields.first_key_span(), "the decision server has no listener")
                .label("no protocol has an address")
                .help("add a protocol, such as `http: 127.0.0.1:8082`, or remove `server`"),
        );
    }
    let networks = fields.get("trusted_proxies").and_then(|it| it.items());
    let trusted = networks.map(|items| items.into_iter().filter_map(|it| it.network()).collect());
    Server {
        rls,
        http,
        resp,
        ratelimit_dir: fields.get("ratelimit_dir").and_then(|it| file_path(&it)),
        connections: fields.section("connections").map(|it| connections(&it)).unwrap_or_default(),
        threads: fields.count32("threads"),
        busy_poll: fields.get("busy_poll").and_then(|it| busy_poll(&it)),
        trusted_proxies: trusted.unwrap_or(defaults.trusted_proxies),
        max_request_size: fields
            .get("max_request_size")
            .and_then(|it| max_request_size(&it))
            .unwrap_or(defaults.max_request_size),
        max_checks: fields.count32("max_checks").unwrap_or(defaults.max_checks),
        max_reservations: fields.count32("max_reservations").unwrap_or(defaults.max_reservations),
        max_keys: fields.count32("max_keys").unwrap_or(defaults.max_keys),
        timeouts: fields.section("timeouts").map_or(defaults.timeouts, |it| timeouts(&it, defaults.timeouts)),
        shutdown_delay: fields
            .get("shutdown_delay")
            .and_then(|it| shutdown_delay(&it))
            .unwrap_or(defaults.shutdown_delay),
    }
}

/// Parses one protocol: an address, or the long form.
fn service(item: FieldValue<'_>, listeners: &mut Vec<ClaimedAddress>) -> Option<Service> {
    if !matches!(item.shape, Shape::Section(_)) {
        let address = address(&item, listeners)?;
        return Some(Service { address: Some(address), ..Service::default() });
    }
    let fields = item.section()?;
    let file = |name| fields.get(name).and_then(|it| file_path(&it));
    let service = Service {
        address: listener(&fields, "address", listeners),
        unix: file("unix"),
        tls: fields.section("tls").and_then(|it| certificate(&it)),
        secret_file: file("secret_file"),
    };
    if !["address", "unix"].iter().any(|name| fields.has(name) || fields.has_typo_of(name)) {
        fields.context.report(
            DiagnosticBuilder::error(item.span(), format!("`{}` has no listener", item.name))
                .label("neither `address` nor `unix`")
                .help(format!("add an address: `{}: 127.0.0.1:PORT`", item.name)),
        );
        return None;
    }
    Some(service)
}

fn busy_poll(item: &FieldValue<'_>) -> Option<Duration> {
    let busy_poll = item.duration()?;
    if busy_poll.is_zero() || busy_poll > MAX_BUSY_POLL {
        item.context.report(
            DiagnosticBuilder::error(item.span(), "`busy_poll` is out of range")
                .label(if busy_poll.is_zero() { "no time to poll" } else { "longer than 1ms" })
                .help("use up to 1ms, such as 50us; remove `busy_poll` to let threads sleep immediately"),
        );
        return None;
    }
    Some(busy_poll)
}

fn shutdown_delay(item: &FieldValue<'_>) -> Option<Duration> {
    let delay = item.duration()?;
    if delay > MAX_SHUTDOWN_DELAY {
        item.context.report(
            DiagnosticBuilder::error(item.span(), "`shutdown_delay` is too long")
                .label("the maximum is 10m")
                .help("use a few seconds: the interval of the load balancer's health checks"),
        );
        return None;
    }
    Some(delay)
}

fn max_request_size(item: &FieldValue<'_>) -> Option<u32> {
    let size = item.size()?;
    if !REQUEST_BYTES.contains(&size) {
        item.context.report(
            DiagnosticBuilder::error(item.span(), "`max_request_size` is out of range")
                .label(if size < *REQUEST_BYTES.start() { "less than 1KiB" } else { "more than 64MiB" })
                .help("use a size from 1KiB to 64MiB"),
        );
        return None;
    }
    u32::try_from(size).ok()
}

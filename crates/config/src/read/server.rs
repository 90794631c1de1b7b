//! `server`.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::beside::file_path;
use super::fields::Fields;
use super::gateway::listen::certificate;
use super::gateway::{connections, timeouts};
use super::item::Item;
use super::listener::{Listener, address, listener};
use crate::diagnostic::Finding;
use crate::grammar::Shape;
use crate::settings::{Server, Service};

/// What one request may have, in bytes.
const REQUEST: RangeInclusive<u64> = 1 << 10..=64 << 20;

/// For how long a thread may stay awake for nothing: by far longer than it takes to be woken.
const LONGEST_LOOK: Duration = Duration::from_millis(1);

/// The longest that it may go on when it is told to stop.
const LONGEST_DRAIN: Duration = Duration::from_secs(600);

/// Reads `server`.
pub(crate) fn server(fields: &Fields<'_>, listeners: &mut Vec<Listener>) -> Server {
    let usual = Server::default();
    let mut service = |name| fields.get(name).and_then(|it| service(it.narrow(), listeners));
    let (rls, http, resp) = (service("rls"), service("http"), service("resp"));
    if !["rls", "http", "resp"].iter().any(|name| fields.has(name) || fields.has_slip_of(name)) {
        fields.context.report(
            Finding::warning(fields.head(), "the decision server listens nowhere")
                .label("no protocol has an address")
                .help("add one, such as `http: 127.0.0.1:8082`, or remove `server`"),
        );
    }
    let networks = fields.get("trusted_proxies").and_then(|it| it.items());
    let trusted = networks.map(|items| items.into_iter().filter_map(|it| it.network()).collect());
    Server {
        rls,
        http,
        resp,
        ratelimit: fields.get("ratelimit").and_then(|it| file_path(&it)),
        connections: fields.section("connections").map(|it| connections(&it)).unwrap_or_default(),
        threads: fields.count32("threads"),
        busy_poll: fields.get("busy_poll").and_then(|it| busy_poll(&it)),
        trusted_proxies: trusted.unwrap_or(usual.trusted_proxies),
        max_request: fields.get("max_request").and_then(|it| max_request(&it)).unwrap_or(usual.max_request),
        max_checks: fields.count32("max_checks").unwrap_or(usual.max_checks),
        max_held: fields.count32("max_held").unwrap_or(usual.max_held),
        max_keys: fields.count32("max_keys").unwrap_or(usual.max_keys),
        timeouts: fields.section("timeouts").map_or(usual.timeouts, |it| timeouts(&it, usual.timeouts)),
        drain: fields.get("drain").and_then(|it| drain(&it)).unwrap_or(usual.drain),
    }
}

/// One protocol: an address, or the long form.
fn service(item: Item<'_>, listeners: &mut Vec<Listener>) -> Option<Service> {
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
        secret: file("secret"),
    };
    if !["address", "unix"].iter().any(|name| fields.has(name) || fields.has_slip_of(name)) {
        fields.context.report(
            Finding::error(item.span(), format!("`{}` listens nowhere", item.name))
                .label("neither `address` nor `unix`")
                .help(format!("give it an address: `{}: 127.0.0.1:PORT`", item.name)),
        );
        return None;
    }
    Some(service)
}

fn busy_poll(item: &Item<'_>) -> Option<Duration> {
    let patience = item.duration()?;
    if patience.is_zero() || patience > LONGEST_LOOK {
        item.context.report(
            Finding::error(item.span(), "`busy_poll` is out of bounds")
                .label(if patience.is_zero() {
                    "no time to look for anything"
                } else {
                    "it would keep its cores busy for next to nothing"
                })
                .help("give it 1ms at most, 50us for example; leave it out to have threads sleep at once"),
        );
        return None;
    }
    Some(patience)
}

fn drain(item: &Item<'_>) -> Option<Duration> {
    let drain = item.duration()?;
    if drain > LONGEST_DRAIN {
        item.context.report(
            Finding::error(item.span(), "`drain` is too long")
                .label("whoever wants it stopped would think that it hangs")
                .help("give it 10m at most; load balancers look every few seconds"),
        );
        return None;
    }
    Some(drain)
}

fn max_request(item: &Item<'_>) -> Option<u32> {
    let size = item.size()?;
    if !REQUEST.contains(&size) {
        item.context.report(
            Finding::error(item.span(), "`max_request` is out of bounds")
                .label(if size < *REQUEST.start() {
                    "good requests would be refused"
                } else {
                    "more than any request needs"
                })
                .help("give it a size from 1KiB to 64MiB"),
        );
        return None;
    }
    u32::try_from(size).ok()
}

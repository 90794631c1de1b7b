//! `gateway.listen`.

use std::net::SocketAddr;

use super::super::beside::file_path;
use super::super::fields::Fields;
use super::super::item::Item;
use super::super::listener::{self, Listener};
use crate::diagnostic::Finding;
use crate::grammar::Shape;
use crate::settings;
use crate::source::Span;
use crate::tree::Value;

/// The most listeners of one gateway.
const MOST: usize = 256;

/// The listeners, with the place of what each says; at least one.
pub(super) fn listen(fields: &Fields<'_>, listeners: &mut Vec<Listener>) -> Vec<(settings::Listener, Span)> {
    let usual = (SocketAddr::from(([127, 0, 0, 1], 8080)), fields.head());
    let Some(item) = fields.get("listen").map(Item::narrow) else {
        listener::claim(fields.context, usual, listeners);
        return vec![(plain(usual.0), usual.1)];
    };
    let mut read = Vec::new();
    match item.shape {
        Shape::List(_) => {
            for item in item.items().into_iter().flatten().take(MOST) {
                read.extend(one(item.narrow(), listeners).map(|it| (it, item.span())));
            }
            report_number(&item);
        }
        _ => read.extend(one(item, listeners).map(|it| (it, item.span()))),
    }
    if read.is_empty() {
        read.push((plain(usual.0), usual.1));
    }
    read
}

fn report_number(item: &Item<'_>) {
    let Value::List(nodes) = &item.node.value else { return };
    if nodes.is_empty() {
        item.context.report(
            Finding::error(item.span(), "the gateway listens nowhere")
                .label("empty")
                .help("name an address such as 127.0.0.1:8080, or leave `listen` out for that one"),
        );
    }
    if let Some(first) = nodes.get(MOST) {
        item.context.report(
            Finding::error(first.span, format!("{} listeners: the most is {MOST}", nodes.len()))
                .label("one too many")
                .help("0.0.0.0 and [::] listen at all addresses of the machine"),
        );
    }
}

fn plain(address: SocketAddr) -> settings::Listener {
    settings::Listener { address, tls: None, proxy_protocol: false }
}

fn one(item: Item<'_>, listeners: &mut Vec<Listener>) -> Option<settings::Listener> {
    match item.shape {
        Shape::Section(_) => {
            let fields = item.section()?;
            let tls = fields.section("tls").and_then(|it| certificate(&it));
            let proxy_protocol = fields.get("proxy_protocol").and_then(|it| it.truth()).unwrap_or(false);
            let address = listener::listener(&fields, "address", listeners)?;
            Some(settings::Listener { address, tls, proxy_protocol })
        }
        Shape::Address => listener::address(&item, listeners).map(plain),
        _ => {
            item.mismatch(None);
            None
        }
    }
}

pub(crate) fn certificate(fields: &Fields<'_>) -> Option<settings::Certificate> {
    let certificate = fields.get("certificate").and_then(|it| file_path(&it));
    let key = fields.get("key").and_then(|it| file_path(&it));
    let client_ca = fields.get("client_ca").map(|it| file_path(&it));
    Some(settings::Certificate { certificate: certificate?, key: key?, client_ca: client_ca.unwrap_or_default() })
}

/// A PROXY line is believed from trusted proxies only: where nobody is trusted, nobody could connect.
pub(super) fn report_untrusted(fields: &Fields<'_>, listeners: &[(settings::Listener, Span)]) {
    let trusted = fields.has("trusted_proxies") || fields.has_slip_of("trusted_proxies");
    if let Some((listener, span)) = listeners.iter().find(|(listener, _)| listener.proxy_protocol && !trusted) {
        fields.context.report(
            Finding::error(*span, format!("nobody could connect to {}", listener.address))
                .label("PROXY lines are believed from trusted proxies only, and there are none")
                .help("add the addresses of your load balancers: `trusted_proxies: [10.0.0.0/8]`"),
        );
    }
}

//! Parses `gateway.listen`.

use std::net::SocketAddr;

use super::super::listener::{self, ClaimedAddress};
use super::super::map::FieldMap;
use super::super::paths::file_path;
use super::super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::grammar::Shape;
use crate::settings;
use crate::source::Span;
use crate::tree::Value;

/// Maximum number of listeners.
const MAX_LISTENERS: usize = 256;

/// Parses the listeners with their spans; at least one.
pub(super) fn listen(fields: &FieldMap<'_>, listeners: &mut Vec<ClaimedAddress>) -> Vec<(settings::Listener, Span)> {
    let default = (SocketAddr::from(([127, 0, 0, 1], 8080)), fields.first_key_span());
    let Some(item) = fields.get("listen").map(FieldValue::narrow) else {
        listener::claim(fields.context, default, listeners);
        return vec![(plain(default.0), default.1)];
    };
    let mut parsed = Vec::new();
    match item.shape {
        Shape::List(_) => {
            for item in item.items().into_iter().flatten().take(MAX_LISTENERS) {
                parsed.extend(one(item.narrow(), listeners).map(|it| (it, item.span())));
            }
            report_number(&item);
        }
        _ => parsed.extend(one(item, listeners).map(|it| (it, item.span()))),
    }
    if parsed.is_empty() {
        parsed.push((plain(default.0), default.1));
    }
    parsed
}

fn report_number(item: &FieldValue<'_>) {
    let Value::List(nodes) = &item.node.value else { return };
    if nodes.is_empty() {
        item.context.report(
            DiagnosticBuilder::error(item.span(), "the gateway has no listener")
                .label("empty")
                .help("add an address, or remove `listen` for the default 127.0.0.1:8080"),
        );
    }
    if let Some(first) = nodes.get(MAX_LISTENERS) {
        item.context.report(
            DiagnosticBuilder::error(first.span, format!("{} listeners: the maximum is {MAX_LISTENERS}", nodes.len()))
                .label("one too many")
                .help("use 0.0.0.0 or [::] to listen on all addresses of the host"),
        );
    }
}

fn plain(address: SocketAddr) -> settings::Listener {
    settings::Listener { address, tls: None, proxy_protocol: false }
}

fn one(item: FieldValue<'_>, listeners: &mut Vec<ClaimedAddress>) -> Option<settings::Listener> {
    match item.shape {
        Shape::Section(_) => {
            let fields = item.section()?;
            let tls = fields.section("tls").and_then(|it| certificate(&it));
            let proxy_protocol = fields.get("proxy_protocol").and_then(|it| it.boolean()).unwrap_or(false);
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

pub(crate) fn certificate(fields: &FieldMap<'_>) -> Option<settings::Certificate> {
    let certificate = fields.get("certificate").and_then(|it| file_path(&it));
    let key = fields.get("key").and_then(|it| file_path(&it));
    let client_ca = fields.get("client_ca").map(|it| file_path(&it));
    Some(settings::Certificate { certificate: certificate?, key: key?, client_ca: client_ca.unwrap_or_default() })
}

/// Reports the PROXY protocol without trusted proxies: it is accepted only from those, so every connection
/// would be refused.
pub(super) fn report_missing_trusted_proxies(fields: &FieldMap<'_>, listeners: &[(settings::Listener, Span)]) {
    let trusted = fields.has("trusted_proxies") || fields.has_typo_of("trusted_proxies");
    if let Some((listener, span)) = listeners.iter().find(|(listener, _)| listener.proxy_protocol && !trusted) {
        fields.context.report(
            DiagnosticBuilder::error(*span, format!("no client could connect to {}", listener.address))
                .label("PROXY protocol headers are accepted only from trusted proxies, and there are none")
                .help("add the addresses of the load balancers: `trusted_proxies: [10.0.0.0/8]`"),
        );
    }
}

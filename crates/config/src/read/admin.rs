//! `admin`.

use std::net::SocketAddr;
use std::time::Duration;

use super::beside::file_path;
use super::fields::Fields;
use super::gateway::listen::certificate;
use super::item::Item;
use super::listener::{Listener, listener};
use crate::diagnostic::Finding;
use crate::grammar::Shape;
use crate::settings::{Admin, Otlp};

/// How often metrics are pushed unless told.
const EVERY: Duration = Duration::from_secs(10);

/// Reads `admin`.
pub(crate) fn admin(fields: &Fields<'_>, listeners: &mut Vec<Listener>) -> Admin {
    let listen = listener(fields, "listen", listeners).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 9900)));
    let token = fields.get("token").and_then(|it| file_path(&it));
    let tls = fields.section("tls").and_then(|it| certificate(&it));
    if !listen.ip().is_loopback() {
        report_reachable(fields, tls.is_some());
    }
    Admin { listen, token, tls, otlp: fields.get("otlp").and_then(|it| otlp(it.narrow())) }
}

/// Warns of pages that others can reach and should not, or whose tokens others can read.
fn report_reachable(fields: &Fields<'_>, is_encrypted: bool) {
    let has = |name| fields.has(name) || fields.has_slip_of(name);
    let (label, help) = if !has("token") {
        ("not a loopback address, and no token: who asks from elsewhere is refused", "add `token: tokens.txt`")
    } else if !is_encrypted && !has("tls") {
        (
            "not a loopback address, and not encrypted: tokens can be read on the way",
            "add `tls`, or listen on 127.0.0.1",
        )
    } else {
        return;
    };
    fields.context.report(
        Finding::warning(fields.value_span("listen"), "the admin pages listen for other machines")
            .label(label)
            .help(help),
    );
}

/// A URL, or the long form.
fn otlp(item: Item<'_>) -> Option<Otlp> {
    let Shape::Section(_) = item.shape else {
        return Some(Otlp { endpoint: endpoint(&item)?, every: EVERY });
    };
    let fields = item.section()?;
    let every = fields.get("every").and_then(|it| it.some_duration()).unwrap_or(EVERY);
    Some(Otlp { endpoint: fields.get("endpoint").and_then(|it| endpoint(&it))?, every })
}

fn endpoint(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    let is_http = text.strip_prefix("http://").is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if !is_http {
        item.context.report(
            Finding::error(item.span(), format!("`{text}` is no collector that can be reached"))
                .label("not a URL that begins with http://")
                .help("name where it takes OTLP over HTTP, such as http://127.0.0.1:4318"),
        );
        return None;
    }
    Some(text.to_owned())
}

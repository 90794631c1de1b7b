//! Parses `admin`.

use std::net::SocketAddr;
use std::time::Duration;

use super::gateway::listen::certificate;
use super::listener::{ClaimedAddress, listener};
use super::map::FieldMap;
use super::paths::file_path;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::grammar::Shape;
use crate::settings::{Admin, Otlp};

/// Default interval of metric pushes.
const DEFAULT_PUSH_INTERVAL: Duration = Duration::from_secs(10);

/// Parses `admin`.
pub(crate) fn admin(fields: &FieldMap<'_>, listeners: &mut Vec<ClaimedAddress>) -> Admin {
    let listen = listener(fields, "listen", listeners).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 9900)));
    let token_file = fields.get("token_file").and_then(|it| file_path(&it));
    let tls = fields.section("tls").and_then(|it| certificate(&it));
    if !listen.ip().is_loopback() {
        warn_if_exposed(fields, tls.is_some());
    }
    Admin { listen, token_file, tls, otlp: fields.get("otlp").and_then(|it| otlp(it.narrow())) }
}

/// Warns if the admin pages listen on a non-loopback address without a token (remote requests are refused) or
/// without TLS (tokens are readable in transit).
fn warn_if_exposed(fields: &FieldMap<'_>, is_encrypted: bool) {
    let has = |name| fields.has(name) || fields.has_typo_of(name);
    let (label, help) = if !has("token_file") {
        (
            "no `token_file`: requests from other hosts are refused",
            "add `token_file: tokens.txt`, or listen on 127.0.0.1",
        )
    } else if !is_encrypted && !has("tls") {
        ("no TLS: tokens are sent in plain text", "add `tls`, or listen on 127.0.0.1")
    } else {
        return;
    };
    fields.context.report(
        DiagnosticBuilder::warning(fields.value_span("listen"), "`admin` listens on a non-loopback address")
            .label(label)
            .help(help),
    );
}

/// Parses a URL or the long form.
fn otlp(item: FieldValue<'_>) -> Option<Otlp> {
    let Shape::Section(_) = item.shape else {
        return Some(Otlp { endpoint: endpoint(&item)?, interval: DEFAULT_PUSH_INTERVAL });
    };
    let fields = item.section()?;
    let interval = fields.get("interval").and_then(|it| it.nonzero_duration()).unwrap_or(DEFAULT_PUSH_INTERVAL);
    Some(Otlp { endpoint: fields.get("endpoint").and_then(|it| endpoint(&it))?, interval })
}

fn endpoint(item: &FieldValue<'_>) -> Option<String> {
    let text = item.text()?;
    let is_http = text.strip_prefix("http://").is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if !is_http {
        item.context.report(
            DiagnosticBuilder::error(item.span(), format!("`{text}` is not a valid OTLP endpoint"))
                .label("not a URL that starts with http://")
                .help("use the URL of the collector's OTLP/HTTP endpoint, such as http://127.0.0.1:4318"),
        );
        return None;
    }
    Some(text.to_owned())
}

//! Parses client identity settings: client IP header, attributes, JWT.

use sluicegate_engine::rule::Attribute;
use sluicegate_engine::spelling::nearest;

use super::super::map::FieldMap;
use super::super::paths::file_path;
use super::super::reply::is_header_name;
use super::super::value::FieldValue;
use crate::diagnostic::{DiagnosticBuilder, quoted};
use crate::expressions;
use crate::grammar::Shape;
use crate::settings::{AttributeLocation, AttributeSource, ForwardedHeader, Jwt};
use crate::tree::{MapEntry, Value};

/// Prefix of token claims in rules.
const CLAIM_PREFIX: &str = "jwt.";

/// Kinds of attribute locations.
const LOCATION_KINDS: [&str; 5] = ["header", "cookie", "query", "scheme", "jwt"];

/// Parses `client_ip_header`.
pub(super) fn client_ip_header(fields: &FieldMap<'_>) -> ForwardedHeader {
    let Some(item) = fields.get("client_ip_header") else { return ForwardedHeader::default() };
    let Some(text) = item.text() else { return ForwardedHeader::default() };
    if !fields.has("trusted_proxies") {
        item.context.report(
            DiagnosticBuilder::warning(item.span(), "`client_ip_header` has no effect")
                .label("no proxy is trusted to report the client address")
                .help("add `trusted_proxies`, or remove `client_ip_header`"),
        );
    }
    let name = text.to_ascii_lowercase();
    match name.as_str() {
        "x-forwarded-for" => return ForwardedHeader::XForwardedFor,
        "forwarded" => return ForwardedHeader::Forwarded,
        name if !is_header_name(name) => item.mismatch(None),
        name => {
            if let Some(near) = nearest(name, ["x-forwarded-for", "forwarded"]) {
                item.context.report(
                    DiagnosticBuilder::warning(item.span(), format!("unusual client IP header {}", quoted(name)))
                        .label("few proxies send it")
                        .help(format!("did you mean `{near}`?")),
                );
            }
        }
    }
    ForwardedHeader::Single(name)
}

/// Parses `jwt`.
pub(super) fn jwt(fields: &FieldMap<'_>) -> Option<Jwt> {
    let key = fields.get("key").and_then(|it| file_path(&it));
    let algorithm = fields.keyword("algorithm");
    let text = |name: &'static str| {
        let item = fields.get(name)?;
        let text = item.text()?;
        if text.is_empty() {
            let finding = DiagnosticBuilder::error(item.span(), format!("`{name}` is empty")).label("no token matches");
            item.context.report(finding.help(format!("use a value such as {}, or remove `{name}`", item.example)));
        }
        Some(text.to_owned())
    };
    let (issuer, audience) = (text("issuer"), text("audience"));
    Some(Jwt { key: key?, algorithm: algorithm?.to_owned(), issuer, audience })
}

/// Parses `attributes`.
pub(super) fn attributes(fields: &FieldMap<'_>) -> Vec<AttributeSource> {
    let Some(item) = fields.get("attributes") else { return Vec::new() };
    let (Value::Map(entries), Shape::Map(shape)) = (&item.node.value, item.shape) else {
        item.mismatch(Some("write `attributes: { account: \"header['x-account']\" }`".to_owned()));
        return Vec::new();
    };
    let verified = fields.has("jwt") || fields.has_typo_of("jwt");
    let mut sources = Vec::new();
    for entry in entries {
        let name = attribute_name(&item, entry);
        let locations = attribute_locations(FieldValue { node: &entry.value, shape, ..item }.narrow(), verified);
        if let (Some(name), Some(locations)) = (name, locations) {
            sources.push(AttributeSource { name, locations });
        }
    }
    sources
}

/// Parses an attribute name that rules can use and that is not reserved.
fn attribute_name(item: &FieldValue<'_>, entry: &MapEntry<'_>) -> Option<String> {
    let (label, help) = match expressions::attribute(&entry.key) {
        Ok(Attribute::Custom(name)) if name.starts_with(CLAIM_PREFIX) => {
            ("reserved for token claims", "use another name, such as account".to_owned())
        }
        Ok(Attribute::Custom(name)) => return Some(name),
        Ok(_) => ("built-in attribute", "use another name, such as account".to_owned()),
        Err(error) => {
            let (_, remedy) = super::super::split_help(&error.message);
            ("rules cannot use this name", remedy.unwrap_or_else(|| "use a name such as account".to_owned()))
        }
    };
    item.context.report(
        DiagnosticBuilder::error(entry.key_span, format!("{} is not a valid attribute name", quoted(&entry.key)))
            .label(label)
            .help(help),
    );
    None
}

fn attribute_locations(item: FieldValue<'_>, verified: bool) -> Option<Vec<AttributeLocation>> {
    if let Value::List(nodes) = &item.node.value
        && nodes.is_empty()
    {
        item.context.report(
            DiagnosticBuilder::error(item.span(), "the attribute has no source")
                .label("empty")
                .help("add a source such as header['x-api-key']"),
        );
        return None;
    }
    match item.shape {
        Shape::List(_) => {
            // Parse every location, to report all errors.
            let locations: Vec<_> = item.items()?.map(|it| attribute_location(&it, verified)).collect();
            locations.into_iter().collect()
        }
        Shape::AttributeLocation => Some(vec![attribute_location(&item, verified)?]),
        _ => {
            item.mismatch(Some("write a source such as header['x-api-key'], or a list of sources".to_owned()));
            None
        }
    }
}

fn attribute_location(item: &FieldValue<'_>, verified: bool) -> Option<AttributeLocation> {
    let text = item.text()?;
    let Some((kind, name)) = expressions::bracketed(text) else {
        let claim = text.strip_prefix(CLAIM_PREFIX).map(|claim| format!("did you mean `jwt['{claim}']`?"));
        refuse_location(item, text, "invalid syntax", claim);
        return None;
    };
    let is_token = is_header_name(&name);
    match kind {
        "header" if is_token => Some(AttributeLocation::Header(name.to_ascii_lowercase())),
        "scheme" if is_token => Some(AttributeLocation::Scheme(name)),
        "header" | "scheme" => {
            refuse_location(item, text, "invalid name", Some("use letters, digits and `-` in the name".into()));
            None
        }
        "cookie" => Some(AttributeLocation::Cookie(name)),
        "query" => Some(AttributeLocation::Query(name)),
        "jwt" if verified => Some(AttributeLocation::Claim(name)),
        "jwt" => {
            item.context.report(
                DiagnosticBuilder::error(item.span(), "claims require token verification")
                    .label("`jwt` is missing")
                    .help("add `jwt: { key: jwt.pem, algorithm: RS256 }` to `gateway`"),
            );
            None
        }
        other => {
            let near = nearest(other, LOCATION_KINDS).map(|near| format!("did you mean `{near}['{name}']`?"));
            refuse_location(item, text, "unknown source", near);
            None
        }
    }
}

fn refuse_location(item: &FieldValue<'_>, text: &str, label: &str, help: Option<String>) {
    let usage = || "write header['x'], cookie['x'], query['x'], scheme['X'] or jwt['x']".to_owned();
    item.context.report(
        DiagnosticBuilder::error(item.span(), format!("{} is not a valid attribute source", quoted(text)))
            .label(label)
            .help(help.unwrap_or_else(usage)),
    );
}

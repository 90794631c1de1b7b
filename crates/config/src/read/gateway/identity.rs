//! Who a request is from: the header of trusted proxies, attributes, tokens.

use sluicegate_engine::rule::Attribute;

use super::super::beside::file_path;
use super::super::fields::Fields;
use super::super::item::Item;
use super::super::nearest;
use super::super::reply::is_header_name;
use crate::diagnostic::{Finding, quoted};
use crate::grammar::Shape;
use crate::notation;
use crate::settings::{AttributePlace, AttributeSource, ForwardedHeader, Jwt};
use crate::tree::{Entry, Value};

/// What claims of the token begin with in rules.
const CLAIMS: &str = "jwt.";

/// The kinds of places.
const PLACES: [&str; 5] = ["header", "cookie", "query", "scheme", "jwt"];

/// Reads `forwarded`.
pub(super) fn forwarded(fields: &Fields<'_>) -> ForwardedHeader {
    let Some(item) = fields.get("forwarded") else { return ForwardedHeader::default() };
    let Some(text) = item.text() else { return ForwardedHeader::default() };
    if !fields.has("trusted_proxies") {
        item.context.report(
            Finding::warning(item.span(), "`forwarded` has no effect")
                .label("nobody is trusted to say who the client is")
                .help("add `trusted_proxies`, or remove `forwarded`"),
        );
    }
    let name = text.to_ascii_lowercase();
    match name.as_str() {
        "x-forwarded-for" => return ForwardedHeader::XForwardedFor,
        "forwarded" => return ForwardedHeader::Forwarded,
        name if !is_header_name(name) => item.mismatch(None),
        name => {
            if let Some(near) = nearest(name, ["x-forwarded-for", "forwarded"].into_iter()) {
                item.context.report(
                    Finding::warning(item.span(), format!("the client is read from a header {}", quoted(name)))
                        .label("few proxies send one")
                        .help(format!("did you mean `{near}`?")),
                );
            }
        }
    }
    ForwardedHeader::Single(name)
}

/// Reads `jwt`.
pub(super) fn jwt(fields: &Fields<'_>) -> Option<Jwt> {
    let key = fields.get("key").and_then(|it| file_path(&it));
    let algorithm = fields.word("algorithm");
    let text = |name: &'static str| {
        let item = fields.get(name)?;
        let text = item.text()?;
        if text.is_empty() {
            let finding = Finding::error(item.span(), format!("`{name}` is empty")).label("no token has that");
            item.context.report(finding.help(format!("give it a text such as {}, or leave it out", item.example)));
        }
        Some(text.to_owned())
    };
    let (issuer, audience) = (text("issuer"), text("audience"));
    Some(Jwt { key: key?, algorithm: algorithm?.to_owned(), issuer, audience })
}

/// Reads `attributes`.
pub(super) fn attributes(fields: &Fields<'_>) -> Vec<AttributeSource> {
    let Some(item) = fields.get("attributes") else { return Vec::new() };
    let (Value::Map(entries), Shape::Map(shape)) = (&item.node.value, item.shape) else {
        item.mismatch(Some("write `attributes: { account: \"header['x-account']\" }`".to_owned()));
        return Vec::new();
    };
    let verified = fields.has("jwt") || fields.has_slip_of("jwt");
    let mut sources = Vec::new();
    for entry in entries {
        let name = attribute_name(&item, entry);
        let places = places(Item { node: &entry.value, shape, ..item }.narrow(), verified);
        if let (Some(name), Some(places)) = (name, places) {
            sources.push(AttributeSource { name, places });
        }
    }
    sources
}

/// A name that rules can use, and that means nothing else.
fn attribute_name(item: &Item<'_>, entry: &Entry<'_>) -> Option<String> {
    let (label, help) = match notation::attribute(&entry.key) {
        Ok(Attribute::Custom(name)) if name.starts_with(CLAIMS) => {
            ("means a claim of the token", "give it a name of its own, such as account".to_owned())
        }
        Ok(Attribute::Custom(name)) => return Some(name),
        Ok(_) => ("has a meaning already", "give it a name of its own, such as account".to_owned()),
        Err(fault) => {
            let (_, remedy) = super::super::halves(&fault.message);
            ("rules could not use it", remedy.unwrap_or_else(|| "write a name such as account".to_owned()))
        }
    };
    item.context.report(
        Finding::error(entry.key_span, format!("{} is no name for an attribute", quoted(&entry.key)))
            .label(label)
            .help(help),
    );
    None
}

fn places(item: Item<'_>, verified: bool) -> Option<Vec<AttributePlace>> {
    if let Value::List(nodes) = &item.node.value
        && nodes.is_empty()
    {
        item.context.report(
            Finding::error(item.span(), "this attribute comes from nowhere")
                .label("empty")
                .help("name a place such as header['x-api-key']"),
        );
        return None;
    }
    match item.shape {
        Shape::List(_) => {
            // Each is looked at, whatever is wrong with the others.
            let places: Vec<_> = item.items()?.map(|it| place(&it, verified)).collect();
            places.into_iter().collect()
        }
        Shape::Place => Some(vec![place(&item, verified)?]),
        _ => {
            item.mismatch(Some("write a place such as header['x-api-key'], or a list of places".to_owned()));
            None
        }
    }
}

fn place(item: &Item<'_>, verified: bool) -> Option<AttributePlace> {
    let text = item.text()?;
    let Some((kind, name)) = notation::bracketed(text) else {
        let claim = text.strip_prefix(CLAIMS).map(|claim| format!("did you mean jwt['{claim}']?"));
        refuse_place(item, text, "not written like one", claim);
        return None;
    };
    let token = is_header_name(&name);
    match kind {
        "header" if token => Some(AttributePlace::Header(name.to_ascii_lowercase())),
        "scheme" if token => Some(AttributePlace::Scheme(name)),
        "header" | "scheme" => {
            refuse_place(item, text, "no request can have it", Some("use letters, digits and `-` in the name".into()));
            None
        }
        "cookie" => Some(AttributePlace::Cookie(name)),
        "query" => Some(AttributePlace::Query(name)),
        "jwt" if verified => Some(AttributePlace::Claim(name)),
        "jwt" => {
            item.context.report(
                Finding::error(item.span(), "no token is verified, so there are no claims")
                    .label("needs `jwt`")
                    .help("add `jwt: { key: jwt.pem, algorithm: RS256 }` to `gateway`"),
            );
            None
        }
        other => {
            let near = nearest(other, PLACES.into_iter()).map(|near| format!("did you mean {near}['{name}']?"));
            refuse_place(item, text, "not known", near);
            None
        }
    }
}

fn refuse_place(item: &Item<'_>, text: &str, label: &str, help: Option<String>) {
    let usual = || "write header['x'], cookie['x'], query['x'], scheme['X'] or jwt['x']".to_owned();
    item.context.report(
        Finding::error(item.span(), format!("{} is no place of an attribute", quoted(text)))
            .label(label)
            .help(help.unwrap_or_else(usual)),
    );
}

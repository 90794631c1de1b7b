//! Parses configured replies: of a rule over its limit, or of a route.

use std::fs;
use std::path::Path;

use serde_json::Value as Json;
use sluicegate_engine::rule::{Reply, ReplyBody};

use super::ParseContext;
use super::map::FieldMap;
use super::value::FieldValue;
use crate::diagnostic::{DiagnosticBuilder, quoted};
use crate::grammar::Shape;
use crate::tree::{Node, Value};

/// Maximum size of a reply file.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// Fields of a plain reply.
pub(crate) const PLAIN_FIELDS: [&str; 5] = ["status", "body", "json", "file", "headers"];

/// Parses the reply of `on_limit` or `then`.
pub(crate) fn reply(fields: &FieldMap<'_>) -> Option<Reply> {
    let plain = PLAIN_FIELDS.into_iter().find(|name| fields.has(name));
    report_conflict(
        fields,
        plain.into_iter().chain(["degrade", "redirect"]),
        "keep only one of a refusal, `degrade` and `redirect`",
    );
    let degrade = fields.section("degrade").map(|it| {
        let status = status(&it).unwrap_or(200);
        Reply::Degrade { status, body: body(&it), headers: headers(&it) }
    });
    let redirect = fields.get("redirect").and_then(|it| redirect(it.narrow(), &TEMPORARY));
    let refuse = Reply::Refuse { status: status(fields).unwrap_or(429), body: body(fields), headers: headers(fields) };
    degrade.or(redirect).or_else(|| plain.map(|_| refuse))
}

/// Parses a route's `respond`, sent as configured with any status.
pub(crate) fn route_response(fields: &FieldMap<'_>) -> Option<Reply> {
    let plain = PLAIN_FIELDS.into_iter().find(|name| fields.has(name));
    report_conflict(fields, plain.into_iter().chain(["redirect"]), "keep either the response fields or `redirect`");
    if fields.is_empty() {
        fields.context.report(
            DiagnosticBuilder::error(fields.first_key_span(), "`respond` is empty")
                .label("no response")
                .help("add `status`, `body` or `redirect`"),
        );
    }
    let redirect = fields.get("redirect").and_then(|it| redirect(it.narrow(), &TEMPORARY_OR_PERMANENT));
    let status = status(fields).unwrap_or(200);
    let response = Reply::Degrade { status, body: body(fields), headers: headers(fields) };
    redirect.or_else(|| plain.map(|_| response))
}

/// Reports the second of several mutually exclusive fields.
fn report_conflict(fields: &FieldMap<'_>, kinds: impl Iterator<Item = &'static str>, help: &'static str) {
    let mut present = kinds.filter(|name| fields.has(name));
    if let (Some(first), Some(second)) = (present.next(), present.next()) {
        fields.context.report(
            DiagnosticBuilder::error(
                fields.key_span(second),
                format!("`{first}` and `{second}` are mutually exclusive"),
            )
            .label("a second reply")
            .with_related(fields.key_span(first), "the first")
            .help(help),
        );
    }
}

fn status(fields: &FieldMap<'_>) -> Option<u16> {
    fields.count("status").and_then(|status| u16::try_from(status).ok())
}

/// Allowed redirect statuses, and the message for others.
struct RedirectStatuses {
    statuses: &'static [u16],
    kind: &'static str,
    error: &'static str,
    help: &'static str,
}

const TEMPORARY: RedirectStatuses = RedirectStatuses {
    statuses: &[302, 303, 307],
    kind: "temporary redirect",
    error: "clients would cache it or not follow it",
    help: "use 302, 303 or 307",
};

const TEMPORARY_OR_PERMANENT: RedirectStatuses = RedirectStatuses {
    statuses: &[301, 302, 303, 307, 308],
    kind: "redirect",
    error: "clients would not follow it",
    help: "use 302, 303 or 307 for a temporary redirect, 301 or 308 for a permanent one",
};

fn redirect(item: FieldValue<'_>, statuses: &RedirectStatuses) -> Option<Reply> {
    match item.shape {
        Shape::Section(_) => {
            let fields = item.section()?;
            let status = status(&fields).unwrap_or(302);
            if !statuses.statuses.contains(&status) {
                fields.context.report(
                    DiagnosticBuilder::error(
                        fields.value_span("status"),
                        format!("{status} is not the status of a {}", statuses.kind),
                    )
                    .label(statuses.error)
                    .help(statuses.help),
                );
            }
            let location = fields.get("location").and_then(|it| location(&it))?;
            Some(Reply::Redirect { status, location })
        }
        _ => location(&item).map(|location| Reply::Redirect { status: 302, location }),
    }
}

fn location(item: &FieldValue<'_>) -> Option<String> {
    let text = item.text()?;
    let has_valid_start = ["/", "http://", "https://"].iter().any(|start| text.starts_with(start));
    let is_escaped = text.chars().all(|c| c.is_ascii_graphic());
    if !has_valid_start || !is_escaped {
        item.context.report(
            DiagnosticBuilder::error(item.span(), format!("{} is not a valid redirect target", quoted(text)))
                .label(if has_valid_start {
                    "spaces and special characters must be escaped"
                } else {
                    "neither a path nor a URL"
                })
                .help("write a path such as /busy, or a URL such as https://status.example.com/"),
        );
        return None;
    }
    Some(text.to_owned())
}

fn body(fields: &FieldMap<'_>) -> Option<ReplyBody> {
    let mut present = ["body", "json", "file"].into_iter().filter(|name| fields.has(name));
    if let (Some(first), Some(second)) = (present.next(), present.next()) {
        fields.context.report(
            DiagnosticBuilder::error(
                fields.key_span(second),
                format!("`{first}` and `{second}` are mutually exclusive"),
            )
            .label("a second body")
            .with_related(fields.key_span(first), "the first")
            .help("keep only one of `body`, `json` and `file`"),
        );
    }
    let text = fields.get("body").and_then(|it| it.text()).map(|text| ReplyBody::Text(text.to_owned()));
    let json =
        fields.get("json").and_then(|it| json(it.context, it.node)).map(|json| ReplyBody::Json(json.to_string()));
    let file = fields.get("file").and_then(|it| file(&it)).map(ReplyBody::File);
    text.or(json).or(file)
}

/// Parses the path of a reply file; checks that it exists if the base directory is known.
fn file(item: &FieldValue<'_>) -> Option<String> {
    let text = item.text()?;
    let Some(folder) = item.context.folder else { return Some(text.to_owned()) };
    let path = folder.join(Path::new(text));
    let error = match fs::metadata(&path) {
        Ok(found) if !found.is_file() => "not a regular file".to_owned(),
        Ok(found) if found.len() > MAX_BODY_BYTES => format!("larger than {} MiB", MAX_BODY_BYTES >> 20),
        Ok(_) => return Some(path.to_string_lossy().into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "the file does not exist".to_owned(),
        Err(error) => error.to_string(),
    };
    item.context.report(
        DiagnosticBuilder::error(item.span(), format!("cannot use the file {} as a body", quoted(text)))
            .label(error)
            .help("correct the path; it is relative to the directory of the rule file"),
    );
    None
}

fn headers(fields: &FieldMap<'_>) -> Vec<(String, String)> {
    let Some(item) = fields.get("headers") else { return Vec::new() };
    let Value::Map(entries) = &item.node.value else {
        item.mismatch(Some("write `headers: { name: value }`".to_owned()));
        return Vec::new();
    };
    let mut headers = Vec::new();
    for entry in entries {
        if !is_header_name(&entry.key) {
            item.context.report(
                DiagnosticBuilder::error(entry.key_span, format!("{} is not a valid header name", quoted(&entry.key)))
                    .label("only letters, digits and `-` are allowed")
                    .help("write a name such as retry-after"),
            );
            continue;
        }
        let value = match &entry.value.value {
            Value::Text(text) => text.to_string(),
            Value::Int(number) => number.to_string(),
            _ => {
                FieldValue { node: &entry.value, shape: &Shape::HeaderValue, ..item }.mismatch(None);
                continue;
            }
        };
        if value.chars().any(char::is_control) {
            item.context.report(
                DiagnosticBuilder::error(
                    entry.value.span,
                    format!("the value of `{}` has a line break or control character", entry.key),
                )
                .label("not allowed in a header")
                .help("write it on one line"),
            );
            continue;
        }
        headers.push((entry.key.to_lowercase(), value));
    }
    headers
}

/// True for a valid header name.
pub(crate) fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Converts a value to JSON.
pub fn json(context: &ParseContext<'_>, node: &Node<'_>) -> Option<Json> {
    let number = match &node.value {
        Value::Null => return Some(Json::Null),
        Value::Bool(value) => return Some(Json::Bool(*value)),
        Value::Text(text) => return Some(Json::String(text.to_string())),
        Value::List(items) => return items.iter().map(|item| json(context, item)).collect(),
        Value::Map(entries) => {
            let entries = entries.iter().map(|entry| Some((entry.key.to_string(), json(context, &entry.value)?)));
            return entries.collect::<Option<_>>().map(Json::Object);
        }
        Value::Int(value) => {
            i64::try_from(*value).map(Json::from).or_else(|_| u64::try_from(*value).map(Json::from)).ok()
        }
        Value::Float(value) => serde_json::Number::from_f64(*value).map(Json::Number),
    };
    if number.is_none() {
        context.report(
            DiagnosticBuilder::error(node.span, format!("{} cannot be represented in JSON", node.describe()))
                .label("not a JSON number")
                .help("quote it to send it as a string"),
        );
    }
    number
}

//! What is answered instead of an upstream's answer: to a request over the limit, or by a route.

use std::fs;
use std::path::Path;

use serde_json::Value as Json;
use sluicegate_engine::rule::{Reply, ReplyBody};

use super::Context;
use super::fields::Fields;
use super::item::Item;
use crate::diagnostic::{Finding, quoted};
use crate::grammar::Shape;
use crate::tree::{Node, Value};

/// The largest file that is answered instead of a reply.
const LARGEST_BODY: u64 = 1 << 20;

/// The fields that make a plain reply.
pub(crate) const PLAIN: [&str; 5] = ["status", "body", "json", "file", "headers"];

/// The reply described by the fields of `on_limit` or `then`.
pub(crate) fn reply(fields: &Fields<'_>) -> Option<Reply> {
    let plain = PLAIN.into_iter().find(|name| fields.has(name));
    report_two(
        fields,
        plain.into_iter().chain(["degrade", "redirect"]),
        "keep one: a refusal, `degrade` or `redirect`",
    );
    let degrade = fields.section("degrade").map(|it| {
        let status = status(&it).unwrap_or(200);
        Reply::Degrade { status, body: body(&it), headers: headers(&it) }
    });
    let redirect = fields.get("redirect").and_then(|it| redirect(it.narrow(), &FOR_NOW));
    let refuse = Reply::Refuse { status: status(fields).unwrap_or(429), body: body(fields), headers: headers(fields) };
    degrade.or(redirect).or_else(|| plain.map(|_| refuse))
}

/// The reply described by the fields of a route's `answer`: it is given as it stands, whatever its status.
pub(crate) fn answer(fields: &Fields<'_>) -> Option<Reply> {
    let plain = PLAIN.into_iter().find(|name| fields.has(name));
    report_two(fields, plain.into_iter().chain(["redirect"]), "keep one: an answer, or `redirect`");
    if fields.is_empty() {
        fields.context.report(
            Finding::error(fields.head(), "`answer` says nothing")
                .label("empty")
                .help("give it a `status`, a `body` or a `redirect`"),
        );
    }
    let redirect = fields.get("redirect").and_then(|it| redirect(it.narrow(), &FOR_NOW_OR_GOOD));
    let status = status(fields).unwrap_or(200);
    let answer = Reply::Degrade { status, body: body(fields), headers: headers(fields) };
    redirect.or_else(|| plain.map(|_| answer))
}

/// Reports the second of several fields of which only one can be given.
fn report_two(fields: &Fields<'_>, kinds: impl Iterator<Item = &'static str>, help: &'static str) {
    let mut given = kinds.filter(|name| fields.has(name));
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        fields.context.report(
            Finding::error(fields.key_span(second), format!("`{first}` and `{second}` cannot both be answered"))
                .label("a second answer")
                .also(fields.key_span(first), "the first")
                .help(help),
        );
    }
}

fn status(fields: &Fields<'_>) -> Option<u16> {
    fields.count("status").and_then(|status| u16::try_from(status).ok())
}

/// Which statuses send a client elsewhere, and what a message says of the others.
struct Redirects {
    statuses: &'static [u16],
    kind: &'static str,
    fault: &'static str,
    help: &'static str,
}

const FOR_NOW: Redirects = Redirects {
    statuses: &[302, 303, 307],
    kind: "temporary redirect",
    fault: "clients would remember it, or not follow it",
    help: "use 302, 303 or 307",
};

const FOR_NOW_OR_GOOD: Redirects = Redirects {
    statuses: &[301, 302, 303, 307, 308],
    kind: "redirect",
    fault: "clients would not follow it",
    help: "use 302, 303 or 307 for now, 301 or 308 for good",
};

fn redirect(item: Item<'_>, known: &Redirects) -> Option<Reply> {
    match item.shape {
        Shape::Section(_) => {
            let fields = item.section()?;
            let status = status(&fields).unwrap_or(302);
            if !known.statuses.contains(&status) {
                fields.context.report(
                    Finding::error(fields.value_span("status"), format!("{status} is no {}", known.kind))
                        .label(known.fault)
                        .help(known.help),
                );
            }
            let location = fields.get("location").and_then(|it| location(&it))?;
            Some(Reply::Redirect { status, location })
        }
        _ => location(&item).map(|location| Reply::Redirect { status: 302, location }),
    }
}

fn location(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    let begins = ["/", "http://", "https://"].iter().any(|start| text.starts_with(start));
    let clean = text.chars().all(|c| c.is_ascii_graphic());
    if !begins || !clean {
        item.context.report(
            Finding::error(item.span(), format!("{} is no place to send a client to", quoted(text)))
                .label(if begins { "spaces and special characters must be escaped" } else { "does not begin like one" })
                .help("write a path such as /busy, or a URL such as https://status.example.com/"),
        );
        return None;
    }
    Some(text.to_owned())
}

fn body(fields: &Fields<'_>) -> Option<ReplyBody> {
    let mut given = ["body", "json", "file"].into_iter().filter(|name| fields.has(name));
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        fields.context.report(
            Finding::error(fields.key_span(second), format!("`{first}` and `{second}` are two bodies for one reply"))
                .label("a second body")
                .also(fields.key_span(first), "the first")
                .help("keep one of `body`, `json` and `file`"),
        );
    }
    let text = fields.get("body").and_then(|it| it.text()).map(|text| ReplyBody::Text(text.to_owned()));
    let json =
        fields.get("json").and_then(|it| json(it.context, it.node)).map(|json| ReplyBody::Json(json.to_string()));
    let file = fields.get("file").and_then(|it| file(&it)).map(ReplyBody::File);
    text.or(json).or(file)
}

/// The path of a file to answer with. It is looked for if it is known where.
fn file(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    let Some(folder) = item.context.folder else { return Some(text.to_owned()) };
    let path = folder.join(Path::new(text));
    let fault = match fs::metadata(&path) {
        Ok(found) if !found.is_file() => "this is not a file".to_owned(),
        Ok(found) if found.len() > LARGEST_BODY => format!("larger than {} MiB", LARGEST_BODY >> 20),
        Ok(_) => return Some(path.to_string_lossy().into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        Err(error) => error.to_string(),
    };
    item.context.report(
        Finding::error(item.span(), format!("{} cannot be answered with", quoted(text)))
            .label(fault)
            .help("the path is relative to the rule file's folder"),
    );
    None
}

fn headers(fields: &Fields<'_>) -> Vec<(String, String)> {
    let Some(item) = fields.get("headers") else { return Vec::new() };
    let Value::Map(entries) = &item.node.value else {
        item.mismatch(Some("write `headers: { name: value }`".to_owned()));
        return Vec::new();
    };
    let mut headers = Vec::new();
    for entry in entries {
        if !is_header_name(&entry.key) {
            item.context.report(
                Finding::error(entry.key_span, format!("{} is no header name", quoted(&entry.key)))
                    .label("letters, digits and -")
                    .help("write a name such as retry-after"),
            );
            continue;
        }
        let value = match &entry.value.value {
            Value::Text(text) => text.to_string(),
            Value::Int(number) => number.to_string(),
            _ => {
                Item { node: &entry.value, shape: &Shape::HeaderValue, ..item }.mismatch(None);
                continue;
            }
        };
        if value.chars().any(char::is_control) {
            item.context.report(
                Finding::error(
                    entry.value.span,
                    format!("the value of `{}` has a line break or control character", entry.key),
                )
                .label("cannot be sent")
                .help("write it on one line"),
            );
            continue;
        }
        headers.push((entry.key.to_lowercase(), value));
    }
    headers
}

/// Whether a header can have this name.
pub(crate) fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// A value as JSON.
pub(crate) fn json(context: &Context<'_>, node: &Node<'_>) -> Option<Json> {
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
            Finding::error(node.span, format!("JSON has no number {}", node.described().replace("the number ", "")))
                .label("cannot be written")
                .help("to send it as text, put it in quotes"),
        );
    }
    number
}

//! What one request costs.

use sluicegate_engine::rule::{Actual, Cost};

use super::item::Item;
use super::nearest;
use super::reply::is_header_name;
use crate::diagnostic::Finding;
use crate::grammar::Shape;
use crate::notation;

/// How deep a field may lie in the JSON of an answer.
const DEEPEST: usize = 16;

/// What can be written as `actual`; the last two with a name in brackets.
const SOURCES: [&str; 5] = ["told", "request.bytes", "response.bytes", "response.header", "response.json"];

/// Reads `cost`.
pub(crate) fn cost(item: Item<'_>) -> Option<Cost> {
    match item.shape {
        Shape::Count(..) => item.count().map(Cost::Fixed),
        Shape::Attribute => item.attribute().map(Cost::Attribute),
        Shape::Section(_) => {
            let fields = item.section()?;
            let actual = fields.get("actual").map(|it| actual(&it));
            let reserve = fields.count("estimate")?;
            Some(Cost::Estimate { reserve, actual: actual.unwrap_or(Some(Actual::Told))? })
        }
        _ => {
            item.mismatch(None);
            None
        }
    }
}

fn actual(item: &Item<'_>) -> Option<Actual> {
    let text = item.text()?;
    let Some((head, name)) = notation::bracketed(text) else {
        return match text.trim() {
            "told" => Some(Actual::Told),
            "request.bytes" => Some(Actual::RequestBytes),
            "response.bytes" => Some(Actual::ResponseBytes),
            other => {
                let head = other.split('[').next().unwrap_or_default().trim_end();
                let help = match nearest(head, SOURCES.into_iter()) {
                    Some("response.header") => "write response.header['x-tokens']".to_owned(),
                    Some("response.json") => "write response.json['usage.total_tokens']".to_owned(),
                    Some(word) => format!("did you mean `{word}`?"),
                    None if !head.contains('.') && other.contains('[') => format!("did you mean `response.{other}`?"),
                    None => format!("known are {}", SOURCES.join(", ")),
                };
                item.mismatch(Some(help));
                None
            }
        };
    };
    let fault = match head {
        "response.header" if is_header_name(&name) => return Some(Actual::ResponseHeader(name.to_ascii_lowercase())),
        "response.header" => "no name of a header",
        "response.json" => {
            let fields: Vec<String> = name.split('.').map(str::to_owned).collect();
            match fields {
                fields if fields.iter().any(String::is_empty) => "a field without a name",
                fields if fields.len() > DEEPEST => "deeper than 16 fields",
                fields => return Some(Actual::ResponseJson(fields)),
            }
        }
        _ => {
            let near = nearest(head, SOURCES.into_iter());
            let near = near.filter(|near| near.starts_with("response.") && *near != "response.bytes");
            let near = near.map_or_else(|| format!("response.{head}"), str::to_owned);
            let known = ["response.header", "response.json"].contains(&near.as_str());
            item.mismatch(known.then(|| format!("did you mean `{near}['{name}']`?")));
            return None;
        }
    };
    item.context.report(
        Finding::error(item.span(), "the real cost can be found nowhere").label(fault).help(
            "write response.header['x-tokens'], or response.json['usage.total_tokens'] with a dot between fields",
        ),
    );
    None
}

//! Parses `cost`.

use sluicegate_engine::rule::{Cost, CostSource};
use sluicegate_engine::spelling::nearest;

use super::reply::is_header_name;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::expressions;
use crate::grammar::Shape;

/// Maximum depth of a field in the response JSON.
const MAX_JSON_DEPTH: usize = 16;

/// Values of `actual`; the last two take a name in brackets.
const SOURCES: [&str; 5] = ["reported", "request.bytes", "response.bytes", "response.header", "response.json"];

/// Parses `cost`.
pub(crate) fn cost(item: FieldValue<'_>) -> Option<Cost> {
    match item.shape {
        Shape::Count(..) => item.count().map(Cost::Fixed),
        Shape::Attribute => item.attribute().map(Cost::Attribute),
        Shape::Section(_) => {
            let fields = item.section()?;
            let actual = fields.get("actual").map(|it| actual(&it));
            let reserve = fields.count("estimate")?;
            Some(Cost::Estimate { reserve, actual: actual.unwrap_or(Some(CostSource::Reported))? })
        }
        _ => {
            item.mismatch(None);
            None
        }
    }
}

fn actual(item: &FieldValue<'_>) -> Option<CostSource> {
    let text = item.text()?;
    let Some((head, name)) = expressions::bracketed(text) else {
        return match text.trim() {
            "reported" => Some(CostSource::Reported),
            "request.bytes" => Some(CostSource::RequestBytes),
            "response.bytes" => Some(CostSource::ResponseBytes),
            other => {
                let head = other.split('[').next().unwrap_or_default().trim_end();
                let help = match nearest(head, SOURCES) {
                    Some("response.header") => "write response.header['x-tokens']".to_owned(),
                    Some("response.json") => "write response.json['usage.total_tokens']".to_owned(),
                    Some(word) => format!("did you mean `{word}`?"),
                    None if !head.contains('.') && other.contains('[') => format!("did you mean `response.{other}`?"),
                    None => format!("known sources are {}", SOURCES.join(", ")),
                };
                item.mismatch(Some(help));
                None
            }
        };
    };
    let error = match head {
        "response.header" if is_header_name(&name) => {
            return Some(CostSource::ResponseHeader(name.to_ascii_lowercase()));
        }
        "response.header" => "invalid header name",
        "response.json" => {
            let fields: Vec<String> = name.split('.').map(str::to_owned).collect();
            match fields {
                fields if fields.iter().any(String::is_empty) => "empty field name",
                fields if fields.len() > MAX_JSON_DEPTH => "more than 16 nested fields",
                fields => return Some(CostSource::ResponseJson(fields)),
            }
        }
        _ => {
            let near = nearest(head, SOURCES);
            let near = near.filter(|near| near.starts_with("response.") && *near != "response.bytes");
            let near = near.map_or_else(|| format!("response.{head}"), str::to_owned);
            let known = ["response.header", "response.json"].contains(&near.as_str());
            item.mismatch(known.then(|| format!("did you mean `{near}['{name}']`?")));
            return None;
        }
    };
    item.context.report(DiagnosticBuilder::error(item.span(), "invalid source of the actual cost").label(error).help(
        "write response.header['x-tokens'], or response.json['usage.total_tokens'] with dots between the fields",
    ));
    None
}

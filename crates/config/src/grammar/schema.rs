//! Renders the tables as a JSON schema for editors.

use serde_json::{Map, Value, json};

use super::{Field, Presence, Section, Shape, SignalUnit, tables};

const DURATION: &str = r"^\s*[0-9][0-9_]*\s*(ns|us|ms|s|m|h|d|w)\s*$";
const SIZE: &str = r"^\s*[0-9][0-9_]*\s*(B|KB|MB|GB|KiB|MiB|GiB)?\s*$";
const RATE: &str = r"^\s*[0-9][0-9_]*\s*/\s*([0-9][0-9_]*\s*)?(ns|us|ms|s|m|h|d|w)\s*$";
const SIZE_RATE: &str =
    r"^\s*[0-9][0-9_]*\s*(B|KB|MB|GB|KiB|MiB|GiB)?\s*/\s*([0-9][0-9_]*\s*)?(ns|us|ms|s|m|h|d|w)\s*$";
const REFUSALS: &str = r"^\s*[0-9][0-9_]*\s+(refusals?\s+)?in\s+[0-9][0-9_]*\s*(ns|us|ms|s|m|h|d|w)\s*$";

/// Generates the JSON schema (draft 2020-12) of the rule file.
///
/// Editors use it for completion, descriptions and validation. It does not cover every check of the parser,
/// such as the syntax of conditions or the uniqueness of names.
pub fn schema() -> Value {
    let mut root = section(&tables::FILE);
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!("Sluicegate rule file"));
    if let Some(root) = root.as_object_mut() {
        schema.append(root);
    }
    Value::Object(schema)
}

fn section(section: &Section) -> Value {
    let fields: Map<String, Value> = section.fields.iter().map(|it| (it.name.to_owned(), field(it))).collect();
    let required: Vec<&str> =
        section.fields.iter().filter(|it| it.presence == Presence::Required).map(|it| it.name).collect();
    let mut schema = json!({
        "description": section.doc,
        "type": "object",
        "properties": fields,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn field(field: &Field) -> Value {
    let mut schema = shape(&field.shape);
    let mut description = field.doc.to_owned();
    match field.presence {
        Presence::Required => description.push_str(" Required."),
        Presence::Default("") => {}
        Presence::Default(default) => description.push_str(&format!(" Default: {default}.")),
    }
    for (word, doc) in field.shape.keywords() {
        description.push_str(&format!("\n- {word}: {doc}"));
    }
    schema["description"] = json!(description);
    schema
}

pub(super) fn shape(of: &Shape) -> Value {
    match of {
        Shape::Text | Shape::Condition | Shape::Target | Shape::Attribute => json!({ "type": "string" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Name => json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$", "maxLength": 128 }),
        Shape::Count(min, max) => {
            let mut number = json!({ "type": "integer", "minimum": min });
            if *max < u64::MAX {
                number["maximum"] = json!(max);
            }
            json!({ "anyOf": [number, { "type": "string", "pattern": "^[0-9][0-9_]*$" }] })
        }
        Shape::Duration => pattern(DURATION),
        Shape::Size => json!({ "anyOf": [{ "type": "integer", "minimum": 1 }, pattern(SIZE)] }),
        Shape::Rate => pattern(RATE),
        Shape::SizeRate => pattern(SIZE_RATE),
        Shape::Keyword(words) => json!({ "enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>() }),
        Shape::Address => pattern(r"^(\[[0-9A-Fa-f:.]+\]|[0-9.]+):[0-9]{1,5}$"),
        Shape::Network => pattern(r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"),
        Shape::Store => pattern(r"^(memory|rediss?(\+sentinel|\+cluster)?://\S+)$"),
        Shape::Url => pattern(r"^https?://\S+$"),
        Shape::RoutePath => pattern("^/"),
        Shape::Path => pattern(r"^/\S*$"),
        Shape::Method => pattern(r"^[A-Z0-9!#$%&'*+.^_`|~-]+$"),
        Shape::HostPattern => pattern(r"^((\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])$"),
        Shape::Host => pattern(r"^([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$"),
        Shape::HeaderName => pattern(r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"),
        Shape::AttributeLocation => pattern(r"^\s*(header|cookie|query|scheme|jwt)\s*\[.+\]\s*$"),
        Shape::ActualCost => {
            pattern(r"^\s*(reported|request\.bytes|response\.bytes|response\.(header|json)\s*\[.+\])\s*$")
        }
        Shape::Location => pattern(r"^(/|https?://)\S*$"),
        Shape::Refusals => pattern(REFUSALS),
        Shape::Percentage => pattern(r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$"),
        Shape::Ceiling => {
            json!({ "anyOf": [pattern(RATE), pattern(r"^\s*[0-9]+(\.[0-9]+)?\s*%\s+of\s+capacity\s*$")] })
        }
        Shape::Comparison(unit) => pattern(match unit {
            SignalUnit::Number => r"^\s*[<>]=?\s*[0-9]+(\.[0-9]+)?\s*$",
            SignalUnit::Percent => r"^\s*[<>]=?\s*[0-9]+(\.[0-9]+)?\s*%?\s*$",
            SignalUnit::Time => r"^\s*[<>]=?\s*[0-9][0-9_]*\s*(ns|us|ms|s|m|h|d|w)\s*$",
            SignalUnit::Inherited => r"^\s*[<>]=?\s*[0-9]",
            SignalUnit::BytesPerSecond => r"^\s*[<>]=?\s*[0-9][0-9_]*\s*(B|KB|MB|GB|KiB|MiB|GiB)?(/s)?\s*$",
        }),
        Shape::HeaderValue => json!({ "type": ["string", "integer"] }),
        Shape::Json => json!({}),
        Shape::Section(of) => section(of),
        Shape::OneOf(sections) => json!({ "oneOf": sections.iter().map(|it| section(it)).collect::<Vec<_>>() }),
        Shape::List(of) => json!({ "type": "array", "items": shape(of) }),
        Shape::Map(of) => json!({ "type": "object", "additionalProperties": shape(of) }),
        Shape::Either(shapes) => json!({ "anyOf": shapes.iter().map(shape).collect::<Vec<_>>() }),
    }
}

fn pattern(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

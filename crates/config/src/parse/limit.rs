//! Parses a limit, in short or long form.

use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::{LimitArguments, Parameter, ParameterKind, ParameterValue as Argument};
use sluicegate_engine::limit::DESCRIPTIONS;
use sluicegate_engine::spelling::nearest;

use super::map::FieldMap;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::grammar::{Section, Shape, backticked_list};
use crate::tree::{MapEntry, Value};

/// Parses an entry of `limits`.
pub fn limit(item: FieldValue<'_>) -> Option<Limit> {
    let item = item.narrow();
    match item.shape {
        Shape::Rate => {
            let limit = Limit::from_rate(item.rate()?);
            limit.map_err(|error| item.report_limit(item.span(), &error)).ok()
        }
        Shape::OneOf(sections) => long_form(item, sections),
        _ => {
            let help = match item.node.value {
                Value::Int(number @ 1..) => Some(format!("add a period: `{number}/s` or `{number}/1m`")),
                _ => Some("write a rate such as 300/1m, or a map such as { token_bucket: 10/s, burst: 20 }".to_owned()),
            };
            item.context.report(
                DiagnosticBuilder::error(item.span(), format!("{} is not a limit", item.node.describe()))
                    .label("invalid value")
                    .maybe_help(help),
            );
            None
        }
    }
}

fn long_form(item: FieldValue<'_>, sections: &'static [&'static Section]) -> Option<Limit> {
    let Value::Map(entries) = &item.node.value else { return None };
    let names = || sections.iter().filter_map(|section| section.names().next());
    let section_of = |entry: &MapEntry<'_>| sections.iter().find(|section| section.names().next() == Some(&*entry.key));
    let mut named = entries.iter().filter_map(|entry| Some((entry, section_of(entry)?)));
    let Some((first, section)) = named.next() else {
        let near = entries.iter().find_map(|entry| Some((entry, nearest(&entry.key, names())?)));
        item.context.report(match near {
            Some((entry, word)) => {
                DiagnosticBuilder::error(entry.key_span, format!("unknown algorithm `{}`", entry.key))
                    .label("not an algorithm")
                    .help(format!("did you mean `{word}`?"))
            }
            None => DiagnosticBuilder::error(
                entries.first().map_or(item.span(), |entry| entry.key_span),
                "the limit has no algorithm",
            )
            .label("no field names an algorithm")
            .help(format!("add one of {}", backticked_list(names()))),
        });
        return None;
    };
    if let Some((second, _)) = named.next() {
        item.context.report(
            DiagnosticBuilder::error(
                second.key_span,
                format!("the limit has two algorithms, `{}` and `{}`", first.key, second.key),
            )
            .label("second algorithm")
            .with_related(first.key_span, "first algorithm")
            .help("write two limits in the list; a request must fit both"),
        );
        return None;
    }
    let owner = |field: &str| {
        let owners = sections.iter().filter(|section| section.field(field).is_some());
        let owners: Vec<&str> = owners.filter_map(|section| section.names().next()).collect();
        (!owners.is_empty()).then(|| format!("`{field}` is an option of {}", join_with_or(&owners)))
    };
    build(&FieldMap::open_hinted(item.context, item.node, section, owner)?)
}

fn join_with_or(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
}

/// Builds the limit of a section, with the parameters that the engine describes.
fn build(fields: &FieldMap<'_>) -> Option<Limit> {
    let name = fields.section.fields.first()?.name;
    let description = DESCRIPTIONS.iter().find(|description| description.name == name)?;
    // All parameters are parsed even if one is invalid, to report all errors.
    let values: Vec<Option<Argument>> =
        description.parameters.iter().map(|parameter| argument(fields, parameter)).collect();
    let is_complete =
        description.parameters.iter().zip(&values).all(|(it, value)| value.is_some() || !it.is_required());
    if !is_complete {
        return None;
    }
    Limit::from_arguments(name, &LimitArguments::new(values))
        .map_err(|error| {
            let field = error.field().filter(|field| fields.has(field)).unwrap_or(name);
            fields.context.report_limit(fields.value_span(field), &error, || format!("correct `{name}`"));
        })
        .ok()
}

/// Value of a parameter, if it is given and valid.
fn argument(fields: &FieldMap<'_>, parameter: &Parameter) -> Option<Argument> {
    let field = fields.get(parameter.name)?;
    match parameter.kind {
        ParameterKind::Rate | ParameterKind::Window => field.rate().map(Argument::Rate),
        ParameterKind::ByteRate => field.size_rate().map(Argument::Rate),
        ParameterKind::Count(..) => field.count().map(Argument::Count),
        ParameterKind::Size => field.size().map(Argument::Count),
        ParameterKind::Duration => field.nonzero_duration().map(Argument::Duration),
        ParameterKind::Keyword(words) => {
            let keyword = field.keyword()?;
            words.iter().position(|(word, _)| *word == keyword).map(Argument::Keyword)
        }
    }
}

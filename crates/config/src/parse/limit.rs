//! Parses a limit, in short or long form.

use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::algorithm::warm_up::DEFAULT_COLD_FACTOR;
use sluicegate_engine::limit::DEFAULT_CELLS;
use sluicegate_engine::spelling::nearest;
use sluicegate_engine::{Limit, LimitError, Rate};

use super::map::FieldMap;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::grammar::{Section, Shape, backticked_list};
use crate::source::Span;
use crate::tree::{MapEntry, Value};

/// Parses an entry of `limits`.
pub fn limit(item: FieldValue<'_>) -> Option<Limit> {
    let item = item.narrow();
    match item.shape {
        Shape::Rate => {
            let rate = item.rate()?;
            short_form(rate).map_err(|error| item.report_limit(item.span(), &error)).ok()
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

/// The limit for the short form `300/1m`.
pub fn short_form(rate: Rate) -> Result<Limit, LimitError> {
    let cells = u32::try_from(rate.period().as_nanos()).unwrap_or(u32::MAX).min(DEFAULT_CELLS);
    Limit::sliding_window(rate.count(), rate.period(), cells)
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

fn build(fields: &FieldMap<'_>) -> Option<Limit> {
    let algorithm = fields.section.fields.first()?.name;
    let main = fields.get(algorithm);
    // Options are parsed even if the main field is invalid, to report all errors.
    let built = match algorithm {
        "token_bucket" => {
            let (rate, burst) = (main.and_then(|it| it.rate()), fields.count("burst"));
            rate.map(|rate| Limit::token_bucket(rate, burst.unwrap_or(rate.count())))
        }
        "leaky_bucket" => {
            let (rate, queue) = (main.and_then(|it| it.rate()), fields.count("queue"));
            rate.map(|rate| Limit::leaky_bucket(rate, queue.unwrap_or(rate.count())))
        }
        "fixed_window" => {
            let alignment = match fields.keyword("align") {
                Some("first_use") => Alignment::FirstUse,
                _ => Alignment::Epoch,
            };
            main.and_then(|it| it.rate()).map(|rate| Limit::fixed_window(rate.count(), rate.period(), alignment))
        }
        "sliding_window" => {
            let (rate, cells) = (main.and_then(|it| it.rate()), fields.count32("cells"));
            match cells {
                Some(cells) => rate.map(|rate| Limit::sliding_window(rate.count(), rate.period(), cells)),
                None => rate.map(short_form),
            }
        }
        "interpolated_window" => {
            main.and_then(|it| it.rate()).map(|rate| Limit::interpolated_window(rate.count(), rate.period()))
        }
        "sliding_log" => main.and_then(|it| it.rate()).map(|rate| Limit::sliding_log(rate.count(), rate.period())),
        "concurrency" => main.and_then(|it| it.count()).map(Limit::concurrency),
        "bandwidth" => {
            let (rate, burst) = (main.and_then(|it| it.size_rate()), fields.get("burst").and_then(|it| it.size()));
            rate.map(|rate| Limit::bandwidth(rate, burst.unwrap_or_else(|| per_second(rate))))
        }
        "warm_up" => {
            let rate = main.and_then(|it| it.rate());
            let over = fields.get("over").and_then(|it| it.nonzero_duration());
            let factor = fields.count32("cold_factor").unwrap_or(DEFAULT_COLD_FACTOR);
            rate.zip(over).map(|(rate, over)| Limit::warm_up(rate, over, factor))
        }
        _ => None,
    };
    built?
        .map_err(|error| {
            fields
                .context
                .report_limit(error_span(fields, algorithm, &error), &error, || format!("correct `{algorithm}`"));
        })
        .ok()
}

/// Span of the value that an error refers to.
fn error_span(fields: &FieldMap<'_>, algorithm: &'static str, error: &LimitError) -> Span {
    let field = match error {
        LimitError::Zero { field } | LimitError::FillsTooSlowly { field, .. } => *field,
        LimitError::Cells { .. } => "cells",
        LimitError::ColdFactor { .. } => "cold_factor",
        LimitError::WarmUpTooShort { .. } => "over",
        _ => algorithm,
    };
    fields.value_span(if fields.has(field) { field } else { algorithm })
}

/// Amount per second, at least one byte.
fn per_second(rate: Rate) -> u64 {
    let period = rate.period().as_nanos().max(1);
    let bytes = u128::from(rate.count()) * Duration::from_secs(1).as_nanos() / period;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_matches_the_engine() {
        for text in ["300/1m", "10/s", "1/5ns"] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(short_form(rate).unwrap(), text.parse().unwrap());
        }
        assert_eq!(DEFAULT_CELLS, 10, "documented in the grammar");
    }

    #[test]
    fn the_default_bandwidth_burst_is_one_second() {
        let per = |count, period| Rate::new(count, Duration::from_secs(period)).unwrap();
        assert_eq!(per_second(per(2 << 20, 1)), 2 << 20);
        assert_eq!(per_second(per(600, 60)), 10);
        assert_eq!(per_second(per(1, 60)), 1);
    }
}

//! One limit, in its short or one of its long forms.

use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::algorithm::warm_up::DEFAULT_COLD_FACTOR;
use sluicegate_engine::limit::DEFAULT_CELLS;
use sluicegate_engine::{Limit, LimitError, Rate};

use super::fields::Fields;
use super::item::Item;
use super::nearest;
use crate::diagnostic::Finding;
use crate::grammar::{Section, Shape, listed};
use crate::source::Span;
use crate::tree::{Entry, Value};

/// Reads one of `limits`.
pub(crate) fn limit(item: Item<'_>) -> Option<Limit> {
    let item = item.narrow();
    match item.shape {
        Shape::Rate => {
            let rate = item.rate()?;
            short_form(rate).map_err(|error| item.report_limit(item.span(), &error)).ok()
        }
        Shape::OneOf(sections) => long_form(item, sections),
        _ => {
            let help = match item.node.value {
                Value::Int(number @ 1..) => Some(format!("say per what: `{number}/s` or `{number}/1m`")),
                _ => Some("write a rate such as 300/1m, or a map such as { token_bucket: 10/s, burst: 20 }".to_owned()),
            };
            item.context.report(
                Finding::error(item.span(), format!("{} is no limit", item.node.described()))
                    .label("does not fit")
                    .maybe_help(help),
            );
            None
        }
    }
}

/// What `300/1m` stands for.
pub(crate) fn short_form(rate: Rate) -> Result<Limit, LimitError> {
    let cells = u32::try_from(rate.period().as_nanos()).unwrap_or(u32::MAX).min(DEFAULT_CELLS);
    Limit::sliding_window(rate.count(), rate.period(), cells)
}

fn long_form(item: Item<'_>, sections: &'static [&'static Section]) -> Option<Limit> {
    let Value::Map(entries) = &item.node.value else { return None };
    let names = || sections.iter().filter_map(|section| section.names().next());
    let section_of = |entry: &Entry<'_>| sections.iter().find(|section| section.names().next() == Some(&*entry.key));
    let mut given = entries.iter().filter_map(|entry| Some((entry, section_of(entry)?)));
    let Some((first, section)) = given.next() else {
        let near = entries.iter().find_map(|entry| Some((entry, nearest(&entry.key, names())?)));
        item.context.report(match near {
            Some((entry, word)) => Finding::error(entry.key_span, format!("unknown algorithm `{}`", entry.key))
                .label("not known here")
                .help(format!("did you mean `{word}`?")),
            None => Finding::error(
                entries.first().map_or(item.span(), |entry| entry.key_span),
                "a limit without its algorithm",
            )
            .label("none of these fields names one")
            .help(format!("give it one of {}", listed(names()))),
        });
        return None;
    };
    if let Some((second, _)) = given.next() {
        item.context.report(
            Finding::error(second.key_span, format!("`{}` and `{}` in one limit", first.key, second.key))
                .label("a second algorithm")
                .also(first.key_span, "the first")
                .help("make them two limits of the list; a request must fit both"),
        );
        return None;
    }
    let owner = |field: &str| {
        let owners = sections.iter().filter(|section| section.field(field).is_some());
        let owners: Vec<&str> = owners.filter_map(|section| section.names().next()).collect();
        (!owners.is_empty()).then(|| format!("`{field}` goes with {}", listed_plain(&owners)))
    };
    build(&Fields::open_hinted(item.context, item.node, section, owner)?)
}

fn listed_plain(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
}

fn build(fields: &Fields<'_>) -> Option<Limit> {
    let algorithm = fields.section.fields.first()?.name;
    let main = fields.get(algorithm);
    // Options are read even if the main field is wrong: all faults at once.
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
            let alignment = match fields.word("align") {
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
            rate.map(|rate| Limit::bandwidth(rate, burst.unwrap_or_else(|| in_one_second(rate))))
        }
        "warm_up" => {
            let rate = main.and_then(|it| it.rate());
            let over = fields.get("over").and_then(|it| it.some_duration());
            let factor = fields.count32("cold_factor").unwrap_or(DEFAULT_COLD_FACTOR);
            rate.zip(over).map(|(rate, over)| Limit::warm_up(rate, over, factor))
        }
        _ => None,
    };
    built?
        .map_err(|error| {
            fields.context.report_limit(blamed(fields, algorithm, &error), &error, || format!("mend `{algorithm}`"));
        })
        .ok()
}

/// The value an error is about.
fn blamed(fields: &Fields<'_>, algorithm: &'static str, error: &LimitError) -> Span {
    let field = match error {
        LimitError::Zero { field } | LimitError::FillsTooSlowly { field, .. } => *field,
        LimitError::Cells { .. } => "cells",
        LimitError::ColdFactor { .. } => "cold_factor",
        LimitError::WarmUpTooShort { .. } => "over",
        _ => algorithm,
    };
    fields.value_span(if fields.has(field) { field } else { algorithm })
}

/// How much passes in a second, at least one byte.
fn in_one_second(rate: Rate) -> u64 {
    let period = rate.period().as_nanos().max(1);
    let bytes = u128::from(rate.count()) * Duration::from_secs(1).as_nanos() / period;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_of_a_rate_is_the_engines() {
        for text in ["300/1m", "10/s", "1/5ns"] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(short_form(rate).unwrap(), text.parse().unwrap());
        }
        assert_eq!(DEFAULT_CELLS, 10, "the grammar says so");
    }

    #[test]
    fn a_second_of_bandwidth_is_the_default_burst() {
        let per = |count, period| Rate::new(count, Duration::from_secs(period)).unwrap();
        assert_eq!(in_one_second(per(2 << 20, 1)), 2 << 20);
        assert_eq!(in_one_second(per(600, 60)), 10);
        assert_eq!(in_one_second(per(1, 60)), 1);
    }
}

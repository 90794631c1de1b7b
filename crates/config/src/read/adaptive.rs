//! Limits that hold only under strain.

use sluicegate_engine::Limit;
use sluicegate_engine::limit::parse;

use super::fields::Fields;
use super::item::Item;
use super::limit::short_form;
use crate::diagnostic::Finding;
use crate::grammar::{Shape, Unit};
use crate::settings::{Comparison, Condition, Signal, Threshold};

/// Signals by their names in the file.
const SIGNALS: [(&str, Signal); 11] = [
    ("load1", Signal::Load1),
    ("load5", Signal::Load5),
    ("load_per_core", Signal::LoadPerCore),
    ("cpu", Signal::Cpu),
    ("cpu_pressure", Signal::CpuPressure),
    ("memory", Signal::Memory),
    ("avg_rt", Signal::AverageResponseTime),
    ("in_flight", Signal::InFlight),
    ("qps", Signal::RequestsPerSecond),
    ("connections", Signal::Connections),
    ("traffic", Signal::Traffic),
];

/// Reads `adaptive`: the conditions, and the limit that holds with them.
pub(crate) fn adaptive(fields: &Fields<'_>) -> Option<(Vec<Condition>, Limit)> {
    let conditions = fields.section("when").map(|it| conditions(&it));
    let limit = fields.get("limit").and_then(|it| {
        let rate = it.rate()?;
        short_form(rate).map_err(|error| it.report_limit(it.span(), &error)).ok()
    });
    conditions.zip(limit)
}

fn conditions(fields: &Fields<'_>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for (name, signal) in SIGNALS {
        let Some(item) = fields.get(name) else { continue };
        if let Some((comparison, value)) = comparison(&item) {
            conditions.push(Condition { signal, comparison, value });
        }
    }
    if fields.is_empty() {
        fields.context.report(
            Finding::error(fields.head(), "`when` names no signal")
                .label("would never hold")
                .help("compare at least one, such as cpu: \"> 85%\""),
        );
    }
    let slow = |condition: &Condition| matches!(condition.signal, Signal::Load1 | Signal::Load5);
    if !conditions.is_empty() && conditions.iter().all(slow) {
        fields.context.report(
            Finding::warning(fields.head(), "load moves slowly: an overload is noticed after minutes")
                .label("the only signal")
                .help("add a fast one, such as in_flight, avg_rt or cpu"),
        );
    }
    conditions
}

fn comparison(item: &Item<'_>) -> Option<(Comparison, Threshold)> {
    let Shape::Comparison(unit) = *item.shape else { return None };
    let text = item.text()?.trim();
    let found =
        [(">=", Comparison::AtLeast), ("<=", Comparison::AtMost), (">", Comparison::Above), ("<", Comparison::Below)]
            .into_iter()
            .find_map(|(sign, comparison)| Some((comparison, text.strip_prefix(sign)?.trim())))
            .and_then(|(comparison, value)| Some((comparison, threshold(unit, value)?)));
    if found.is_none() {
        item.mismatch(Some(format!("write `>`, `>=`, `<` or `<=` and a value: \"{}\"", unit.example())));
    }
    found
}

fn threshold(unit: Unit, text: &str) -> Option<Threshold> {
    let number = |text: &str| {
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        text.parse::<f64>().ok().filter(|number| plain && number.is_finite())
    };
    match unit {
        Unit::Number => number(text).map(Threshold::Number),
        Unit::Percent => {
            let percent = number(text.strip_suffix('%').unwrap_or(text).trim_end())?;
            (percent <= 100.0).then_some(Threshold::Share(percent / 100.0))
        }
        Unit::Time => parse::duration(text).ok().map(Threshold::Time),
        Unit::BytesPerSecond => {
            parse::size(text.strip_suffix("/s").unwrap_or(text)).ok().map(Threshold::BytesPerSecond)
        }
    }
}

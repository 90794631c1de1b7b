//! Parses `adaptive`: overload protection.

use sluicegate_engine::Limit;
use sluicegate_engine::limit::parse;
use sluicegate_engine::rule::{Adaptive, Auto, Cap, Ceiling, Comparison, Condition, CpuGuard, Quorum, Signal};

use super::map::FieldMap;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::grammar::{Section, Shape, SignalUnit};
use crate::tree::Value;

/// Maximum hold time of a condition, and maximum wait of a request at a gate: one hour.
const MAX_DURATION: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Parses `adaptive`.
pub(crate) fn adaptive(item: FieldValue<'_>) -> Option<Adaptive> {
    let item = item.narrow();
    match (item.shape, &item.node.value) {
        (Shape::Keyword(_), _) => match item.keyword()? {
            "cpu" => Some(Adaptive::Cpu(CpuGuard::default())),
            _ => Some(Adaptive::Auto(Auto::default())),
        },
        (Shape::OneOf(forms), Value::Map(entries)) => {
            let is_named = |form: &&&'static Section| {
                let first = form.names().next();
                entries.iter().any(|entry| first == Some(&*entry.key))
            };
            let form = forms.iter().find(is_named).or(forms.first())?;
            let fields = FieldMap::open(item.context, item.node, form)?;
            match form.names().next() {
                Some("auto") => auto(&fields.section("auto")?).map(Adaptive::Auto),
                Some("cpu") => cpu(&fields.section("cpu")?).map(Adaptive::Cpu),
                _ => ceiling(&fields).map(Adaptive::Ceiling),
            }
        }
        _ => {
            item.mismatch(Some(
                "write `auto`, `cpu`, or conditions and a limit: { when: { cpu: \"> 85%\" }, limit: 100/s }".to_owned(),
            ));
            None
        }
    }
}

fn ceiling(fields: &FieldMap<'_>) -> Option<Ceiling> {
    let conditions = fields.section("when").map(|it| conditions(&it));
    let cap = fields.get("limit").and_then(|it| cap(&it));
    let quorum = match fields.keyword("require") {
        Some("any") => Quorum::Any,
        _ => Quorum::All,
    };
    let defaults = Ceiling::new([], Cap::ShareOfCapacity(1.0));
    let duration = |name, default| fields.get(name).map_or(Some(default), |it| bounded_duration(&it));
    let enter_after = duration("enter_after", defaults.enter_after);
    let exit_after = duration("exit_after", defaults.exit_after);
    let hold = duration("hold", defaults.hold);
    let recovery = fields.get("recovery").map_or(Some(defaults.recovery), |it| share(&it, 1.0));
    let (conditions, cap) = conditions.zip(cap)?;
    Some(Ceiling {
        conditions,
        quorum,
        cap,
        enter_after: enter_after?,
        exit_after: exit_after?,
        hold: hold?,
        recovery: recovery?,
    })
}

/// Parses a duration of at most one hour.
fn bounded_duration(item: &FieldValue<'_>) -> Option<std::time::Duration> {
    let duration = item.duration()?;
    if duration > MAX_DURATION {
        item.context.report(
            DiagnosticBuilder::error(item.span(), format!("`{}` is longer than an hour", item.name))
                .label("the maximum is 1h")
                .help("use a duration such as 5s; overload changes within seconds"),
        );
        return None;
    }
    Some(duration)
}

/// Parses a percentage above zero, up to `max`.
fn share(item: &FieldValue<'_>, max: f64) -> Option<f64> {
    let share = item.text()?.trim().strip_suffix('%').and_then(|text| number(text.trim_end()));
    let share = share.map(|percent| percent / 100.0).filter(|share| *share > 0.0 && *share <= max);
    if share.is_none() {
        item.mismatch(Some(format!("use a percentage above 0%, up to {}%", max * 100.0)));
    }
    share
}

fn cap(item: &FieldValue<'_>) -> Option<Cap> {
    if let Value::Text(text) = &item.node.value
        && let Some((percent, of)) = text.split_once('%')
    {
        let share = number(percent.trim()).map(|percent| percent / 100.0).filter(|share| *share > 0.0 && *share <= 1.0);
        let words: Vec<&str> = of.split_whitespace().collect();
        if let (Some(share), ["of", "capacity"]) = (share, &*words) {
            return Some(Cap::ShareOfCapacity(share));
        }
        item.mismatch(Some("use a percentage above 0%, up to 100%, such as `80% of capacity`".to_owned()));
        return None;
    }
    let rate = item.rate()?;
    // A rate that is not a valid limit is not a valid ceiling either.
    Limit::from_rate(rate).map_err(|error| item.report_limit(item.span(), &error)).ok()?;
    Some(Cap::Rate { count: rate.count(), window: rate.period() })
}

fn auto(fields: &FieldMap<'_>) -> Option<Auto> {
    let defaults = Auto::default();
    let min = fields.count32("min").unwrap_or(defaults.min);
    let max = fields.count32("max").unwrap_or(defaults.max.max(min));
    if min > max {
        fields.context.report(
            DiagnosticBuilder::error(fields.value_span("min"), "`min` is greater than `max`")
                .label(format!("minimum {min}"))
                .with_related(fields.value_span("max"), format!("maximum {max}"))
                .help("swap them, or remove one"),
        );
        return None;
    }
    let max_rt = fields.get("max_rt").map(|it| it.nonzero_duration());
    let max_wait = fields.get("max_wait").map(|it| bounded_duration(&it));
    let start = fields.count32("start");
    if start.is_some_and(|start| !(min..=max).contains(&start)) {
        fields.context.report(
            DiagnosticBuilder::error(fields.value_span("start"), "`start` is not between `min` and `max`")
                .label(format!("not from {min} to {max}"))
                .help("use a number between them, or remove `start`"),
        );
        return None;
    }
    Some(Auto {
        min,
        max,
        start: start.unwrap_or(defaults.start).clamp(min, max),
        max_rt: match max_rt {
            Some(max_rt) => Some(max_rt?),
            None => None,
        },
        max_wait: match max_wait {
            Some(max_wait) => Some(max_wait?),
            None => None,
        },
        max_waiting: fields.count32("max_waiting").unwrap_or(defaults.max_waiting),
    })
}

fn cpu(fields: &FieldMap<'_>) -> Option<CpuGuard> {
    let defaults = CpuGuard::default();
    let target = fields.get("target").map_or(Some(defaults.target), |it| share(&it, 1.0));
    let threshold = fields.get("threshold").map(|it| share(&it, 1.0));
    let (target, threshold) = (target?, threshold.unwrap_or(Some(defaults.threshold.max(target?)))?);
    if target > threshold {
        fields.context.report(
            DiagnosticBuilder::error(fields.value_span("target"), "`target` is greater than `threshold`")
                .label("higher than the threshold")
                .with_related(fields.value_span("threshold"), "the limit applies above this usage")
                .help("lower `target`, or raise `threshold`"),
        );
        return None;
    }
    Some(CpuGuard { target, threshold })
}

fn conditions(fields: &FieldMap<'_>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for signal in Signal::ALL {
        let Some(item) = fields.get(signal.name()) else { continue };
        conditions.extend(condition(signal, item));
    }
    if fields.is_empty() {
        fields.context.report(
            DiagnosticBuilder::error(fields.first_key_span(), "`when` has no signal")
                .label("never holds")
                .help("add a signal, such as cpu: \"> 85%\""),
        );
    }
    let is_slow =
        |condition: &Condition| matches!(condition.signal, Signal::Load1 | Signal::Load5 | Signal::LoadPerCore);
    if !conditions.is_empty() && conditions.iter().all(is_slow) {
        fields.context.report(
            DiagnosticBuilder::warning(
                fields.first_key_span(),
                "load averages change slowly: overload is detected only after minutes",
            )
            .label("no faster signal")
            .help("add a faster signal, such as in_flight, avg_rt or cpu"),
        );
    }
    conditions
}

fn condition(signal: Signal, item: FieldValue<'_>) -> Option<Condition> {
    let Shape::Either([Shape::Comparison(unit), ..]) = item.shape else { return None };
    let unit = *unit;
    let item = item.narrow();
    if !matches!(item.shape, Shape::Section(_)) {
        let (comparison, enter) = comparison(&item, unit)?;
        return Some(Condition::new(signal, comparison, enter));
    }
    let fields = item.section()?;
    let enter = fields.get("enter").and_then(|it| comparison(&it, unit));
    let exit = fields.get("exit").map(|it| comparison(&it, unit).map(|found| (found, it)));
    let min_duration = fields.get("for").map(|it| bounded_duration(&it));
    let (sign, enter) = enter?;
    let default = Condition::new(signal, sign, enter);
    let exit = match exit {
        None => default.exit,
        Some(exit) => {
            let ((exit_sign, exit), item) = exit?;
            let is_rising = |sign| matches!(sign, Comparison::Above | Comparison::AtLeast);
            let is_past = if is_rising(sign) { exit <= enter } else { exit >= enter };
            if is_rising(exit_sign) == is_rising(sign) || !is_past {
                item.context.report(
                    DiagnosticBuilder::error(item.span(), "`exit` contradicts `enter`")
                        .label("the signal still holds at this value")
                        .with_related(fields.value_span("enter"), "the signal holds from here")
                        .help("use the opposite comparison with a value outside the overload: enter: \"> 50\", exit: \"< 30\""),
                );
                return None;
            }
            exit
        }
    };
    let min_duration = match min_duration {
        Some(min_duration) => Some(min_duration?),
        None => None,
    };
    Some(Condition { exit, min_duration, ..default })
}

/// Shape of a value in this unit, for messages.
const fn unit_shape(unit: SignalUnit) -> &'static Shape {
    match unit {
        SignalUnit::Number | SignalUnit::Inherited => &Shape::Comparison(SignalUnit::Number),
        SignalUnit::Percent => &Shape::Comparison(SignalUnit::Percent),
        SignalUnit::Time => &Shape::Comparison(SignalUnit::Time),
        SignalUnit::BytesPerSecond => &Shape::Comparison(SignalUnit::BytesPerSecond),
    }
}

fn comparison(item: &FieldValue<'_>, unit: SignalUnit) -> Option<(Comparison, f64)> {
    let item = FieldValue { shape: unit_shape(unit), ..*item };
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

fn number(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse::<f64>().ok().filter(|number| is_plain && number.is_finite())
}

/// Parses a value in the signal's unit.
fn threshold(unit: SignalUnit, text: &str) -> Option<f64> {
    match unit {
        SignalUnit::Number | SignalUnit::Inherited => number(text),
        SignalUnit::Percent => {
            let percent = number(text.strip_suffix('%').unwrap_or(text).trim_end())?;
            (percent <= 100.0).then_some(percent / 100.0)
        }
        SignalUnit::Time => parse::duration(text).ok().map(|time| time.as_secs_f64()),
        SignalUnit::BytesPerSecond => {
            parse::size(text.strip_suffix("/s").unwrap_or(text)).ok().map(|bytes| bytes as f64)
        }
    }
}

//! What holds requests back under strain.

use sluicegate_engine::limit::parse;
use sluicegate_engine::rule::{Adaptive, Auto, Ceiling, Comparison, Condition, CpuGuard, Most, Need, Signal};

use super::fields::Fields;
use super::item::Item;
use super::limit::short_form;
use crate::diagnostic::Finding;
use crate::grammar::{Section, Shape, Unit};
use crate::tree::Value;

/// The longest that a condition may take to hold or to end, or that a request may wait at a gate: an hour.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Reads `adaptive`.
pub(crate) fn adaptive(item: Item<'_>) -> Option<Adaptive> {
    let item = item.narrow();
    match (item.shape, &item.node.value) {
        (Shape::Word(_), _) => match item.word()? {
            "cpu" => Some(Adaptive::Cpu(CpuGuard::default())),
            _ => Some(Adaptive::Auto(Auto::default())),
        },
        (Shape::OneOf(forms), Value::Map(entries)) => {
            let is_named = |form: &&&'static Section| {
                let first = form.names().next();
                entries.iter().any(|entry| first == Some(&*entry.key))
            };
            let form = forms.iter().find(is_named).or(forms.first())?;
            let fields = Fields::open(item.context, item.node, form)?;
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

fn ceiling(fields: &Fields<'_>) -> Option<Ceiling> {
    let conditions = fields.section("when").map(|it| conditions(&it));
    let most = fields.get("limit").and_then(|it| most(&it));
    let need = match fields.word("need") {
        Some("any") => Need::Any,
        _ => Need::All,
    };
    let usual = Ceiling::new([], Most::ShareOfCapacity(1.0));
    let span = |name, usual| fields.get(name).map_or(Some(usual), |it| bounded(&it));
    let (enter_after, exit_after, hold) =
        (span("enter_after", usual.enter_after), span("exit_after", usual.exit_after), span("hold", usual.hold));
    let recovery = fields.get("recovery").map_or(Some(usual.recovery), |it| share(&it, 1.0));
    let (conditions, most) = conditions.zip(most)?;
    Some(Ceiling {
        conditions,
        need,
        most,
        enter_after: enter_after?,
        exit_after: exit_after?,
        hold: hold?,
        recovery: recovery?,
    })
}

/// A duration of an hour at most.
fn bounded(item: &Item<'_>) -> Option<std::time::Duration> {
    let span = item.duration()?;
    if span > LONGEST {
        item.context.report(
            Finding::error(item.span(), format!("`{}` is longer than an hour", item.name))
                .label("the most is 1h")
                .help("strain comes and goes in seconds: give it a duration such as 5s"),
        );
        return None;
    }
    Some(span)
}

/// A share above zero, up to `most`.
fn share(item: &Item<'_>, most: f64) -> Option<f64> {
    let share = item.text()?.trim().strip_suffix('%').and_then(|text| number(text.trim_end()));
    let share = share.map(|percent| percent / 100.0).filter(|share| *share > 0.0 && *share <= most);
    if share.is_none() {
        item.mismatch(Some(format!("write a share above 0%, up to {}%", most * 100.0)));
    }
    share
}

fn most(item: &Item<'_>) -> Option<Most> {
    if let Value::Text(text) = &item.node.value
        && let Some((percent, of)) = text.split_once('%')
    {
        let share = number(percent.trim()).map(|percent| percent / 100.0).filter(|share| *share > 0.0 && *share <= 1.0);
        let words: Vec<&str> = of.split_whitespace().collect();
        if let (Some(share), ["of", "capacity"]) = (share, &*words) {
            return Some(Most::ShareOfCapacity(share));
        }
        item.mismatch(Some("write a share above 0%, up to 100%, such as `80% of capacity`".to_owned()));
        return None;
    }
    let rate = item.rate()?;
    // What makes no limit makes no ceiling either.
    short_form(rate).map_err(|error| item.report_limit(item.span(), &error)).ok()?;
    Some(Most::Rate { count: rate.count(), window: rate.period() })
}

fn auto(fields: &Fields<'_>) -> Option<Auto> {
    let usual = Auto::default();
    let least = fields.count32("min").unwrap_or(usual.least);
    let most = fields.count32("max").unwrap_or(usual.most.max(least));
    if least > most {
        fields.context.report(
            Finding::error(fields.value_span("min"), "`min` is more than `max`")
                .label(format!("never below {least}"))
                .also(fields.value_span("max"), format!("never above {most}"))
                .help("exchange them, or leave one out"),
        );
        return None;
    }
    let max_rt = fields.get("max_rt").map(|it| it.some_duration());
    let max_wait = fields.get("max_wait").map(|it| bounded(&it));
    let start = fields.count32("start");
    if let Some(start) = start.filter(|start| !(least..=most).contains(start)) {
        fields.context.report(
            Finding::error(fields.value_span("start"), "`start` is not within `min` and `max`")
                .label(format!("{start} is not from {least} to {most}"))
                .help("give it a number between them, or leave it out"),
        );
        return None;
    }
    Some(Auto {
        least,
        most,
        start: start.unwrap_or(usual.start).clamp(least, most),
        max_rt: match max_rt {
            Some(max_rt) => Some(max_rt?),
            None => None,
        },
        max_wait: match max_wait {
            Some(max_wait) => Some(max_wait?),
            None => None,
        },
        max_waiting: fields.count32("max_waiting").unwrap_or(usual.max_waiting),
    })
}

fn cpu(fields: &Fields<'_>) -> Option<CpuGuard> {
    let usual = CpuGuard::default();
    let target = fields.get("target").map_or(Some(usual.target), |it| share(&it, 1.0));
    let above = fields.get("above").map(|it| share(&it, 1.0));
    let (target, above) = (target?, above.unwrap_or(Some(usual.above.max(target?)))?);
    if target > above {
        fields.context.report(
            Finding::error(fields.value_span("target"), "`target` is more than `above`")
                .label("would let in more than where it begins to act")
                .also(fields.value_span("above"), "acts only above this")
                .help("lower `target`, or raise `above`"),
        );
        return None;
    }
    Some(CpuGuard { target, above })
}

fn conditions(fields: &Fields<'_>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for signal in Signal::ALL {
        let Some(item) = fields.get(signal.name()) else { continue };
        conditions.extend(condition(signal, item));
    }
    if fields.is_empty() {
        fields.context.report(
            Finding::error(fields.head(), "`when` names no signal")
                .label("would never hold")
                .help("compare at least one, such as cpu: \"> 85%\""),
        );
    }
    let slow = |condition: &Condition| matches!(condition.signal, Signal::Load1 | Signal::Load5 | Signal::LoadPerCore);
    if !conditions.is_empty() && conditions.iter().all(slow) {
        fields.context.report(
            Finding::warning(fields.head(), "load moves slowly: an overload is noticed after minutes")
                .label("the only signal")
                .help("add a fast one, such as in_flight, avg_rt or cpu"),
        );
    }
    conditions
}

fn condition(signal: Signal, item: Item<'_>) -> Option<Condition> {
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
    let lasting = fields.get("for").map(|it| bounded(&it));
    let (sign, enter) = enter?;
    let usual = Condition::new(signal, sign, enter);
    let exit = match exit {
        None => usual.exit,
        Some(exit) => {
            let ((exit_sign, exit), item) = exit?;
            let rises = |sign| matches!(sign, Comparison::Above | Comparison::AtLeast);
            let is_back = if rises(sign) { exit <= enter } else { exit >= enter };
            if rises(exit_sign) == rises(sign) || !is_back {
                item.context.report(
                    Finding::error(item.span(), "`exit` is not back from `enter`")
                        .label("the strain would not be over here")
                        .also(fields.value_span("enter"), "begins here")
                        .help("compare the other way round with a value on the calm side: enter: \"> 50\", exit: \"< 30\""),
                );
                return None;
            }
            exit
        }
    };
    let lasting = match lasting {
        Some(lasting) => Some(lasting?),
        None => None,
    };
    Some(Condition { exit, lasting, ..usual })
}

/// The shape to name in messages about a value of this unit.
const fn unit_shape(unit: Unit) -> &'static Shape {
    match unit {
        Unit::Number | Unit::OfSignal => &Shape::Comparison(Unit::Number),
        Unit::Percent => &Shape::Comparison(Unit::Percent),
        Unit::Time => &Shape::Comparison(Unit::Time),
        Unit::BytesPerSecond => &Shape::Comparison(Unit::BytesPerSecond),
    }
}

fn comparison(item: &Item<'_>, unit: Unit) -> Option<(Comparison, f64)> {
    let item = Item { shape: unit_shape(unit), ..*item };
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
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse::<f64>().ok().filter(|number| plain && number.is_finite())
}

/// The value in the signal's own unit.
fn threshold(unit: Unit, text: &str) -> Option<f64> {
    match unit {
        Unit::Number | Unit::OfSignal => number(text),
        Unit::Percent => {
            let percent = number(text.strip_suffix('%').unwrap_or(text).trim_end())?;
            (percent <= 100.0).then_some(percent / 100.0)
        }
        Unit::Time => parse::duration(text).ok().map(|time| time.as_secs_f64()),
        Unit::BytesPerSecond => parse::size(text.strip_suffix("/s").unwrap_or(text)).ok().map(|bytes| bytes as f64),
    }
}

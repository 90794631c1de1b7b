//! One value, and the shape the grammar wants it in.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use sluicegate_engine::limit::parse;
use sluicegate_engine::rule::{Attribute, Expr};
use sluicegate_engine::{LimitError, Rate};

use super::fields::Fields;
use super::{Context, halves, nearest};
use crate::diagnostic::{Finding, quoted};
use crate::grammar::Shape;
use crate::notation::{self, Fault};
use crate::source::Span;
use crate::tree::{Node, Value};

/// A field's value, or one of a list's.
#[derive(Clone, Copy)]
pub(crate) struct Item<'c> {
    pub(crate) context: &'c Context<'c>,
    pub(crate) node: &'c Node<'c>,
    /// The field's name, for messages.
    pub(crate) name: &'static str,
    /// The field's value as it might be, for messages.
    pub(crate) example: &'static str,
    pub(crate) shape: &'static Shape,
}

impl<'c> Item<'c> {
    pub(crate) fn span(&self) -> Span {
        self.node.span
    }

    /// Where several shapes are possible: the one this value can be meant to have.
    pub(crate) fn narrow(self) -> Self {
        let Shape::Either(shapes) = self.shape else { return self };
        let fitting = shapes.iter().map(|shape| Self { shape, ..self }.narrow()).find(|item| item.fits());
        fitting.unwrap_or(self)
    }

    fn fits(&self) -> bool {
        match (self.shape, &self.node.value) {
            (Shape::Either(_), _) => false,
            (Shape::List(_), value) => matches!(value, Value::List(_)),
            (Shape::Section(_) | Shape::OneOf(_) | Shape::Map(_), value) => matches!(value, Value::Map(_)),
            (Shape::Count(..), Value::Int(_) | Value::Float(_)) => true,
            (Shape::Count(..), Value::Text(text)) => parse::count(text).is_ok(),
            (Shape::Truth, value) => matches!(value, Value::Bool(_)),
            (Shape::Word(words), Value::Text(text)) => words.iter().any(|(word, _)| word == text),
            (_, value) => matches!(value, Value::Text(_)),
        }
    }

    /// Reports that something else belongs here. Without a better remedy an example is shown.
    pub(crate) fn mismatch(&self, help: Option<String>) {
        let help = help.or_else(|| Some(format!("for example `{}: {}`", self.name, self.example)));
        let message = format!("`{}` takes {}, not {}", self.name, self.shape.wanted(), self.node.described());
        self.context.report(Finding::error(self.node.span, message).label("does not fit").maybe_help(help));
    }

    /// Reports numbers that make no limit.
    pub(crate) fn report_limit(&self, span: Span, error: &LimitError) {
        self.context.report_limit(span, error, || format!("for example `{}: {}`", self.name, self.example));
    }

    /// Reports a fault in a text of one of the engine's notations, at the very place.
    pub(crate) fn report_fault(&self, fault: &Fault) {
        let (message, help) = halves(&fault.message);
        let help = help.unwrap_or_else(|| format!("write {}", self.shape.wanted()));
        let span = self.context.within(self.node, fault.at, fault.len);
        self.context.report(Finding::error(span, message).label("here").help(help));
    }

    pub(crate) fn section(&self) -> Option<Fields<'c>> {
        match self.shape {
            Shape::Section(section) => Fields::open(self.context, self.node, section),
            _ => None,
        }
    }

    /// A list's values; a list without any is reported.
    pub(crate) fn items(&self) -> Option<impl Iterator<Item = Item<'c>> + use<'c>> {
        let Shape::List(shape) = self.shape else { return None };
        let Value::List(nodes) = &self.node.value else {
            self.mismatch(self.written_as_list());
            return None;
        };
        let parent = *self;
        Some(nodes.iter().map(move |node| Item { node, shape, ..parent }))
    }

    fn written_as_list(&self) -> Option<String> {
        let written = self.context.text.get(self.node.span.start..self.node.span.end)?;
        let one_of_them = matches!(self.node.value, Value::Text(_) | Value::Map(_));
        (one_of_them && written.len() < 60 && !written.contains('\n'))
            .then(|| format!("write `{}: [{written}]`", self.name))
    }

    pub(crate) fn text(&self) -> Option<&'c str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            Value::Int(_) | Value::Float(_) | Value::Bool(_) if matches!(self.shape, Shape::Text | Shape::Name) => {
                let written = self.context.text.get(self.node.span.start..self.node.span.end).unwrap_or_default();
                self.mismatch(Some(format!("to make it a text, put it in quotes: \"{written}\"")));
                None
            }
            _ => {
                self.mismatch(None);
                None
            }
        }
    }

    pub(crate) fn truth(&self) -> Option<bool> {
        match &self.node.value {
            Value::Bool(value) => Some(*value),
            _ => {
                self.mismatch(None);
                None
            }
        }
    }

    pub(crate) fn count(&self) -> Option<u64> {
        let (least, most) = match self.shape {
            Shape::Count(least, most) => (*least, *most),
            _ => (0, u64::MAX),
        };
        let count = match &self.node.value {
            Value::Int(value) if *value > i128::from(u64::MAX) => {
                self.too_large(most);
                return None;
            }
            Value::Int(value) => u64::try_from(*value).ok(),
            Value::Float(value) if *value > u64::MAX as f64 => {
                self.too_large(most);
                return None;
            }
            Value::Text(text) => parse::count(text).ok(),
            _ => None,
        };
        match count.filter(|count| (least..=most).contains(count)) {
            Some(count) => Some(count),
            None => {
                self.mismatch(None);
                None
            }
        }
    }

    fn too_large(&self, most: u64) {
        self.context.report(
            Finding::error(self.node.span, format!("`{}` is too large", self.name))
                .label(format!("the most is {most}"))
                .help(format!("give it {}", self.shape.wanted())),
        );
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        match &self.node.value {
            Value::Text(text) => self.parsed(parse::duration(text), text),
            Value::Int(number @ 0..) => {
                self.mismatch(Some(format!("say of what: `{number}ms`, `{number}s` or `{number}m`")));
                None
            }
            _ => {
                self.mismatch(None);
                None
            }
        }
    }

    /// A duration that is not zero.
    pub(crate) fn some_duration(&self) -> Option<Duration> {
        let duration = self.duration()?;
        if duration.is_zero() {
            self.context.report(
                Finding::error(self.node.span, format!("`{}` is zero", self.name))
                    .label("no time at all")
                    .help("give it a duration such as 10s"),
            );
            return None;
        }
        Some(duration)
    }

    pub(crate) fn size(&self) -> Option<u64> {
        match &self.node.value {
            Value::Text(text) => self.parsed(parse::size(text), text),
            Value::Int(_) => self.count(),
            _ => {
                self.mismatch(None);
                None
            }
        }
    }

    pub(crate) fn rate(&self) -> Option<Rate> {
        match &self.node.value {
            Value::Text(text) => self.parsed(text.parse(), text),
            Value::Int(number @ 0..) => {
                self.mismatch(Some(format!("say per what: `{number}/s` or `{number}/1m`")));
                None
            }
            _ => {
                self.mismatch(None);
                None
            }
        }
    }

    pub(crate) fn size_rate(&self) -> Option<Rate> {
        match &self.node.value {
            Value::Text(text) => self.parsed(parse::size_rate(text), text),
            _ => {
                self.mismatch(Some("write SIZE/PERIOD, such as 2MiB/s".to_owned()));
                None
            }
        }
    }

    /// What a notation of the engine's made of a text, its fault reported.
    fn parsed<T>(&self, result: Result<T, LimitError>, text: &str) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
        match (better_unit(text), &error) {
            (Some(better), _) => {
                let message = format!("{} has a unit that is not known", quoted(text));
                let help = format!("did you mean `{better}`?");
                self.context.report(Finding::error(self.node.span, message).label("here").help(help));
            }
            (None, LimitError::MalformedCount { text: count }) if digits(count) => {
                let finding = Finding::error(self.node.span, format!("{} is too large a number", quoted(count)));
                self.context.report(finding.label(format!("the most is {}", u64::MAX)).help("lower it"));
            }
            (None, error) => self.report_limit(self.node.span, error),
        }
        None
    }

    pub(crate) fn word(&self) -> Option<&'static str> {
        let Shape::Word(words) = self.shape else { return None };
        let known = || words.iter().map(|(word, _)| *word);
        let Value::Text(text) = &self.node.value else {
            self.mismatch(None);
            return None;
        };
        let found = known().find(|word| *word == &**text);
        if found.is_none() {
            let near = nearest(text, known()).map(|word| format!("did you mean `{word}`?"));
            self.mismatch(near);
        }
        found
    }

    pub(crate) fn attribute(&self) -> Option<Attribute> {
        let text = self.text()?;
        notation::attribute(text).map_err(|fault| self.report_fault(&fault)).ok()
    }

    pub(crate) fn condition(&self) -> Option<Expr> {
        let text = self.text()?;
        notation::condition(text).map_err(|fault| self.report_fault(&fault)).ok()
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let text = self.text()?;
        let address = text.parse().ok();
        if address.is_none() {
            let help = match text.rsplit_once(':') {
                Some(("", port)) => Some(format!("write 127.0.0.1:{port}, or 0.0.0.0:{port} for all interfaces")),
                Some((host, port)) if is_address(host) && port.bytes().all(|b| b.is_ascii_digit()) => {
                    Some("ports go from 1 to 65535".to_owned())
                }
                Some(("localhost", port)) => Some(format!("write 127.0.0.1:{port}")),
                _ if is_address(text) => Some(format!("add the port: {text}:8080")),
                _ => Some("names are not looked up here: write the address and the port".to_owned()),
            };
            self.mismatch(help);
        }
        address
    }

    pub(crate) fn network(&self) -> Option<IpNet> {
        let text = self.text()?;
        let network = text.parse().ok().or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from));
        if network.is_none() {
            self.mismatch(Some(
                "write an address, a slash and the number of leading bits: at most 32, 128 for IPv6".into(),
            ));
        }
        network
    }
}

/// Whether a text is an address, without port.
fn is_address(text: &str) -> bool {
    text.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_ok()
}

/// The same text with a unit spelled as it is known, where one is spelled out or in the wrong case.
fn better_unit(text: &str) -> Option<String> {
    const SPELLINGS: [(&str, &[&str]); 13] = [
        ("ms", &["msec", "msecs", "millis", "millisecond", "milliseconds"]),
        ("us", &["usec", "micros", "microsecond", "microseconds", "µs"]),
        ("s", &["sec", "secs", "second", "seconds", "S"]),
        ("m", &["min", "mins", "minute", "minutes", "M"]),
        ("h", &["hr", "hrs", "hour", "hours", "H"]),
        ("d", &["day", "days", "D"]),
        ("w", &["week", "weeks", "W"]),
        ("KB", &["kb", "Kb", "kB"]),
        ("MB", &["mb", "Mb"]),
        ("GB", &["gb", "Gb"]),
        ("KiB", &["kib", "kiB", "K", "k"]),
        ("MiB", &["mib", "miB"]),
        ("GiB", &["gib", "giB", "G", "g"]),
    ];
    let better = |part: &str| -> Option<String> {
        let at = part.find(|c: char| !c.is_ascii_digit() && c != '_' && c != ' ')?;
        let (number, unit) = part.split_at(at);
        let (known, _) = SPELLINGS.iter().find(|(_, spellings)| spellings.contains(&unit))?;
        Some(format!("{}{known}", number.trim_end()))
    };
    match text.split_once('/') {
        None => better(text.trim()),
        Some((count, period)) => match (better(count.trim()), better(period.trim())) {
            (None, None) => None,
            (count_, period_) => Some(format!(
                "{}/{}",
                count_.unwrap_or_else(|| count.trim().to_owned()),
                period_.unwrap_or_else(|| period.trim().to_owned())
            )),
        },
    }
}

//! A YAML value with the shape that the grammar expects.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use sluicegate_engine::limit::parse;
use sluicegate_engine::rule::{Attribute, Expr};
use sluicegate_engine::spelling::nearest;
use sluicegate_engine::{LimitError, Rate};

use super::map::FieldMap;
use super::{ParseContext, split_help};
use crate::diagnostic::{DiagnosticBuilder, quoted};
use crate::expressions::{self, SyntaxError};
use crate::grammar::Shape;
use crate::source::Span;
use crate::tree::{Node, Value};

/// The value of a field, or an element of a list.
#[derive(Clone, Copy, Debug)]
pub struct FieldValue<'c> {
    /// Shared state of the parsers.
    pub context: &'c ParseContext<'c>,
    /// The value as written.
    pub node: &'c Node<'c>,
    /// Field name, for messages.
    pub(crate) name: &'static str,
    /// Example value, for messages.
    pub(crate) example: &'static str,
    pub(crate) shape: &'static Shape,
}

impl<'c> FieldValue<'c> {
    /// Location of the value.
    pub fn span(&self) -> Span {
        self.node.span
    }

    /// Selects the alternative shape that fits this value.
    pub(crate) fn narrow(self) -> Self {
        let Shape::Either(shapes) = self.shape else { return self };
        let matching = shapes.iter().map(|shape| Self { shape, ..self }.narrow()).find(|item| item.fits());
        matching.unwrap_or(self)
    }

    fn fits(&self) -> bool {
        match (self.shape, &self.node.value) {
            (Shape::Either(_), _) => false,
            (Shape::List(_), value) => matches!(value, Value::List(_)),
            (Shape::Section(_) | Shape::OneOf(_) | Shape::Map(_), value) => matches!(value, Value::Map(_)),
            (Shape::Count(..), Value::Int(_) | Value::Float(_)) => true,
            (Shape::Count(..), Value::Text(text)) => parse::count(text).is_ok(),
            (Shape::Bool, value) => matches!(value, Value::Bool(_)),
            (Shape::Keyword(words), Value::Text(text)) => words.iter().any(|(word, _)| word == text),
            (_, value) => matches!(value, Value::Text(_)),
        }
    }

    /// Reports a value of the wrong shape. Without help, an example is shown.
    pub fn mismatch(&self, help: Option<String>) {
        let help = help.or_else(|| Some(format!("for example `{}: {}`", self.name, self.example)));
        let message = format!("`{}` must be {}, not {}", self.name, self.shape.expected(), self.node.describe());
        self.context.report(DiagnosticBuilder::error(self.node.span, message).label("invalid value").maybe_help(help));
    }

    /// Reports an invalid limit.
    pub(crate) fn report_limit(&self, span: Span, error: &LimitError) {
        self.context.report_limit(span, error, || format!("for example `{}: {}`", self.name, self.example));
    }

    /// Reports a syntax error in an expression, at its exact position.
    pub(crate) fn report_syntax_error(&self, error: &SyntaxError) {
        let (message, help) = split_help(&error.message);
        let help = help.unwrap_or_else(|| format!("write {}", self.shape.expected()));
        let span = self.context.subspan(self.node, error.at, error.len);
        self.context.report(DiagnosticBuilder::error(span, message).label("invalid").help(help));
    }

    pub(crate) fn section(&self) -> Option<FieldMap<'c>> {
        match self.shape {
            Shape::Section(section) => FieldMap::open(self.context, self.node, section),
            _ => None,
        }
    }

    /// Elements of a list; an empty list is reported.
    pub fn items(&self) -> Option<impl Iterator<Item = FieldValue<'c>> + use<'c>> {
        let Shape::List(shape) = self.shape else { return None };
        let Value::List(nodes) = &self.node.value else {
            self.mismatch(self.as_list_suggestion());
            return None;
        };
        let parent = *self;
        Some(nodes.iter().map(move |node| FieldValue { node, shape, ..parent }))
    }

    fn as_list_suggestion(&self) -> Option<String> {
        let written = self.context.text.get(self.node.span.start..self.node.span.end)?;
        let one_of_them = matches!(self.node.value, Value::Text(_) | Value::Map(_));
        (one_of_them && written.len() < 60 && !written.contains('\n'))
            .then(|| format!("write `{}: [{written}]`", self.name))
    }

    /// Parses a string; reports any other value.
    pub fn text(&self) -> Option<&'c str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            Value::Int(_) | Value::Float(_) | Value::Bool(_) if matches!(self.shape, Shape::Text | Shape::Name) => {
                let written = self.context.text.get(self.node.span.start..self.node.span.end).unwrap_or_default();
                self.mismatch(Some(format!("quote it to make it a string: \"{written}\"")));
                None
            }
            _ => {
                self.mismatch(None);
                None
            }
        }
    }

    /// Parses a boolean; reports any other value.
    pub fn boolean(&self) -> Option<bool> {
        match &self.node.value {
            Value::Bool(value) => Some(*value),
            _ => {
                self.mismatch(None);
                None
            }
        }
    }

    /// Parses an integer in the range of the grammar; reports any other value.
    pub fn count(&self) -> Option<u64> {
        let (min, max) = match self.shape {
            Shape::Count(min, max) => (*min, *max),
            _ => (0, u64::MAX),
        };
        let count = match &self.node.value {
            Value::Int(value) if *value > i128::from(u64::MAX) => {
                self.too_large(max);
                return None;
            }
            Value::Int(value) => u64::try_from(*value).ok(),
            Value::Float(value) if *value > u64::MAX as f64 => {
                self.too_large(max);
                return None;
            }
            Value::Text(text) => parse::count(text).ok(),
            _ => None,
        };
        match count.filter(|count| (min..=max).contains(count)) {
            Some(count) => Some(count),
            None => {
                self.mismatch(None);
                None
            }
        }
    }

    fn too_large(&self, max: u64) {
        self.context.report(
            DiagnosticBuilder::error(self.node.span, format!("`{}` is too large", self.name))
                .label(format!("the maximum is {max}"))
                .help("use a smaller number"),
        );
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        match &self.node.value {
            Value::Text(text) => self.ok_or_report(parse::duration(text), text),
            Value::Int(number @ 0..) => {
                self.mismatch(Some(format!("add a unit: `{number}ms`, `{number}s` or `{number}m`")));
                None
            }
            _ => {
                self.mismatch(None);
                None
            }
        }
    }

    /// Parses a nonzero duration.
    pub(crate) fn nonzero_duration(&self) -> Option<Duration> {
        let duration = self.duration()?;
        if duration.is_zero() {
            self.context.report(
                DiagnosticBuilder::error(self.node.span, format!("`{}` is zero", self.name))
                    .label("must be greater than zero")
                    .help("use a duration such as 10s"),
            );
            return None;
        }
        Some(duration)
    }

    pub(crate) fn size(&self) -> Option<u64> {
        match &self.node.value {
            Value::Text(text) => self.ok_or_report(parse::size(text), text),
            Value::Int(_) => self.count(),
            _ => {
                self.mismatch(None);
                None
            }
        }
    }

    pub(crate) fn rate(&self) -> Option<Rate> {
        match &self.node.value {
            Value::Text(text) => self.ok_or_report(text.parse(), text),
            Value::Int(number @ 0..) => {
                self.mismatch(Some(format!("add a period: `{number}/s` or `{number}/1m`")));
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
            Value::Text(text) => self.ok_or_report(parse::size_rate(text), text),
            _ => {
                self.mismatch(Some("write SIZE/PERIOD, such as 2MiB/s".to_owned()));
                None
            }
        }
    }

    /// Returns the result of an engine parser, or reports its error.
    fn ok_or_report<T>(&self, result: Result<T, LimitError>, text: &str) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
        match (suggest_unit(text), &error) {
            (Some(suggestion), _) => {
                let message = format!("unknown unit in {}", quoted(text));
                let help = format!("did you mean `{suggestion}`?");
                self.context.report(DiagnosticBuilder::error(self.node.span, message).label("unknown unit").help(help));
            }
            (None, LimitError::MalformedCount { text: count }) if is_digits(count) => {
                let finding = DiagnosticBuilder::error(self.node.span, format!("{} is too large", quoted(count)));
                self.context.report(finding.label(format!("the maximum is {}", u64::MAX)).help("use a smaller number"));
            }
            (None, error) => self.report_limit(self.node.span, error),
        }
        None
    }

    /// Parses one of the keywords of the grammar; reports any other value.
    pub fn keyword(&self) -> Option<&'static str> {
        let Shape::Keyword(words) = self.shape else { return None };
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
        expressions::attribute(text).map_err(|error| self.report_syntax_error(&error)).ok()
    }

    pub(crate) fn condition(&self) -> Option<Expr> {
        let text = self.text()?;
        expressions::condition(text).map_err(|error| self.report_syntax_error(&error)).ok()
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let text = self.text()?;
        let address = text.parse().ok();
        if address.is_none() {
            let help = match text.rsplit_once(':') {
                Some(("", port)) => Some(format!("write 127.0.0.1:{port}, or 0.0.0.0:{port} for all interfaces")),
                Some((host, port)) if is_address(host) && port.bytes().all(|b| b.is_ascii_digit()) => {
                    Some("use a port from 1 to 65535".to_owned())
                }
                Some(("localhost", port)) => Some(format!("write 127.0.0.1:{port}")),
                _ if is_address(text) => Some(format!("add the port: {text}:8080")),
                _ => Some("write an IP address and a port; host names are not resolved here".to_owned()),
            };
            self.mismatch(help);
        }
        address
    }

    pub(crate) fn network(&self) -> Option<IpNet> {
        let text = self.text()?;
        let network = text.parse().ok().or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from));
        if network.is_none() {
            self.mismatch(Some("write ADDRESS/PREFIX with a prefix length of at most 32, or 128 for IPv6".into()));
        }
        network
    }
}

/// True if a text is an address without port.
fn is_address(text: &str) -> bool {
    text.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_ok()
}

/// Suggests the text with a known unit, if its unit is spelled out or in the wrong case.
fn suggest_unit(text: &str) -> Option<String> {
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
    let suggest = |part: &str| -> Option<String> {
        let at = part.find(|c: char| !c.is_ascii_digit() && c != '_' && c != ' ')?;
        let (number, unit) = part.split_at(at);
        let (known, _) = SPELLINGS.iter().find(|(_, spellings)| spellings.contains(&unit))?;
        Some(format!("{}{known}", number.trim_end()))
    };
    match text.split_once('/') {
        None => suggest(text.trim()),
        Some((count, period)) => match (suggest(count.trim()), suggest(period.trim())) {
            (None, None) => None,
            (count_, period_) => Some(format!(
                "{}/{}",
                count_.unwrap_or_else(|| count.trim().to_owned()),
                period_.unwrap_or_else(|| period.trim().to_owned())
            )),
        },
    }
}

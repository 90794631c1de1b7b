//! Single values, each read as the type its field has.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::de::{DeserializeSeed, Deserializer, Error, Unexpected, Visitor};
use sluicegate_engine::limit::parse;
use sluicegate_engine::rule::Side;

use crate::http::problem::shown;

/// Text without control characters: what has one in it was meant to break a line somewhere.
pub(super) struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Cow<'de, str>, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        printable(text)?;
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cow<'de, str>, E> {
        printable(text)?;
        Ok(Cow::Owned(text.to_owned()))
    }
}

fn printable<E: Error>(text: &str) -> Result<(), E> {
    match text.bytes().find(|byte| byte.is_ascii_control() && *byte != b'\t') {
        Some(byte) => {
            Err(E::custom(format_args!("a control character, {byte:#04x}, is in it: leave out what is no text")))
        }
        None => Ok(()),
    }
}

/// A whole number.
pub(super) struct Number;

impl<'de> DeserializeSeed<'de> for Number {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<u64, D::Error> {
        json.deserialize_u64(self)
    }
}

impl Visitor<'_> for Number {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}", u64::MAX)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        whole(number).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

/// A number that was written with a point or an exponent, if it is whole all the same: to JSON, `6.0` is `6`.
fn whole(number: f64) -> Option<u64> {
    /// The first number beyond 64 bits.
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    let is_whole = number.fract() == 0.0 && (0.0..BEYOND).contains(&number);
    is_whole.then_some(number as u64)
}

/// `true` or `false`.
pub(super) struct Flag;

impl<'de> DeserializeSeed<'de> for Flag {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_bool(self)
    }
}

impl Visitor<'_> for Flag {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<bool, E> {
        Ok(flag)
    }
}

/// A span of time: milliseconds, or text such as `30s`.
pub(super) struct Span {
    pub(super) shortest: Duration,
    pub(super) longest: Duration,
}

impl Span {
    fn bounded<E: Error>(&self, span: Duration) -> Result<Duration, E> {
        if (self.shortest..=self.longest).contains(&span) {
            return Ok(span);
        }
        let (shortest, longest) = (parse::Span(self.shortest), parse::Span(self.longest));
        Err(E::custom(format_args!("{} is out of bounds: choose from {shortest} to {longest}", parse::Span(span))))
    }
}

impl<'de> DeserializeSeed<'de> for Span {
    type Value = Duration;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Duration, D::Error> {
        json.deserialize_any(self)
    }
}

impl Visitor<'_> for Span {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of milliseconds, or a time such as \"30s\"")
    }

    fn visit_u64<E: Error>(self, millis: u64) -> Result<Duration, E> {
        self.bounded(Duration::from_millis(millis))
    }

    fn visit_f64<E: Error>(self, millis: f64) -> Result<Duration, E> {
        let millis = whole(millis).ok_or_else(|| E::invalid_value(Unexpected::Float(millis), &self))?;
        self.visit_u64(millis)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        match parse::duration(text) {
            Ok(span) => self.bounded(span),
            Err(_) => {
                Err(E::custom(format_args!("{} is no time: write one such as \"30s\" or \"500ms\"", shown(text))))
            }
        }
    }
}

/// An address.
pub(super) fn address<E: Error>(text: &str) -> Result<IpAddr, E> {
    text.parse().map_err(|_| {
        E::custom(format_args!("{} is no address: write one such as 203.0.113.9 or 2001:db8::1", shown(text)))
    })
}

/// A side.
pub(super) fn side<E: Error>(text: &str) -> Result<Side, E> {
    match text {
        "inbound" => Ok(Side::Inbound),
        "outbound" => Ok(Side::Outbound),
        _ => Err(E::custom(format_args!("{} is no side: write inbound or outbound", shown(text)))),
    }
}

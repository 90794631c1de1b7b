//! Decoders of single values.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::de::{DeserializeSeed, Deserializer, Error, Unexpected, Visitor};
use sluicegate_engine::limit::parse;
use sluicegate_engine::rule::Direction;

use crate::http::problem::quote_input;

/// Text without control characters, which could break log lines.
pub(super) struct TextSeed;

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Cow<'de, str>, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for TextSeed {
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
        Some(byte) => Err(E::custom(format_args!("control character {byte:#04x} in the text: remove it"))),
        None => Ok(()),
    }
}

/// An unsigned integer.
pub(super) struct NumberSeed;

impl<'de> DeserializeSeed<'de> for NumberSeed {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<u64, D::Error> {
        json.deserialize_u64(self)
    }
}

impl Visitor<'_> for NumberSeed {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}", u64::MAX)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        whole_number(number).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

/// Accepts a float without a fraction as an integer: in JSON, `6.0` equals `6`.
fn whole_number(number: f64) -> Option<u64> {
    /// The first value beyond 64 bits.
    const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;
    let is_whole = number.fract() == 0.0 && (0.0..TWO_POW_64).contains(&number);
    is_whole.then_some(number as u64)
}

/// `true` or `false`.
pub(super) struct BoolSeed;

impl<'de> DeserializeSeed<'de> for BoolSeed {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_bool(self)
    }
}

impl Visitor<'_> for BoolSeed {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<bool, E> {
        Ok(flag)
    }
}

/// A duration: milliseconds, or text such as `30s`.
pub(super) struct DurationSeed {
    pub(super) min: Duration,
    pub(super) max: Duration,
}

impl DurationSeed {
    fn bounded<E: Error>(&self, span: Duration) -> Result<Duration, E> {
        if (self.min..=self.max).contains(&span) {
            return Ok(span);
        }
        let (min, max) = (parse::HumanDuration(self.min), parse::HumanDuration(self.max));
        Err(E::custom(format_args!("{} is out of range: use {min} to {max}", parse::HumanDuration(span))))
    }
}

impl<'de> DeserializeSeed<'de> for DurationSeed {
    type Value = Duration;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Duration, D::Error> {
        json.deserialize_any(self)
    }
}

impl Visitor<'_> for DurationSeed {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of milliseconds, or a duration such as \"30s\"")
    }

    fn visit_u64<E: Error>(self, millis: u64) -> Result<Duration, E> {
        self.bounded(Duration::from_millis(millis))
    }

    fn visit_f64<E: Error>(self, millis: f64) -> Result<Duration, E> {
        let millis = whole_number(millis).ok_or_else(|| E::invalid_value(Unexpected::Float(millis), &self))?;
        self.visit_u64(millis)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        match parse::duration(text) {
            Ok(span) => self.bounded(span),
            Err(_) => Err(E::custom(format_args!(
                "invalid duration {}: use for example \"30s\" or \"500ms\"",
                quote_input(text)
            ))),
        }
    }
}

/// Parses an IP address.
pub(super) fn address<E: Error>(text: &str) -> Result<IpAddr, E> {
    text.parse().map_err(|_| {
        E::custom(format_args!("invalid IP address {}: use for example 203.0.113.9 or 2001:db8::1", quote_input(text)))
    })
}

/// Parses a direction (inbound or outbound).
pub(super) fn direction<E: Error>(text: &str) -> Result<Direction, E> {
    match text {
        "inbound" => Ok(Direction::Inbound),
        "outbound" => Ok(Direction::Outbound),
        _ => Err(E::custom(format_args!("invalid direction {}: use inbound or outbound", quote_input(text)))),
    }
}

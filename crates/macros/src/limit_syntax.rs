//! Limit syntax with an algorithm: `token_bucket("10/s", burst = 20)`.
//!
//! The names are those of the rule file. Limits are built with the engine's own constructors, so the same limits
//! are rejected with the same messages.

use std::time::Duration;

use proc_macro2::{Ident, Span};
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::algorithm::warm_up::DEFAULT_COLD_FACTOR;
use sluicegate_engine::limit::parse;
use sluicegate_engine::{Limit, LimitError, Rate};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::{Error, Lit, LitStr, Result, Token};

use crate::errors::{parse_count, parse_text, unknown};

/// Syntax of one algorithm: its name, its fields and an example.
struct AlgorithmSyntax {
    name: &'static str,
    fields: &'static [&'static str],
    example: &'static str,
}

const SYNTAXES: [AlgorithmSyntax; 9] = [
    syntax("token_bucket", &["burst"], r#"token_bucket("10/s", burst = 20)"#),
    syntax("leaky_bucket", &["queue"], r#"leaky_bucket("5/s", queue = 15)"#),
    syntax("fixed_window", &["align"], r#"fixed_window("100/1h")"#),
    syntax("sliding_window", &["cells"], r#"sliding_window("15/3s", cells = 30)"#),
    syntax("interpolated_window", &[], r#"interpolated_window("100/1m")"#),
    syntax("sliding_log", &[], r#"sliding_log("100/1m")"#),
    syntax("concurrency", &[], "concurrency(50)"),
    syntax("bandwidth", &["burst"], r#"bandwidth("2MiB/s", burst = "8MiB")"#),
    syntax("warm_up", &["over", "cold_factor"], r#"warm_up("100/s", over = "10s")"#),
];

const fn syntax(name: &'static str, fields: &'static [&'static str], example: &'static str) -> AlgorithmSyntax {
    AlgorithmSyntax { name, fields, example }
}

/// Names of the algorithms.
pub(crate) fn algorithm_names() -> [&'static str; 9] {
    SYNTAXES.map(|form| form.name)
}

/// A limit as written in the attribute.
struct LimitCall {
    syntax: &'static AlgorithmSyntax,
    main: Lit,
    fields: Vec<(Ident, Lit)>,
}

/// Parses the arguments of an algorithm and builds the limit.
pub(crate) fn parse_limit(algorithm: &Ident, input: ParseStream<'_>) -> Result<Limit> {
    let name = algorithm.to_string();
    let Some(form) = SYNTAXES.iter().find(|form| form.name == name) else {
        let mut known = algorithm_names().to_vec();
        known.push("with");
        return Err(unknown("limit", algorithm, &known));
    };
    LimitCall::parse(form, algorithm.span(), input)?.build()
}

/// Parses the short form.
pub(crate) fn parse_short(written: &LitStr) -> Result<Limit> {
    written.value().parse().map_err(|error: LimitError| Error::new(written.span(), error_message(&error)))
}

/// The engine's error message, without the part about rule files.
fn error_message(error: &LimitError) -> String {
    match error {
        LimitError::Zero { field } => format!("{field} is zero: it must be at least 1"),
        error => error.to_string(),
    }
}

impl LimitCall {
    fn parse(form: &'static AlgorithmSyntax, at: Span, input: ParseStream<'_>) -> Result<Self> {
        let wrong = |span: Span| Error::new(span, format!("invalid `{}`: write `{}`", form.name, form.example));
        if input.is_empty() {
            return Err(wrong(at));
        }
        let main: Lit = input.parse().map_err(|error| wrong(error.span()))?;
        let mut fields: Vec<(Ident, Lit)> = Vec::new();
        while !input.is_empty() {
            input.parse::<Token![,]>().map_err(|error| wrong(error.span()))?;
            if input.is_empty() {
                break;
            }
            let field = input.call(Ident::parse_any).map_err(|error| wrong(error.span()))?;
            if !form.fields.contains(&field.to_string().as_str()) {
                return Err(unknown(&format!("field of {}", form.name), &field, form.fields));
            }
            if fields.iter().any(|(known, _)| *known == field) {
                return Err(Error::new(field.span(), format!("`{field}` is set twice: keep one of them")));
            }
            input.parse::<Token![=]>().map_err(|error| wrong(error.span()))?;
            let value = input.parse().map_err(|error| wrong(error.span()))?;
            fields.push((field, value));
        }
        Ok(Self { syntax: form, main, fields })
    }

    fn build(&self) -> Result<Limit> {
        let limit = match self.syntax.name {
            "token_bucket" => {
                let rate = self.rate()?;
                Limit::token_bucket(rate, self.count("burst", 20)?.unwrap_or(rate.count()))
            }
            "leaky_bucket" => {
                let rate = self.rate()?;
                Limit::leaky_bucket(rate, self.count("queue", 15)?.unwrap_or(rate.count()))
            }
            "fixed_window" => {
                let rate = self.rate()?;
                Limit::fixed_window(rate.count(), rate.period(), self.alignment()?)
            }
            "sliding_window" => {
                let rate = self.rate()?;
                match self.count_u32("cells", 30)? {
                    Some(cells) => Limit::sliding_window(rate.count(), rate.period(), cells),
                    None => rate.to_string().parse(),
                }
            }
            "interpolated_window" => {
                let rate = self.rate()?;
                Limit::interpolated_window(rate.count(), rate.period())
            }
            "sliding_log" => {
                let rate = self.rate()?;
                Limit::sliding_log(rate.count(), rate.period())
            }
            "bandwidth" => {
                let rate = self.main_text().and_then(|text| self.at_main_argument(parse::size_rate(&text)))?;
                Limit::bandwidth(rate, self.size("burst")?.unwrap_or_else(|| bytes_per_second(rate)))
            }
            "warm_up" => {
                let rate = self.rate()?;
                let factor = self.count_u32("cold_factor", DEFAULT_COLD_FACTOR.into())?.unwrap_or(DEFAULT_COLD_FACTOR);
                Limit::warm_up(rate, self.over()?, factor)
            }
            _ => match &self.main {
                Lit::Int(_) => Limit::concurrency(parse_count(&self.main, "concurrency", 50)?),
                _ => return Err(self.syntax_error()),
            },
        };
        limit.map_err(|error| Error::new(self.error_span(&error), error_message(&error)))
    }

    fn rate(&self) -> Result<Rate> {
        self.main_text().and_then(|text| self.at_main_argument(text.parse()))
    }

    fn main_text(&self) -> Result<String> {
        match &self.main {
            Lit::Str(text) => Ok(text.value()),
            _ => Err(self.syntax_error()),
        }
    }

    fn at_main_argument<T>(&self, read: std::result::Result<T, LimitError>) -> Result<T> {
        read.map_err(|error| Error::new(self.main.span(), error_message(&error)))
    }

    fn syntax_error(&self) -> Error {
        Error::new(self.main.span(), format!("invalid `{}`: write `{}`", self.syntax.name, self.syntax.example))
    }

    fn field(&self, name: &str) -> Option<&Lit> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    fn count(&self, name: &str, example: u64) -> Result<Option<u64>> {
        self.field(name).map(|value| parse_count(value, name, example)).transpose()
    }

    fn count_u32(&self, name: &str, example: u64) -> Result<Option<u32>> {
        // A number that does not fit is out of range for the engine too.
        Ok(self.count(name, example)?.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
    }

    fn size(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.field(name) else { return Ok(None) };
        if let Lit::Int(_) = value {
            return parse_count(value, name, 8_388_608).map(Some);
        }
        let size = parse::size(&parse_text(value, name, "8MiB")?);
        size.map(Some).map_err(|error| Error::new(value.span(), error_message(&error)))
    }

    fn over(&self) -> Result<Duration> {
        let Some(value) = self.field("over") else {
            return Err(Error::new(
                self.main.span(),
                format!("missing field `over` of `warm_up`: write `{}`", self.syntax.example),
            ));
        };
        parse::duration(&parse_text(value, "over", "10s")?)
            .map_err(|error| Error::new(value.span(), error_message(&error)))
    }

    fn alignment(&self) -> Result<Alignment> {
        let Some(value) = self.field("align") else { return Ok(Alignment::Epoch) };
        match parse_text(value, "align", "first_use")?.as_str() {
            "epoch" => Ok(Alignment::Epoch),
            "first_use" => Ok(Alignment::FirstUse),
            _ => Err(Error::new(value.span(), "`align` must be \"epoch\" or \"first_use\"")),
        }
    }

    /// Span that an error is about.
    fn error_span(&self, error: &LimitError) -> Span {
        let field = match error {
            LimitError::Zero { field } | LimitError::FillsTooSlowly { field, .. } => field,
            LimitError::Cells { .. } => "cells",
            LimitError::ColdFactor { .. } => "cold_factor",
            LimitError::WarmUpTooShort { .. } => "over",
            _ => "",
        };
        self.field(field).unwrap_or(&self.main).span()
    }
}

/// Bytes per second of a rate, at least one.
fn bytes_per_second(rate: Rate) -> u64 {
    let period = rate.period().as_nanos().max(1);
    let bytes = u128::from(rate.count()) * Duration::from_secs(1).as_nanos() / period;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

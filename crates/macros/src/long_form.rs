//! Limits written with their algorithm: `token_bucket("10/s", burst = 20)`.
//!
//! The names are those of the rule file, and the limits are made with the engine's own constructors, so
//! that what is refused there is refused here, in the same words.

use std::time::Duration;

use proc_macro2::{Ident, Span};
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::algorithm::warm_up::DEFAULT_COLD_FACTOR;
use sluicegate_engine::limit::parse;
use sluicegate_engine::{Limit, LimitError, Rate};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::{Error, Lit, LitStr, Result, Token};

use crate::written::{count, text, unknown};

/// What can be written: the algorithm, its fields, and how it looks.
struct Form {
    name: &'static str,
    fields: &'static [&'static str],
    example: &'static str,
}

const FORMS: [Form; 9] = [
    form("token_bucket", &["burst"], r#"token_bucket("10/s", burst = 20)"#),
    form("leaky_bucket", &["queue"], r#"leaky_bucket("5/s", queue = 15)"#),
    form("fixed_window", &["align"], r#"fixed_window("100/1h")"#),
    form("sliding_window", &["cells"], r#"sliding_window("15/3s", cells = 30)"#),
    form("interpolated_window", &[], r#"interpolated_window("100/1m")"#),
    form("sliding_log", &[], r#"sliding_log("100/1m")"#),
    form("concurrency", &[], "concurrency(50)"),
    form("bandwidth", &["burst"], r#"bandwidth("2MiB/s", burst = "8MiB")"#),
    form("warm_up", &["over", "cold_factor"], r#"warm_up("100/s", over = "10s")"#),
];

const fn form(name: &'static str, fields: &'static [&'static str], example: &'static str) -> Form {
    Form { name, fields, example }
}

/// The algorithms' names.
pub(crate) fn names() -> [&'static str; 9] {
    FORMS.map(|form| form.name)
}

/// A limit as it stands in the attribute.
struct Written {
    form: &'static Form,
    main: Lit,
    fields: Vec<(Ident, Lit)>,
}

/// Reads what stands in the brackets of an algorithm, and makes the limit.
pub(crate) fn limit(algorithm: &Ident, input: ParseStream<'_>) -> Result<Limit> {
    let name = algorithm.to_string();
    let Some(form) = FORMS.iter().find(|form| form.name == name) else {
        let mut known = names().to_vec();
        known.push("with");
        return Err(unknown("limit", algorithm, &known));
    };
    Written::read(form, algorithm.span(), input)?.make()
}

/// Reads the short form.
pub(crate) fn short(written: &LitStr) -> Result<Limit> {
    written.value().parse().map_err(|error: LimitError| Error::new(written.span(), said(&error)))
}

/// What the engine says, but for the part that speaks of rule files.
fn said(error: &LimitError) -> String {
    match error {
        LimitError::Zero { field } => format!("{field} is zero: it must be at least 1"),
        error => error.to_string(),
    }
}

impl Written {
    fn read(form: &'static Form, at: Span, input: ParseStream<'_>) -> Result<Self> {
        let wrong = |span: Span| Error::new(span, format!("`{}` is written `{}`", form.name, form.example));
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
                return Err(Error::new(field.span(), format!("`{field}` is given twice: keep one of them")));
            }
            input.parse::<Token![=]>().map_err(|error| wrong(error.span()))?;
            let value = input.parse().map_err(|error| wrong(error.span()))?;
            fields.push((field, value));
        }
        Ok(Self { form, main, fields })
    }

    fn make(&self) -> Result<Limit> {
        let limit = match self.form.name {
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
                match self.small("cells", 30)? {
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
                let rate = self.main_text().and_then(|text| self.main_said(parse::size_rate(&text)))?;
                Limit::bandwidth(rate, self.size("burst")?.unwrap_or_else(|| in_one_second(rate)))
            }
            "warm_up" => {
                let rate = self.rate()?;
                let factor = self.small("cold_factor", DEFAULT_COLD_FACTOR.into())?.unwrap_or(DEFAULT_COLD_FACTOR);
                Limit::warm_up(rate, self.over()?, factor)
            }
            _ => match &self.main {
                Lit::Int(_) => Limit::concurrency(count(&self.main, "concurrency", 50)?),
                _ => return Err(self.miswritten()),
            },
        };
        limit.map_err(|error| Error::new(self.blamed(&error), said(&error)))
    }

    fn rate(&self) -> Result<Rate> {
        self.main_text().and_then(|text| self.main_said(text.parse()))
    }

    fn main_text(&self) -> Result<String> {
        match &self.main {
            Lit::Str(text) => Ok(text.value()),
            _ => Err(self.miswritten()),
        }
    }

    fn main_said<T>(&self, read: std::result::Result<T, LimitError>) -> Result<T> {
        read.map_err(|error| Error::new(self.main.span(), said(&error)))
    }

    fn miswritten(&self) -> Error {
        Error::new(self.main.span(), format!("`{}` is written `{}`", self.form.name, self.form.example))
    }

    fn field(&self, name: &str) -> Option<&Lit> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    fn count(&self, name: &str, example: u64) -> Result<Option<u64>> {
        self.field(name).map(|value| count(value, name, example)).transpose()
    }

    fn small(&self, name: &str, example: u64) -> Result<Option<u32>> {
        // What is too large for the engine to be told of is out of range for it too.
        Ok(self.count(name, example)?.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
    }

    fn size(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.field(name) else { return Ok(None) };
        if let Lit::Int(_) = value {
            return count(value, name, 8_388_608).map(Some);
        }
        let size = parse::size(&text(value, name, "8MiB")?);
        size.map(Some).map_err(|error| Error::new(value.span(), said(&error)))
    }

    fn over(&self) -> Result<Duration> {
        let Some(value) = self.field("over") else {
            return Err(Error::new(self.main.span(), format!("`warm_up` lacks `over`: write `{}`", self.form.example)));
        };
        parse::duration(&text(value, "over", "10s")?).map_err(|error| Error::new(value.span(), said(&error)))
    }

    fn alignment(&self) -> Result<Alignment> {
        let Some(value) = self.field("align") else { return Ok(Alignment::Epoch) };
        match text(value, "align", "first_use")?.as_str() {
            "epoch" => Ok(Alignment::Epoch),
            "first_use" => Ok(Alignment::FirstUse),
            _ => Err(Error::new(value.span(), "`align` is \"epoch\" or \"first_use\"")),
        }
    }

    /// What an error is about.
    fn blamed(&self, error: &LimitError) -> Span {
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

/// How much passes in a second, at least one byte.
fn in_one_second(rate: Rate) -> u64 {
    let period = rate.period().as_nanos().max(1);
    let bytes = u128::from(rate.count()) * Duration::from_secs(1).as_nanos() / period;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

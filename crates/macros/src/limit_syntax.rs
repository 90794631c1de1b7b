//! Limit syntax with an algorithm: `token_bucket("10/s", burst = 20)`.
//!
//! The names and types of the parameters come from the engine's descriptions of the algorithms. Limits are built by
//! the engine, so the same limits are rejected with the same messages as in the rule file.

use proc_macro2::{Ident, Span};
use sluicegate_engine::algorithm::{Description, LimitArguments, Parameter, ParameterKind, ParameterValue};
use sluicegate_engine::limit::{DESCRIPTIONS, parse};
use sluicegate_engine::{Limit, LimitError};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::{Error, Lit, LitStr, Result, Token};

use crate::errors::{parse_count, parse_text, unknown};

/// Names of the algorithms.
pub(crate) fn algorithm_names() -> Vec<&'static str> {
    DESCRIPTIONS.iter().map(|algorithm| algorithm.name).collect()
}

/// A limit as written in the attribute.
struct LimitCall {
    algorithm: &'static Description,
    main: Lit,
    fields: Vec<(Ident, Lit)>,
}

/// Parses the arguments of an algorithm and builds the limit.
pub(crate) fn parse_limit(name: &Ident, input: ParseStream<'_>) -> Result<Limit> {
    let Some(algorithm) = DESCRIPTIONS.iter().find(|algorithm| name == algorithm.name) else {
        let mut known = algorithm_names();
        known.push("with");
        return Err(unknown("limit", name, &known));
    };
    LimitCall::parse(algorithm, name.span(), input)?.build()
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

/// Example of an algorithm: with its first option, if that is a number.
fn example(algorithm: &Description) -> String {
    let (mut parameters, name) = (algorithm.parameters.iter(), algorithm.name);
    let main = parameters.next().map(literal_example).unwrap_or_default();
    match parameters.next() {
        Some(option) if !matches!(option.kind, ParameterKind::Keyword(_)) => {
            format!("{name}({main}, {} = {})", option.name, literal_example(option))
        }
        _ => format!("{name}({main})"),
    }
}

/// Example of a parameter as a literal.
fn literal_example(parameter: &Parameter) -> String {
    match parameter.kind {
        ParameterKind::Count(..) => parameter.example.to_owned(),
        _ => format!("\"{}\"", parameter.example),
    }
}

impl LimitCall {
    fn parse(algorithm: &'static Description, at: Span, input: ParseStream<'_>) -> Result<Self> {
        let wrong = |span: Span| invalid(algorithm, span);
        if input.is_empty() {
            return Err(wrong(at));
        }
        let main: Lit = input.parse().map_err(|error| wrong(error.span()))?;
        let options: Vec<&str> = algorithm.parameters.iter().skip(1).map(|option| option.name).collect();
        let mut fields: Vec<(Ident, Lit)> = Vec::new();
        while !input.is_empty() {
            input.parse::<Token![,]>().map_err(|error| wrong(error.span()))?;
            if input.is_empty() {
                break;
            }
            let field = input.call(Ident::parse_any).map_err(|error| wrong(error.span()))?;
            if !options.contains(&field.to_string().as_str()) {
                return Err(unknown(&format!("field of {}", algorithm.name), &field, &options));
            }
            if fields.iter().any(|(known, _)| *known == field) {
                return Err(Error::new(field.span(), format!("`{field}` is set twice: keep one of them")));
            }
            input.parse::<Token![=]>().map_err(|error| wrong(error.span()))?;
            let value = input.parse().map_err(|error| wrong(error.span()))?;
            fields.push((field, value));
        }
        Ok(Self { algorithm, main, fields })
    }

    fn build(&self) -> Result<Limit> {
        let values: Vec<Option<ParameterValue>> =
            self.algorithm.parameters.iter().map(|parameter| self.value(parameter)).collect::<Result<_>>()?;
        let limit = Limit::from_arguments(self.algorithm.name, &LimitArguments::new(values));
        limit.map_err(|error| {
            let field = error.field().and_then(|name| self.field(name));
            Error::new(field.unwrap_or(&self.main).span(), error_message(&error))
        })
    }

    /// ParameterValue of a parameter, if it is given.
    fn value(&self, parameter: &Parameter) -> Result<Option<ParameterValue>> {
        if parameter.name == self.algorithm.name {
            return main_value(self.algorithm, parameter, &self.main).map(Some);
        }
        match self.field(parameter.name) {
            Some(literal) => option_value(parameter, literal).map(Some),
            None if parameter.is_required() => Err(Error::new(
                self.main.span(),
                format!(
                    "missing field `{}` of `{}`: write `{}`",
                    parameter.name,
                    self.algorithm.name,
                    example(self.algorithm)
                ),
            )),
            None => Ok(None),
        }
    }

    fn field(&self, name: &str) -> Option<&Lit> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }
}

fn invalid(algorithm: &Description, span: Span) -> Error {
    Error::new(span, format!("invalid `{}`: write `{}`", algorithm.name, example(algorithm)))
}

/// Reports an engine error at a literal.
fn at<T>(literal: &Lit, parsed: std::result::Result<T, LimitError>) -> Result<T> {
    parsed.map_err(|error| Error::new(literal.span(), error_message(&error)))
}

/// ParameterValue of the main parameter: a number for a count, else a string.
fn main_value(algorithm: &Description, parameter: &Parameter, literal: &Lit) -> Result<ParameterValue> {
    match (parameter.kind, literal) {
        (ParameterKind::Count(..), Lit::Int(_)) => option_value(parameter, literal),
        (ParameterKind::Count(..), _) => Err(invalid(algorithm, literal.span())),
        (_, Lit::Str(_)) => option_value(parameter, literal),
        _ => Err(invalid(algorithm, literal.span())),
    }
}

fn option_value(parameter: &Parameter, literal: &Lit) -> Result<ParameterValue> {
    let (name, text_example) = (parameter.name, parameter.example);
    let text = || parse_text(literal, name, text_example);
    match parameter.kind {
        ParameterKind::Rate | ParameterKind::Window => at(literal, text()?.parse()).map(ParameterValue::Rate),
        ParameterKind::ByteRate => at(literal, parse::size_rate(&text()?)).map(ParameterValue::Rate),
        ParameterKind::Count(..) => {
            parse_count(literal, name, parse::count(text_example).unwrap_or_default()).map(ParameterValue::Count)
        }
        ParameterKind::Size if matches!(literal, Lit::Int(_)) => {
            parse_count(literal, name, parse::size(text_example).unwrap_or_default()).map(ParameterValue::Count)
        }
        ParameterKind::Size => at(literal, parse::size(&text()?)).map(ParameterValue::Count),
        ParameterKind::Duration => at(literal, parse::duration(&text()?)).map(ParameterValue::Duration),
        ParameterKind::Keyword(words) => {
            let text = text()?;
            words.iter().position(|(word, _)| *word == text).map(ParameterValue::Keyword).ok_or_else(|| {
                let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                Error::new(literal.span(), format!("`{name}` must be {}", words.join(" or ")))
            })
        }
    }
}

//! Errors for unknown words and for literals of the wrong kind.

use proc_macro2::Ident;
use sluicegate_engine::limit::parse;
use sluicegate_engine::spelling::nearest;
use syn::{Error, Lit, Result};

/// Error for an unknown word, with a suggestion.
pub(crate) fn unknown(kind: &str, word: &Ident, known: &[&str]) -> Error {
    let remedy = match nearest(&word.to_string(), known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("expected one of {}", quoted_list(known)),
    };
    Error::new(word.span(), format!("unknown {kind} `{word}`: {remedy}"))
}

/// A list of quoted words.
pub(crate) fn quoted_list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => "none".to_owned(),
    }
}

/// Parses a string literal; the error shows an example.
pub(crate) fn parse_text(literal: &Lit, name: &str, example: &str) -> Result<String> {
    match literal {
        Lit::Str(text) => Ok(text.value()),
        _ => Err(Error::new(literal.span(), format!("`{name}` takes a string: write `{name} = \"{example}\"`"))),
    }
}

/// Parses an integer literal; the error shows an example.
pub(crate) fn parse_count(literal: &Lit, name: &str, example: u64) -> Result<u64> {
    let wrong = || Error::new(literal.span(), format!("`{name}` takes an integer: write `{name} = {example}`"));
    match literal {
        Lit::Int(number) if number.suffix().is_empty() => number.base10_parse().map_err(|_| wrong()),
        Lit::Str(text) => parse::count(&text.value()).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

/// Parses an integer from 1 to a maximum.
pub(crate) fn parse_positive(literal: &Lit, name: &str, example: u64, max: u64) -> Result<u64> {
    match parse_count(literal, name, example)? {
        0 => Err(Error::new(literal.span(), format!("`{name}` is zero: it must be at least 1"))),
        number if number > max => {
            Err(Error::new(literal.span(), format!("`{name}` is too large: the maximum is {max}")))
        }
        number => Ok(number),
    }
}

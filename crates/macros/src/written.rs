//! Words that nobody knows, and literals that are of the wrong kind.

use proc_macro2::Ident;
use sluicegate_engine::limit::parse;
use syn::{Error, Lit, Result};

/// The known word that this one was most likely meant to be.
fn nearest<'w>(word: &str, known: &[&'w str]) -> Option<&'w str> {
    let near = known.iter().map(|candidate| (strsim::osa_distance(word, candidate), *candidate));
    near.filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3).min().map(|(_, candidate)| candidate)
}

/// Says that a word is not known, and which one may be meant.
pub(crate) fn unknown(what: &str, word: &Ident, known: &[&str]) -> Error {
    let remedy = match nearest(&word.to_string(), known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", listed(known)),
    };
    Error::new(word.span(), format!("unknown {what} `{word}`: {remedy}"))
}

/// Several words, quoted.
pub(crate) fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => "none".to_owned(),
    }
}

/// A text, or what to write instead.
pub(crate) fn text(literal: &Lit, name: &str, example: &str) -> Result<String> {
    match literal {
        Lit::Str(text) => Ok(text.value()),
        _ => Err(Error::new(literal.span(), format!("`{name}` takes a text: write `{name} = \"{example}\"`"))),
    }
}

/// A whole number, or what to write instead.
pub(crate) fn count(literal: &Lit, name: &str, example: u64) -> Result<u64> {
    let wrong = || Error::new(literal.span(), format!("`{name}` takes a whole number: write `{name} = {example}`"));
    match literal {
        Lit::Int(number) if number.suffix().is_empty() => number.base10_parse().map_err(|_| wrong()),
        Lit::Str(text) => parse::count(&text.value()).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

/// A whole number from one on that fits.
pub(crate) fn positive(literal: &Lit, name: &str, example: u64, most: u64) -> Result<u64> {
    match count(literal, name, example)? {
        0 => Err(Error::new(literal.span(), format!("`{name}` is zero: it must be at least 1"))),
        number if number > most => {
            Err(Error::new(literal.span(), format!("`{name}` is too large: the most is {most}")))
        }
        number => Ok(number),
    }
}

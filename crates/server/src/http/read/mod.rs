//! From JSON to what was asked.
//!
//! One grammar: a table of [fields](Field), and for each [form] of body the fields it may have. Reading stops
//! at the first thing that is wrong: a field nobody knows, one that is there twice, a value of another type.
//! Values are read as the type that their field has, so nesting is never followed, however deep it is.
//!
//! Text is borrowed from the body wherever no escape stands in it.

mod asked;
mod check;
mod field;
mod form;
mod object;
mod pairs;
mod place;
mod value;

pub(super) use asked::{Asked, Settling};
pub(super) use check::Check;
pub(super) use field::Field;
pub(super) use form::Form;

use serde::de::DeserializeSeed;
use serde_json::error::Category;

use super::problem::{Kind, Problem};
use object::Object;
use place::Place;

/// The longest that a fault found by the JSON reader is told, in bytes. It may quote what was sent.
const LONGEST_FAULT: usize = 300;

/// Reads a body of this form.
pub(super) fn read(body: &[u8], form: Form, most_checks: usize) -> Result<Asked<'_>, Problem> {
    let place = Place::default();
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = Object { form, place: &place, most_checks }.deserialize(&mut json);
    match read.and_then(|asked| json.end().map(|()| asked)) {
        Ok(asked) => asked.checked(form),
        Err(fault) => Err(problem(&fault, &place)),
    }
}

fn problem(fault: &serde_json::Error, place: &Place) -> Problem {
    let mut told = fault.to_string();
    if let Some(end) = (LONGEST_FAULT..told.len()).find(|end| told.is_char_boundary(*end)) {
        told.truncate(end);
        told.push_str("...");
    }
    match fault.classify() {
        Category::Data => Problem::new(Kind::Invalid, told).at(place.pointer()),
        Category::Io | Category::Syntax | Category::Eof => Problem::new(Kind::NotJson, told),
    }
}

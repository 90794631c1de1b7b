//! JSON decoder of the HTTP API.
//!
//! There is one table of [fields](BodyField), and each [`BodyKind`] lists the fields it may have. Decoding stops
//! at the first error: an unknown field, a duplicate, or a value of another type. Values are decoded as the type
//! of their field, so nesting is never followed, at any depth. The [schemas](schema) of bodies follow from the same
//! table.
//!
//! Text without escapes is borrowed from the body.

mod body_kind;
mod check;
mod field;
mod json_pointer;
mod object;
mod request;
mod schema;
mod string_map;
mod value;

pub(super) use body_kind::BodyKind;
pub(super) use check::CheckRequest;
pub(super) use field::BodyField;
pub(super) use request::{ApiRequest, Settlement};
pub(super) use schema::ID_PATTERN;

use serde::de::DeserializeSeed;
use serde_json::error::Category;

use super::problem::{ApiErrorKind, Problem};
use json_pointer::JsonPointer;
use object::BodySeed;

/// Maximum length of a JSON error message, in bytes. It may quote the input.
const MAX_ERROR_BYTES: usize = 300;

/// Decodes a body of this kind.
pub(super) fn decode(body: &[u8], kind: BodyKind, max_checks: usize) -> Result<ApiRequest<'_>, Problem> {
    let pointer = JsonPointer::default();
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = BodySeed { kind, pointer: &pointer, max_checks }.deserialize(&mut json);
    match read.and_then(|request| json.end().map(|()| request)) {
        Ok(request) => request.validated(kind),
        Err(error) => Err(to_problem(&error, &pointer)),
    }
}

fn to_problem(error: &serde_json::Error, pointer: &JsonPointer) -> Problem {
    let mut detail = error.to_string();
    if let Some(end) = (MAX_ERROR_BYTES..detail.len()).find(|end| detail.is_char_boundary(*end)) {
        detail.truncate(end);
        detail.push_str("...");
    }
    match error.classify() {
        Category::Data => Problem::new(ApiErrorKind::Invalid, detail).at(pointer.render()),
        Category::Io | Category::Syntax | Category::Eof => Problem::new(ApiErrorKind::NotJson, detail),
    }
}

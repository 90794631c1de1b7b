//! The same headers for a head that is written out at once: no map is filled with them first.

use http::HeaderName;

use super::line::Pieces;
use super::{HeaderStyle, LEGACY, POLICY, RATE_LIMIT, X, push_left, said, tightest};
use crate::faces::Faces;
use crate::told::Told;

/// Adds a line for each header, in the order of [`Fields::write`](super::Fields::write).
pub(crate) fn write_lines(output: &mut Vec<u8>, style: HeaderStyle, faces: &Faces, told: &impl Told) {
    match style {
        HeaderStyle::Ietf => {
            let mut is_any = false;
            for (_, face, _) in said(faces, told) {
                is_any = true;
                line(output, &POLICY, |output| Pieces::push(output, face.policy.as_bytes()));
            }
            if is_any {
                line(output, &RATE_LIMIT, |output| push_left(output, faces, told));
            }
        }
        HeaderStyle::Legacy => write_three(output, &LEGACY, faces, told),
        HeaderStyle::X => write_three(output, &X, faces, told),
        HeaderStyle::None => {}
    }
}

fn write_three(output: &mut Vec<u8>, names: &[HeaderName; 3], faces: &Faces, told: &impl Told) {
    for (name, number) in names.iter().zip(tightest(faces, told).into_iter().flatten()) {
        line(output, name, |output| output.push_number(number));
    }
}

/// A line of this name, with what `value` adds.
pub(super) fn line(output: &mut Vec<u8>, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
    output.extend_from_slice(name.as_str().as_bytes());
    output.extend_from_slice(b": ");
    value(output);
    output.extend_from_slice(b"\r\n");
}

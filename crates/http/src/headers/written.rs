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
                begin(output, &POLICY);
                output.extend_from_slice(face.policy.as_bytes());
                end(output);
            }
            if is_any {
                begin(output, &RATE_LIMIT);
                push_left(output, faces, told);
                end(output);
            }
        }
        HeaderStyle::Legacy => write_three(output, &LEGACY, faces, told),
        HeaderStyle::X => write_three(output, &X, faces, told),
        HeaderStyle::None => {}
    }
}

fn write_three(output: &mut Vec<u8>, names: &[HeaderName; 3], faces: &Faces, told: &impl Told) {
    for (name, number) in names.iter().zip(tightest(faces, told).into_iter().flatten()) {
        begin(output, name);
        output.push_number(number);
        end(output);
    }
}

fn begin(output: &mut Vec<u8>, name: &HeaderName) {
    output.extend_from_slice(name.as_str().as_bytes());
    output.extend_from_slice(b": ");
}

fn end(output: &mut Vec<u8>) {
    output.extend_from_slice(b"\r\n");
}

//! Bodies in chunks (RFC 9112, 7.1).

use bytes::{Buf, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::decode::Decoded;
use crate::fields;
use crate::malformed::Malformed;

/// All extensions of one body together. Nobody needs them, and each byte of data could bring its own.
const MOST_EXTENSIONS: usize = 16 << 10;

/// All trailers of one body together.
const MOST_TRAILERS: usize = 16 << 10;

/// Where in a body in chunks we are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunked {
    at: At,
    /// Bytes of extensions so far.
    extensions: usize,
}

#[derive(Clone, Copy, Debug)]
enum At {
    /// Within a size, of which this is known.
    Size {
        size: u64,
        digits: u8,
    },
    /// Behind a size: white space, an extension, or the line's end.
    BehindSize(u64),
    Extension(u64),
    /// Before the LF of a size's line.
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    Trailers,
}

impl Chunked {
    pub(crate) const fn new() -> Self {
        Self { at: At::Size { size: 0, digits: 0 }, extensions: 0 }
    }

    /// Goes on. [`Decoded::End`] and [`Decoded::Trailers`] are the last.
    pub(crate) fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, Malformed> {
        loop {
            match self.at {
                At::Data(left) => {
                    let part = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if part == 0 {
                        return Ok(Decoded::More);
                    }
                    let left = left - part as u64;
                    self.at = if left == 0 { At::DataCr } else { At::Data(left) };
                    return Ok(Decoded::Data(input.split_to(part).freeze()));
                }
                At::Trailers => return trailers(input),
                _ => {
                    let Some(byte) = input.first().copied() else { return Ok(Decoded::More) };
                    input.advance(1);
                    self.at = self.step(byte)?;
                }
            }
        }
    }

    /// One byte that is no data.
    fn step(&mut self, byte: u8) -> Result<At, Malformed> {
        Ok(match (self.at, byte) {
            (At::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                // 16 digits fill 64 bits.
                if digits == 16 {
                    return Err(Malformed::Chunk);
                }
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                At::Size { size: size << 4 | digit, digits: digits + 1 }
            }
            (At::Size { digits: 0, .. }, _) => return Err(Malformed::Chunk),
            (At::Size { size, .. } | At::BehindSize(size), b' ' | b'\t') => At::BehindSize(size),
            (At::Size { size, .. } | At::BehindSize(size), b';') => At::Extension(size),
            (At::Size { size, .. } | At::BehindSize(size) | At::Extension(size), b'\r') => At::SizeLf(size),
            (At::Extension(_), b'\n') => return Err(Malformed::Chunk),
            (At::Extension(size), _) => {
                self.extensions += 1;
                if self.extensions > MOST_EXTENSIONS {
                    return Err(Malformed::Chunk);
                }
                At::Extension(size)
            }
            (At::SizeLf(0), b'\n') => At::Trailers,
            (At::SizeLf(size), b'\n') => At::Data(size),
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::Size { size: 0, digits: 0 },
            _ => return Err(Malformed::Chunk),
        })
    }
}

/// What stands behind the last chunk.
fn trailers(input: &mut BytesMut) -> Result<Decoded, Malformed> {
    if input.starts_with(b"\r\n") {
        input.advance(2);
        return Ok(Decoded::End);
    }
    let mut lines = [httparse::EMPTY_HEADER; fields::MOST];
    match httparse::parse_headers(input, &mut lines) {
        Ok(httparse::Status::Complete((length, lines))) if length <= MOST_TRAILERS => {
            let mut trailers = HeaderMap::with_capacity(lines.len());
            for line in lines {
                let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| Malformed::Trailers)?;
                let value = HeaderValue::from_bytes(line.value).map_err(|_| Malformed::Trailers)?;
                trailers.try_append(name, value).map_err(|_| Malformed::Trailers)?;
            }
            input.advance(length);
            Ok(Decoded::Trailers(trailers))
        }
        Ok(httparse::Status::Partial) if input.len() < MOST_TRAILERS => Ok(Decoded::More),
        _ => Err(Malformed::Trailers),
    }
}

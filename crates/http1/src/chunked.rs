//! Decoder for the chunked transfer coding (RFC 9112, section 7.1).

use bytes::{Buf, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::decoded::Decoded;
use crate::error::ParseError;
use crate::fields;

/// Limit on the chunk extensions of one body, in total. They are ignored, and each byte of data could carry its
/// own.
const MAX_EXTENSION_BYTES: usize = 16 << 10;

/// Limit on the trailers of one body, in total.
const MAX_TRAILER_BYTES: usize = 16 << 10;

/// State of a chunked body that is being decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkedDecoder {
    state: ChunkState,
    /// Bytes of extensions read so far.
    extensions: usize,
}

#[derive(Clone, Copy, Debug)]
enum ChunkState {
    /// Within a chunk size: the digits read so far.
    Size {
        size: u64,
        digits: u8,
    },
    /// After the digits of a size: whitespace, an extension, or the end of the line.
    AfterSize(u64),
    Extension(u64),
    /// Before the LF of the size line.
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    Trailers,
}

impl ChunkedDecoder {
    pub(crate) const fn new() -> Self {
        Self { state: ChunkState::Size { size: 0, digits: 0 }, extensions: 0 }
    }

    /// Decodes the next part. [`Decoded::End`] and [`Decoded::Trailers`] come last.
    pub(crate) fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, ParseError> {
        loop {
            match self.state {
                ChunkState::Data(remaining) => {
                    let part = input.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
                    if part == 0 {
                        return Ok(Decoded::NeedMore);
                    }
                    let remaining = remaining - part as u64;
                    self.state = if remaining == 0 { ChunkState::DataCr } else { ChunkState::Data(remaining) };
                    return Ok(Decoded::Data(input.split_to(part).freeze()));
                }
                ChunkState::Trailers => return parse_trailers(input),
                _ => {
                    let Some(byte) = input.first().copied() else { return Ok(Decoded::NeedMore) };
                    input.advance(1);
                    self.state = self.step(byte)?;
                }
            }
        }
    }

    /// Consumes one byte that is not chunk data.
    fn step(&mut self, byte: u8) -> Result<ChunkState, ParseError> {
        Ok(match (self.state, byte) {
            (ChunkState::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                // 16 digits fill 64 bits.
                if digits == 16 {
                    return Err(ParseError::Chunk);
                }
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                ChunkState::Size { size: size << 4 | digit, digits: digits + 1 }
            }
            (ChunkState::Size { digits: 0, .. }, _) => return Err(ParseError::Chunk),
            (ChunkState::Size { size, .. } | ChunkState::AfterSize(size), b' ' | b'\t') => ChunkState::AfterSize(size),
            (ChunkState::Size { size, .. } | ChunkState::AfterSize(size), b';') => ChunkState::Extension(size),
            (ChunkState::Size { size, .. } | ChunkState::AfterSize(size) | ChunkState::Extension(size), b'\r') => {
                ChunkState::SizeLf(size)
            }
            (ChunkState::Extension(_), b'\n') => return Err(ParseError::Chunk),
            (ChunkState::Extension(size), _) => {
                self.extensions += 1;
                if self.extensions > MAX_EXTENSION_BYTES {
                    return Err(ParseError::Chunk);
                }
                ChunkState::Extension(size)
            }
            (ChunkState::SizeLf(0), b'\n') => ChunkState::Trailers,
            (ChunkState::SizeLf(size), b'\n') => ChunkState::Data(size),
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => ChunkState::Size { size: 0, digits: 0 },
            _ => return Err(ParseError::Chunk),
        })
    }
}

/// Parses the trailer section after the last chunk.
fn parse_trailers(input: &mut BytesMut) -> Result<Decoded, ParseError> {
    if input.starts_with(b"\r\n") {
        input.advance(2);
        return Ok(Decoded::End);
    }
    let mut lines = [httparse::EMPTY_HEADER; fields::MAX_HEADERS];
    match httparse::parse_headers(input, &mut lines) {
        Ok(httparse::Status::Complete((length, lines))) if length <= MAX_TRAILER_BYTES => {
            let mut trailers = HeaderMap::with_capacity(lines.len());
            for line in lines {
                let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| ParseError::Trailers)?;
                let value = HeaderValue::from_bytes(line.value).map_err(|_| ParseError::Trailers)?;
                trailers.try_append(name, value).map_err(|_| ParseError::Trailers)?;
            }
            input.advance(length);
            Ok(Decoded::Trailers(trailers))
        }
        Ok(httparse::Status::Partial) if input.len() < MAX_TRAILER_BYTES => Ok(Decoded::NeedMore),
        _ => Err(ParseError::Trailers),
    }
}

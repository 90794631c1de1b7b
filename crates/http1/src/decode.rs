//! Incremental body decoder.

use bytes::BytesMut;

use crate::chunked::ChunkedDecoder;
use crate::decoded::Decoded;
use crate::error::ParseError;
use crate::framing::Framing;

/// Splits a body off the bytes that were read, part by part.
#[derive(Clone, Copy, Debug)]
pub struct Decoder(DecoderState);

#[derive(Clone, Copy, Debug)]
enum DecoderState {
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
    Done,
}

impl Decoder {
    /// Creates a decoder for a body with this framing.
    pub const fn new(framing: Framing) -> Self {
        Self(match framing {
            Framing::Empty | Framing::Length(0) => DecoderState::Done,
            Framing::Length(length) => DecoderState::Length(length),
            Framing::Chunked => DecoderState::Chunked(ChunkedDecoder::new()),
            Framing::UntilClose => DecoderState::UntilClose,
        })
    }

    /// True if the whole body was decoded.
    pub const fn is_done(&self) -> bool {
        matches!(self.0, DecoderState::Done)
    }

    /// Bytes still to come, if known.
    pub const fn remaining(&self) -> Option<u64> {
        match self.0 {
            DecoderState::Length(remaining) => Some(remaining),
            DecoderState::Done => Some(0),
            DecoderState::Chunked(_) | DecoderState::UntilClose => None,
        }
    }

    /// Splits the next part off the front of `input`.
    pub fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, ParseError> {
        let decoded = match &mut self.0 {
            DecoderState::Length(_) | DecoderState::UntilClose if input.is_empty() => return Ok(Decoded::NeedMore),
            DecoderState::UntilClose => return Ok(Decoded::Data(input.split().freeze())),
            DecoderState::Length(remaining) => {
                let part = input.len().min(usize::try_from(*remaining).unwrap_or(usize::MAX));
                *remaining -= part as u64;
                if *remaining == 0 {
                    self.0 = DecoderState::Done;
                }
                return Ok(Decoded::Data(input.split_to(part).freeze()));
            }
            DecoderState::Chunked(chunked) => chunked.decode(input)?,
            DecoderState::Done => Decoded::End,
        };
        if matches!(decoded, Decoded::Trailers(_) | Decoded::End) {
            self.0 = DecoderState::Done;
        }
        Ok(decoded)
    }

    /// Handles the end of the connection. It ends a body that is framed by it; any other body is incomplete.
    pub fn close(&mut self) -> Result<(), ParseError> {
        match std::mem::replace(&mut self.0, DecoderState::Done) {
            DecoderState::Done | DecoderState::UntilClose => Ok(()),
            DecoderState::Length(_) | DecoderState::Chunked(_) => Err(ParseError::UnexpectedEof),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    /// Decodes bytes that arrive in these pieces.
    fn decoded(framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, HeaderMap, BytesMut), ParseError> {
        let (mut decoder, mut input) = (Decoder::new(framing), BytesMut::new());
        let (mut body, mut trailers) = (Vec::new(), HeaderMap::new());
        for piece in pieces {
            input.extend_from_slice(piece);
            loop {
                match decoder.decode(&mut input)? {
                    Decoded::Data(data) => body.extend_from_slice(&data),
                    Decoded::Trailers(received) => trailers = received,
                    Decoded::End | Decoded::NeedMore => break,
                }
            }
        }
        decoder.close()?;
        Ok((body, trailers, input))
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        let (body, _, remaining) = decoded(Framing::Length(5), &[b"hel", b"loGET"]).unwrap();
        assert_eq!((&body[..], &remaining[..]), (&b"hello"[..], &b"GET"[..]));
        assert_eq!(decoded(Framing::Length(5), &[b"hell"]).unwrap_err(), ParseError::UnexpectedEof);
        assert_eq!(decoded(Framing::UntilClose, &[b"hel", b"lo"]).unwrap().0, b"hello");
        let (body, _, remaining) = decoded(Framing::Empty, &[b"GET"]).unwrap();
        assert_eq!((&body[..], &remaining[..]), (&b""[..], &b"GET"[..]));
    }

    #[test]
    fn chunks_may_be_cut_anywhere() {
        let whole = b"5;a=b\r\nhello\r\n00a \r\n0123456789\r\n0\r\nX-Sum: 5\r\n\r\nGET";
        for cut in 0..whole.len() {
            let (body, trailers, remaining) = decoded(Framing::Chunked, &[&whole[..cut], &whole[cut..]]).unwrap();
            assert_eq!((&body[..], &remaining[..]), (&b"hello0123456789"[..], &b"GET"[..]), "{cut}");
            assert_eq!(trailers["x-sum"], "5");
        }
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(decoded(Framing::Chunked, &bytes).unwrap().0, b"hello0123456789");
    }

    #[test]
    fn invalid_chunks_are_errors() {
        for text in [
            "-5\r\n",
            "10000000000000005\r\n",
            "\r\n",
            ";a\r\n",
            "5g\r\n",
            "0x5\r\n",
            "5\nhello",
            "5;a\nhello",
            "5\r\nhello!\r\n",
            "5\r\nhello0\r\n",
            "5\r\nhello\n0",
            "5\r\nhello\r0",
            " 5\r\n",
            "5\rhello",
        ] {
            assert_eq!(decoded(Framing::Chunked, &[text.as_bytes()]).unwrap_err(), ParseError::Chunk, "{text:?}");
        }
        for text in ["", "5", "5\r\nhel", "5\r\nhello\r\n", "0\r\n", "0\r\na: b\r\n"] {
            assert_eq!(
                decoded(Framing::Chunked, &[text.as_bytes()]).unwrap_err(),
                ParseError::UnexpectedEof,
                "{text:?}"
            );
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded() {
        let long = format!("5;{}", "a".repeat(64 << 10));
        assert_eq!(decoded(Framing::Chunked, &[long.as_bytes()]).unwrap_err(), ParseError::Chunk);
        let many = format!("1;{}\r\na\r\n", "a".repeat(1_000)).repeat(100);
        assert_eq!(decoded(Framing::Chunked, &[many.as_bytes()]).unwrap_err(), ParseError::Chunk);
        for trailers in ["a: b\r\n".repeat(101), format!("a: {}", "b".repeat(64 << 10))] {
            let text = format!("0\r\n{trailers}\r\n");
            assert_eq!(decoded(Framing::Chunked, &[text.as_bytes()]).unwrap_err(), ParseError::Trailers);
        }
    }
}

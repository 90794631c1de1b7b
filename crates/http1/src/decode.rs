//! Bodies as they come.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

use crate::chunked::Chunked;
use crate::framing::Framing;
use crate::malformed::Malformed;

/// Takes a body off what was read, part by part.
#[derive(Clone, Copy, Debug)]
pub struct Decoder(State);

#[derive(Clone, Copy, Debug)]
enum State {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    Done,
}

/// What has come of a body.
#[derive(Debug)]
pub enum Decoded {
    /// The next part.
    Data(Bytes),
    /// The end, with trailers.
    Trailers(HeaderMap),
    /// The end.
    End,
    /// Nothing: more has to be read.
    More,
}

impl Decoder {
    /// A body of this framing, before its first byte.
    pub const fn new(framing: Framing) -> Self {
        Self(match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunked::new()),
            Framing::UntilClose => State::UntilClose,
        })
    }

    /// Whether all of it has been taken.
    pub const fn is_done(&self) -> bool {
        matches!(self.0, State::Done)
    }

    /// How many bytes are still to come, if that is known.
    pub const fn remaining(&self) -> Option<u64> {
        match self.0 {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            State::Chunked(_) | State::UntilClose => None,
        }
    }

    /// Takes the next part off the front of what was read.
    pub fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, Malformed> {
        let decoded = match &mut self.0 {
            State::Length(_) | State::UntilClose if input.is_empty() => return Ok(Decoded::More),
            State::UntilClose => return Ok(Decoded::Data(input.split().freeze())),
            State::Length(left) => {
                let part = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= part as u64;
                if *left == 0 {
                    self.0 = State::Done;
                }
                return Ok(Decoded::Data(input.split_to(part).freeze()));
            }
            State::Chunked(chunked) => chunked.decode(input)?,
            State::Done => Decoded::End,
        };
        if matches!(decoded, Decoded::Trailers(_) | Decoded::End) {
            self.0 = State::Done;
        }
        Ok(decoded)
    }

    /// The connection has ended. That is the end of a body that has no other; any other has broken off.
    pub fn close(&mut self) -> Result<(), Malformed> {
        match std::mem::replace(&mut self.0, State::Done) {
            State::Done | State::UntilClose => Ok(()),
            State::Length(_) | State::Chunked(_) => Err(Malformed::BrokenOff),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of bytes that arrive in pieces.
    fn decoded(framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, HeaderMap, BytesMut), Malformed> {
        let (mut decoder, mut input) = (Decoder::new(framing), BytesMut::new());
        let (mut body, mut trailers) = (Vec::new(), HeaderMap::new());
        for piece in pieces {
            input.extend_from_slice(piece);
            loop {
                match decoder.decode(&mut input)? {
                    Decoded::Data(data) => body.extend_from_slice(&data),
                    Decoded::Trailers(told) => trailers = told,
                    Decoded::End | Decoded::More => break,
                }
            }
        }
        decoder.close()?;
        Ok((body, trailers, input))
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        let (body, _, rest) = decoded(Framing::Length(5), &[b"hel", b"loGET"]).unwrap();
        assert_eq!((&body[..], &rest[..]), (&b"hello"[..], &b"GET"[..]));
        assert_eq!(decoded(Framing::Length(5), &[b"hell"]).unwrap_err(), Malformed::BrokenOff);
        assert_eq!(decoded(Framing::UntilClose, &[b"hel", b"lo"]).unwrap().0, b"hello");
        let (body, _, rest) = decoded(Framing::Empty, &[b"GET"]).unwrap();
        assert_eq!((&body[..], &rest[..]), (&b""[..], &b"GET"[..]));
    }

    #[test]
    fn chunks_may_be_cut_anywhere() {
        let whole = b"5;a=b\r\nhello\r\n00a \r\n0123456789\r\n0\r\nX-Sum: 5\r\n\r\nGET";
        for cut in 0..whole.len() {
            let (body, trailers, rest) = decoded(Framing::Chunked, &[&whole[..cut], &whole[cut..]]).unwrap();
            assert_eq!((&body[..], &rest[..]), (&b"hello0123456789"[..], &b"GET"[..]), "{cut}");
            assert_eq!(trailers["x-sum"], "5");
        }
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(decoded(Framing::Chunked, &bytes).unwrap().0, b"hello0123456789");
    }

    #[test]
    fn what_is_no_chunk_is_the_end() {
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
            assert_eq!(decoded(Framing::Chunked, &[text.as_bytes()]).unwrap_err(), Malformed::Chunk, "{text:?}");
        }
        for text in ["", "5", "5\r\nhel", "5\r\nhello\r\n", "0\r\n", "0\r\na: b\r\n"] {
            assert_eq!(decoded(Framing::Chunked, &[text.as_bytes()]).unwrap_err(), Malformed::BrokenOff, "{text:?}");
        }
    }

    #[test]
    fn nothing_goes_on_without_end() {
        let long = format!("5;{}", "a".repeat(64 << 10));
        assert_eq!(decoded(Framing::Chunked, &[long.as_bytes()]).unwrap_err(), Malformed::Chunk);
        let many = format!("1;{}\r\na\r\n", "a".repeat(1_000)).repeat(100);
        assert_eq!(decoded(Framing::Chunked, &[many.as_bytes()]).unwrap_err(), Malformed::Chunk);
        for trailers in ["a: b\r\n".repeat(101), format!("a: {}", "b".repeat(64 << 10))] {
            let text = format!("0\r\n{trailers}\r\n");
            assert_eq!(decoded(Framing::Chunked, &[text.as_bytes()]).unwrap_err(), Malformed::Trailers);
        }
    }
}

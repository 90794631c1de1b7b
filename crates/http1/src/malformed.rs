//! What is wrong with a message.

use std::error::Error;
use std::fmt;

use http::StatusCode;

/// Why bytes are no message, or none that is read here. Nothing behind it in the connection can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// The first line is not as it should be.
    FirstLine,
    /// A header line is not as it should be.
    Field,
    /// There is more of the head than is read.
    TooLarge,
    /// Lengths that are none, or that contradict each other.
    Length,
    /// A transfer coding from which the end of the body cannot be told.
    Coding,
    /// A chunk that is none.
    Chunk,
    /// Trailers that are none, or too many.
    Trailers,
    /// The connection ended within the message.
    BrokenOff,
}

impl Malformed {
    /// What a client is told that sent it.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The same in words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::FirstLine => "the first line is no line of HTTP/1.1",
            Self::Field => "a header line is malformed",
            Self::TooLarge => "the head is too large",
            Self::Length => "the Content-Length is no length",
            Self::Coding => "the transfer coding leaves the end of the body open",
            Self::Chunk => "a chunk is malformed",
            Self::Trailers => "the trailers are malformed",
            Self::BrokenOff => "it broke off",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl Error for Malformed {}

//! Parse errors.

use std::error::Error;
use std::fmt;

use http::StatusCode;

/// Error in a message, or an unsupported message. Nothing after it on the connection can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// The start line is invalid.
    StartLine,
    /// A header line is invalid.
    Header,
    /// The head, or a declared length, exceeds the limit.
    TooLarge,
    /// `Content-Length` is invalid or contradictory.
    Length,
    /// The transfer coding does not determine the end of the body.
    TransferCoding,
    /// A chunk is invalid.
    Chunk,
    /// The trailers are invalid or too large.
    Trailers,
    /// The connection ended within the message.
    UnexpectedEof,
}

impl ParseError {
    /// The status code to respond with.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The reason as text.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::StartLine => "the start line is not valid HTTP/1.1",
            Self::Header => "malformed header line",
            Self::TooLarge => "the message head is too large",
            Self::Length => "invalid Content-Length",
            Self::TransferCoding => "the transfer coding does not determine the end of the body",
            Self::Chunk => "malformed chunk",
            Self::Trailers => "malformed or too large trailers",
            Self::UnexpectedEof => "unexpected end of the connection",
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl Error for ParseError {}

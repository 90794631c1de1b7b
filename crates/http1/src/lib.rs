//! HTTP/1.1 codec for a gateway (RFC 9112), without I/O.
//!
//! ```text
//!  bytes ──> read_request ──> head, Framing ──> Decoder ──> parts of the body
//!  bytes <── write_request_line, write_status_line, write_field, write_chunk, write_last_chunk
//! ```
//! A message is a head and a body; the head determines the [`Framing`] of the body. If two parsers can disagree
//! about the end of a body, an attacker can smuggle a second request. A head with ambiguous framing is
//! therefore a [`ParseError`], or the last one of its connection, and everything that is written gets new
//! framing.
//!
//! Lines are parsed by `httparse`, which is strict: no folded lines, no space before a colon, no invalid header
//! bytes. Nothing is copied: header names that are not well known, values and bodies are slices of the input.
//!
//! # Modules
//!
//! - `request`, `response`: parse the head of a message ([`read_request`], [`read_response`]).
//! - `fields`: header map and byte spans of a head.
//! - `raw_headers`: response headers kept as bytes for forwarding ([`RawHeaders`]).
//! - `framing`: framing of a body, from the headers ([`Framing`]).
//! - `decode`, `chunked`, `decoded`: body decoder ([`Decoder`]) and its results.
//! - `trailers`: trailers that may be forwarded ([`filter_trailers`]).
//! - `write`: serializer for start lines, headers and chunks.
//! - `error`: [`ParseError`].
//!
//! # Example
//!
//! ```
//! use bytes::BytesMut;
//! use sluicegate_http1::{Decoded, Decoder, Framing, read_request};
//!
//! let mut input = BytesMut::from("POST /a HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
//! let read = read_request(&mut input, 16 << 10)?.expect("a complete head");
//! assert_eq!((read.head.uri().path(), read.framing), ("/a", Framing::Chunked));
//! let mut body = Decoder::new(read.framing);
//! assert!(matches!(body.decode(&mut input)?, Decoded::Data(data) if data == "hi"));
//! assert!(matches!(body.decode(&mut input)?, Decoded::End));
//! assert!(input.is_empty());
//! # Ok::<(), sluicegate_http1::ParseError>(())
//! ```

mod chunked;
mod decode;
mod decoded;
mod error;
mod fields;
mod framing;
mod raw_headers;
mod request;
mod response;
mod trailers;
mod write;

pub use decode::Decoder;
pub use decoded::Decoded;
pub use error::ParseError;
pub use framing::Framing;
pub use raw_headers::RawHeaders;
pub use request::{ReadRequest, read_request};
pub use response::{HeaderMode, ReadResponse, ResponseHead, read_response};
pub use trailers::{filter_trailers, is_allowed_trailer};
pub use write::{write_chunk, write_field, write_last_chunk, write_request_line, write_status_line};

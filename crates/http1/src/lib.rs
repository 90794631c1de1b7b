//! HTTP/1.1 messages as a gateway reads and writes them (RFC 9112), without I/O.
//!
//! ```text
//!  bytes ──> read_request ──> head, Framing ──> Decoder ──> parts of the body
//!  bytes <── write_request_line, write_status_line, write_field, write_chunk, write_last_chunk
//! ```
//! A message is a head, and what its head says about the body behind it: its [`Framing`]. Where two who read the
//! same bytes could disagree about where a body ends, the second of two requests in a connection is whatever an
//! attacker wants it to be. So a head whose framing is not beyond doubt is [`Malformed`], or the last one of its
//! connection; what is written is framed anew.
//!
//! Lines are taken apart by `httparse`, which is strict: no folded lines, no space before a colon, no bytes that no
//! header may have. Nothing is copied: names that are not well known, values and bodies are parts of what was read.
//!
//! ```
//! use bytes::BytesMut;
//! use sluicegate_http1::{Decoded, Decoder, Framing, read_request};
//!
//! let mut input = BytesMut::from("POST /a HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
//! let read = read_request(&mut input, 16 << 10)?.expect("it is whole");
//! assert_eq!((read.head.uri().path(), read.framing), ("/a", Framing::Chunked));
//! let mut body = Decoder::new(read.framing);
//! assert!(matches!(body.decode(&mut input)?, Decoded::Data(data) if data == "hi"));
//! assert!(matches!(body.decode(&mut input)?, Decoded::End));
//! assert!(input.is_empty());
//! # Ok::<(), sluicegate_http1::Malformed>(())
//! ```

mod chunked;
mod decode;
mod fields;
mod framing;
mod lines;
mod malformed;
mod request;
mod response;
mod trailers;
mod write;

pub use decode::{Decoded, Decoder};
pub use framing::Framing;
pub use lines::Lines;
pub use malformed::Malformed;
pub use request::{ReadRequest, read_request};
pub use response::{Head, ReadResponse, Wanted, read_response};
pub use trailers::{announced, may_trail};
pub use write::{write_chunk, write_field, write_last_chunk, write_request_line, write_status_line};

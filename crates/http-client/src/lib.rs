//! Client side of the parts that send HTTP requests: the commands `health`, `probe` and `top`, and the OTLP exporter.
//!
//! - `connect`: [`Connector`] opens connections, with TLS for https URLs.
//! - `endpoint`: [`Endpoint`] is a parsed URL.
//! - `header`: parses a request header argument.

mod connect;
mod endpoint;
mod header;

pub use connect::{ByteStream, Connector, error_text};
pub use endpoint::{Endpoint, UrlErrorHints};
pub use header::parse_header;

//! Client side of the commands that send HTTP requests: `health`, `probe` and `top`.
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

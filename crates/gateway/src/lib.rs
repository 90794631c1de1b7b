//! The gateway: a reverse proxy with flow control, in front of any program.

mod stream;
mod upstream;

pub use upstream::{Health, ServerStatus, UpstreamError, UpstreamStatus};

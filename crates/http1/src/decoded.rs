//! Result of body decoding.

use bytes::Bytes;
use http::HeaderMap;

/// Result of one decoding step.
#[derive(Debug)]
pub enum Decoded {
    /// The next part of the body.
    Data(Bytes),
    /// The end of the body, with trailers.
    Trailers(HeaderMap),
    /// The end of the body.
    End,
    /// More input is needed.
    NeedMore,
}

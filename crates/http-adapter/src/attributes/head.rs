//! Borrowed request head, the input of attribute lookup.

use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri};

/// A borrowed request without its body.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'r> {
    /// The method.
    pub method: &'r Method,
    /// The request target.
    pub uri: &'r Uri,
    /// The headers.
    pub headers: &'r HeaderMap,
    /// Extensions set by earlier layers.
    pub extensions: &'r Extensions,
}

impl<'r, B> From<&'r Request<B>> for RequestHead<'r> {
    fn from(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

impl<'r> From<&'r Parts> for RequestHead<'r> {
    fn from(parts: &'r Parts) -> Self {
        Self { method: &parts.method, uri: &parts.uri, headers: &parts.headers, extensions: &parts.extensions }
    }
}

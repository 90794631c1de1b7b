//! Locations of API keys in a request.

use std::borrow::Cow;

use http::header::HeaderName;

use super::{RequestHead, authorization, cookie, header, query};

/// Location of an API key in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApiKeyLocation {
    /// A header with this name; the first line if it is repeated.
    Header(HeaderName),
    /// `Authorization` with this scheme: `Bearer`, `ApiKey`.
    Scheme(String),
    /// A query parameter with this name.
    Query(String),
    /// A cookie with this name.
    Cookie(String),
    /// A claim of the verified token, so the value is authenticated.
    #[cfg(feature = "jwt")]
    Claim(String),
}

impl ApiKeyLocation {
    /// Returns the key if it is present and not empty.
    pub(super) fn find<'r>(&self, head: RequestHead<'r>) -> Option<Cow<'r, str>> {
        let key = match self {
            Self::Header(name) => header::first(head.headers, name.as_str()),
            Self::Scheme(scheme) => authorization::credentials(head.headers, scheme),
            Self::Query(name) => query::first(head.uri.query()?, name),
            Self::Cookie(name) => cookie::first(head.headers, name),
            // Claims are looked up by the code that verified the token.
            #[cfg(feature = "jwt")]
            Self::Claim(_) => None,
        };
        key.filter(|key| !key.is_empty())
    }

    /// True if a request can have a key at this location.
    pub(super) fn is_valid(&self) -> bool {
        match self {
            Self::Header(_) => true,
            Self::Scheme(scheme) => {
                let token = |byte: u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte);
                !scheme.is_empty() && scheme.bytes().all(token)
            }
            Self::Query(name) | Self::Cookie(name) => !name.is_empty(),
            #[cfg(feature = "jwt")]
            Self::Claim(name) => !name.is_empty(),
        }
    }
}

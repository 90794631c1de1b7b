//! Where API keys are sent.

use std::borrow::Cow;

use http::header::HeaderName;

use super::{RequestHead, authorization, cookie, header, query};

/// A place an API key can be in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApiKeyPlace {
    /// A header of this name; of several lines, the first.
    Header(HeaderName),
    /// `Authorization`, after this scheme: `Bearer`, `ApiKey`.
    Scheme(String),
    /// A query parameter of this name.
    Query(String),
    /// A cookie of this name.
    Cookie(String),
    /// A claim of the verified token: then it is not only sent, but known to be true.
    #[cfg(feature = "jwt")]
    Claim(String),
}

impl ApiKeyPlace {
    /// The key, if it is there and not empty.
    pub(super) fn find<'r>(&self, head: RequestHead<'r>) -> Option<Cow<'r, str>> {
        let key = match self {
            Self::Header(name) => header::first(head.headers, name.as_str()),
            Self::Scheme(scheme) => authorization::credentials(head.headers, scheme),
            Self::Query(name) => query::first(head.uri.query()?, name),
            Self::Cookie(name) => cookie::first(head.headers, name),
            // Known to whoever has verified the token.
            #[cfg(feature = "jwt")]
            Self::Claim(_) => None,
        };
        key.filter(|key| !key.is_empty())
    }

    /// Whether anything can ever be there.
    pub(super) fn is_possible(&self) -> bool {
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

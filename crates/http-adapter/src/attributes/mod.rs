//! HTTP request attributes, under the names used in rules.
//!
//! | attribute | value |
//! |---|---|
//! | `header['x-tier']` | the header; several lines are one list, joined by `, ` |
//! | `cookie['sid']` | the first cookie with that name, percent-decoded and unquoted |
//! | `query['q']` | the first parameter with that name, percent-decoded; `+` is a space |
//! | any other word | provided by [`AttributeSources`]: API keys, verified claims, custom attributes |
//!
//! Names of cookies and parameters are decoded too, so a client cannot hide one from the rules by a spelling
//! that the upstream understands. Bytes that are not UTF-8 are read as ISO 8859-1: no content makes a value
//! absent. Attributes are looked up only if a rule uses them.
//!
//! ```
//! use std::borrow::Cow;
//! use sluicegate_engine::rule::{Attribute, Attributes};
//! use sluicegate_http_adapter::attributes::{AttributeSources, HttpAttributes};
//!
//! #[derive(Clone)]
//! struct User { tenant: String }
//!
//! // Once, at startup:
//! let sources = AttributeSources::builder()
//!     .extension("tenant", |user: &User| Some(Cow::Borrowed(user.tenant.as_str())))
//!     .build()?;
//!
//! // For each request:
//! let request = http::Request::get("/search?q=red+shoes")
//!     .header("cookie", "lang=de; sid=31d4")
//!     .extension(User { tenant: "acme".to_owned() })
//!     .body(())?;
//! let attributes = HttpAttributes::new(&request, &sources);
//! assert_eq!(attributes.get(&"query['q']".parse()?).as_deref(), Some("red shoes"));
//! assert_eq!(attributes.get(&"cookie['sid']".parse()?).as_deref(), Some("31d4"));
//! assert_eq!(attributes.get(&"tenant".parse()?).as_deref(), Some("acme"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod api_key;
mod authorization;
mod cookie;
mod custom;
mod decode;
mod head;
mod header;
#[cfg(feature = "jwt")]
pub mod jwt;
mod query;

use std::borrow::Cow;
use std::fmt;

use http::HeaderMap;
use http::header::HOST;
use sluicegate_engine::rule::{Attribute, Attributes};

pub use api_key::ApiKeyLocation;
use custom::AttributeSource;
pub use custom::{AttributeSourceError, AttributeSources, AttributeSourcesBuilder};
pub use head::RequestHead;

/// Attributes of one request, borrowed from its head.
pub struct HttpAttributes<'r> {
    head: RequestHead<'r>,
    sources: &'r AttributeSources,
    /// Filled on the first claim lookup: the token is verified once per request.
    #[cfg(feature = "jwt")]
    claims: std::sync::OnceLock<Option<jwt::JwtClaims>>,
}

impl<'r> HttpAttributes<'r> {
    /// Creates the attributes of a request.
    pub fn new(head: impl Into<RequestHead<'r>>, sources: &'r AttributeSources) -> Self {
        Self {
            head: head.into(),
            sources,
            #[cfg(feature = "jwt")]
            claims: std::sync::OnceLock::new(),
        }
    }

    fn custom(&self, name: &str) -> Option<Cow<'_, str>> {
        #[cfg(feature = "jwt")]
        if let (Some(_), Some(claim)) = (self.sources.jwt(), name.strip_prefix(jwt::CLAIM_PREFIX)) {
            return self.claim(claim);
        }
        match self.sources.source(name)? {
            AttributeSource::Function(function) => function(self.head),
            AttributeSource::ApiKey(locations) => locations.iter().find_map(|location| self.api_key_at(location)),
        }
    }

    fn api_key_at(&self, location: &ApiKeyLocation) -> Option<Cow<'_, str>> {
        match location {
            #[cfg(feature = "jwt")]
            ApiKeyLocation::Claim(name) => self.claim(name).filter(|value| !value.is_empty()),
            sent => sent.find(self.head),
        }
    }

    #[cfg(feature = "jwt")]
    fn claim(&self, name: &str) -> Option<Cow<'_, str>> {
        let verifier = self.sources.jwt()?;
        let claims = self.claims.get_or_init(|| {
            let token = authorization::credentials(self.head.headers, jwt::AUTH_SCHEME)?;
            verifier.verify(&token)
        });
        claims.as_ref()?.text(name)
    }
}

impl Attributes for HttpAttributes<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        match attribute {
            Attribute::Custom(name) => self.custom(name),
            // HTTP/2 has no `Host` header, and a host in the request target takes precedence (RFC 9112, 3.2.2).
            Attribute::Header(name) if name.eq_ignore_ascii_case(HOST.as_str()) => {
                let named = self.head.uri.authority().and_then(|authority| authority.as_str().rsplit('@').next());
                named.map(Cow::Borrowed).or_else(|| request_attribute(attribute, self.head.headers, None))
            }
            _ => request_attribute(attribute, self.head.headers, self.head.uri.query()),
        }
    }
}

/// Looks up a header, cookie or query parameter; `None` for any other attribute. For requests that are not
/// `http::Request`.
pub fn request_attribute<'r>(
    attribute: &Attribute,
    headers: &'r HeaderMap,
    query: Option<&'r str>,
) -> Option<Cow<'r, str>> {
    match attribute {
        Attribute::Header(name) => header::list(headers, name),
        Attribute::Cookie(name) => cookie::first(headers, name),
        Attribute::Query(name) => query::first(query?, name),
        _ => None,
    }
}

impl fmt::Debug for HttpAttributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpAttributes").field("sources", self.sources).finish_non_exhaustive()
    }
}

//! What HTTP knows of a request, under the names rules use.
//!
//! | attribute | is |
//! |---|---|
//! | `header['x-tier']` | the header; several lines are one list, joined by `, ` |
//! | `cookie['sid']` | the first cookie of that name, unescaped, without quotes around it |
//! | `query['q']` | the first parameter of that name, unescaped; `+` is a space |
//! | any other word | what [`AttributeSources`] provides under it: API keys, verified claims, your own |
//!
//! Names of cookies and parameters are unescaped too, so that a client cannot hide one by its spelling from
//! us and not from the program behind. Bytes that are not UTF-8 are read as ISO 8859-1: a value never
//! becomes absent by what is in it. Nothing is looked up before a rule asks for it.
//!
//! ```
//! use std::borrow::Cow;
//! use sluicegate_engine::rule::{Attribute, Attributes};
//! use sluicegate_http::attributes::{AttributeSources, HttpAttributes};
//!
//! #[derive(Clone)]
//! struct User { tenant: String }
//!
//! // Once, at the start:
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
mod head;
mod header;
#[cfg(feature = "jwt")]
pub mod jwt;
mod query;
mod sources;
mod text;

use std::borrow::Cow;
use std::fmt;

use http::HeaderMap;
use http::header::HOST;
use sluicegate_engine::rule::{Attribute, Attributes};

pub use api_key::ApiKeyPlace;
pub use head::RequestHead;
use sources::Source;
pub use sources::{AttributeSources, AttributeSourcesBuilder, SourceError};

/// The attributes of one request, borrowed from its head.
pub struct HttpAttributes<'r> {
    head: RequestHead<'r>,
    sources: &'r AttributeSources,
    /// A token is verified when the first claim is asked for, and not again.
    #[cfg(feature = "jwt")]
    claims: std::sync::OnceLock<Option<jwt::JwtClaims>>,
}

impl<'r> HttpAttributes<'r> {
    /// The attributes of this request.
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
        if let (Some(_), Some(claim)) = (self.sources.jwt(), name.strip_prefix(jwt::PREFIX)) {
            return self.claim(claim);
        }
        match self.sources.source(name)? {
            Source::Function(function) => function(self.head),
            Source::Places(places) => places.iter().find_map(|place| self.at(place)),
        }
    }

    fn at(&self, place: &ApiKeyPlace) -> Option<Cow<'_, str>> {
        match place {
            #[cfg(feature = "jwt")]
            ApiKeyPlace::Claim(name) => self.claim(name).filter(|value| !value.is_empty()),
            sent => sent.find(self.head),
        }
    }

    #[cfg(feature = "jwt")]
    fn claim(&self, name: &str) -> Option<Cow<'_, str>> {
        let verifier = self.sources.jwt()?;
        let claims = self.claims.get_or_init(|| {
            let token = authorization::credentials(self.head.headers, jwt::SCHEME)?;
            verifier.claims_of(&token)
        });
        claims.as_ref()?.text(name)
    }
}

impl Attributes for HttpAttributes<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        match attribute {
            Attribute::Custom(name) => self.custom(name),
            // HTTP/2 has no such header, and where the target names the host that one counts (RFC 9112, 3.2.2).
            Attribute::Header(name) if name.eq_ignore_ascii_case(HOST.as_str()) => {
                let named = self.head.uri.authority().and_then(|authority| authority.as_str().rsplit('@').next());
                named.map(Cow::Borrowed).or_else(|| sent(attribute, self.head.headers, None))
            }
            _ => sent(attribute, self.head.headers, self.head.uri.query()),
        }
    }
}

/// A header, a cookie or a parameter of the query, as it was sent; `None` for any other attribute. For
/// requests that are none of the `http` crate's.
pub fn sent<'r>(attribute: &Attribute, headers: &'r HeaderMap, query: Option<&'r str>) -> Option<Cow<'r, str>> {
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

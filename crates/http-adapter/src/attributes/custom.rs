//! Custom attributes by name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use sluicegate_engine::rule::{Attribute, AttributeError};
use thiserror::Error;

use super::{ApiKeyLocation, RequestHead};

type SourceFn = Box<dyn for<'r> Fn(RequestHead<'r>) -> Option<Cow<'r, str>> + Send + Sync>;

/// Source of one attribute.
pub(super) enum AttributeSource {
    Function(SourceFn),
    /// Tried in order; the first location with a value wins.
    ApiKey(Vec<ApiKeyLocation>),
}

/// Sources of attributes other than headers, cookies and query parameters.
///
/// Built once and shared: clones refer to the same sources. A source is called only if a rule uses its
/// attribute. If it returns nothing or an empty string, the attribute is absent, and rules keyed by it do
/// not count the request.
///
/// ```
/// use std::borrow::Cow;
/// use http::header::HeaderName;
/// use sluicegate_http_adapter::attributes::{ApiKeyLocation, AttributeSources};
///
/// let sources = AttributeSources::builder()
///     // The first location with a value wins.
///     .api_key("api_key", [
///         ApiKeyLocation::Header(HeaderName::from_static("x-api-key")),
///         ApiKeyLocation::Scheme("ApiKey".to_owned()),
///         ApiKeyLocation::Query("key".to_owned()),
///     ])
///     // Any other function of the request head.
///     .with("first_segment", |head| head.uri.path().split('/').nth(1).map(Cow::Borrowed))
///     .build()?;
///
/// let error = AttributeSources::builder().with("client_ip", |_| None).build().unwrap_err();
/// assert_eq!(error.to_string(), "invalid name for a source: unknown attribute 'client_ip': did you mean client.ip?");
/// # Ok::<(), sluicegate_http_adapter::attributes::AttributeSourceError>(())
/// ```
#[derive(Clone, Default)]
pub struct AttributeSources {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    by_name: BTreeMap<String, AttributeSource>,
    #[cfg(feature = "jwt")]
    jwt: Option<super::jwt::JwtVerifier>,
}

/// Error in the definition of attribute sources.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttributeSourceError {
    /// A name that no rule can use.
    #[error("invalid name for a source: {0}")]
    InvalidName(AttributeError),
    /// A name reserved for a built-in attribute.
    #[error("'{0}' is a built-in attribute: give the source another name, such as account")]
    Reserved(Attribute),
    /// Two sources with one name.
    #[error("duplicate source '{0}': give each source a different name")]
    Duplicate(String),
    /// A name with the prefix of token claims.
    #[error("'{0}' is reserved for a claim of the verified token: give the source another name")]
    ReservedClaim(String),
    /// An API key without a usable location.
    #[error("API key '{0}' has no valid location: give at least one header, scheme or parameter with a valid name")]
    NoLocation(String),
}

/// Builds [`AttributeSources`].
#[must_use]
#[derive(Default)]
pub struct AttributeSourcesBuilder {
    inner: Inner,
    error: Option<AttributeSourceError>,
}

impl AttributeSources {
    /// An empty set of sources.
    pub fn none() -> Self {
        Self::default()
    }

    /// A builder without sources.
    pub fn builder() -> AttributeSourcesBuilder {
        AttributeSourcesBuilder::default()
    }

    /// True if there is a source with this name, or a verifier whose claims include it.
    pub fn provides(&self, name: &str) -> bool {
        #[cfg(feature = "jwt")]
        if self.inner.jwt.is_some() && name.starts_with(super::jwt::CLAIM_PREFIX) {
            return true;
        }
        self.inner.by_name.contains_key(name)
    }

    pub(super) fn source(&self, name: &str) -> Option<&AttributeSource> {
        self.inner.by_name.get(name)
    }

    #[cfg(feature = "jwt")]
    pub(super) fn jwt(&self) -> Option<&super::jwt::JwtVerifier> {
        self.inner.jwt.as_ref()
    }
}

impl AttributeSourcesBuilder {
    /// Provides the attribute `name` by a function of the request head.
    pub fn with<F>(mut self, name: &str, source: F) -> Self
    where
        F: for<'r> Fn(RequestHead<'r>) -> Option<Cow<'r, str>> + Send + Sync + 'static,
    {
        if let Err(error) = self.insert(name, AttributeSource::Function(Box::new(source))) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Provides the attribute `name` from a request extension set by another layer.
    pub fn extension<T, F>(self, name: &str, source: F) -> Self
    where
        T: Send + Sync + 'static,
        F: for<'r> Fn(&'r T) -> Option<Cow<'r, str>> + Send + Sync + 'static,
    {
        self.with(name, move |head| head.extensions.get::<T>().and_then(&source))
    }

    /// Provides the attribute `name` from the first of these locations that has a value.
    ///
    /// The key is not validated: that is up to the upstream.
    pub fn api_key(mut self, name: &str, locations: impl IntoIterator<Item = ApiKeyLocation>) -> Self {
        let locations: Vec<ApiKeyLocation> = locations.into_iter().collect();
        if locations.is_empty() || !locations.iter().all(ApiKeyLocation::is_valid) {
            self.error.get_or_insert(AttributeSourceError::NoLocation(name.to_owned()));
        }
        if let Err(error) = self.insert(name, AttributeSource::ApiKey(locations)) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Provides `jwt.sub`, `jwt.tenant` and every other claim of a verified token.
    #[cfg(feature = "jwt")]
    pub fn jwt(mut self, verifier: super::jwt::JwtVerifier) -> Self {
        self.inner.jwt = Some(verifier);
        self
    }

    /// Builds the sources, or returns the first error.
    pub fn build(self) -> Result<AttributeSources, AttributeSourceError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        #[cfg(feature = "jwt")]
        if self.inner.jwt.is_some()
            && let Some(name) = self.inner.by_name.keys().find(|name| name.starts_with(super::jwt::CLAIM_PREFIX))
        {
            return Err(AttributeSourceError::ReservedClaim(name.clone()));
        }
        Ok(AttributeSources { inner: Arc::new(self.inner) })
    }

    fn insert(&mut self, name: &str, source: AttributeSource) -> Result<(), AttributeSourceError> {
        let name = match name.parse().map_err(AttributeSourceError::InvalidName)? {
            Attribute::Custom(name) => name,
            known => return Err(AttributeSourceError::Reserved(known)),
        };
        match self.inner.by_name.entry(name) {
            Entry::Occupied(entry) => Err(AttributeSourceError::Duplicate(entry.key().clone())),
            Entry::Vacant(entry) => {
                entry.insert(source);
                Ok(())
            }
        }
    }
}

impl fmt::Debug for AttributeSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.inner.by_name.keys()).finish()
    }
}

impl fmt::Debug for AttributeSourcesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.inner.by_name.keys()).finish()
    }
}

//! Attributes of your own, by name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use sluicegate_engine::rule::{Attribute, AttributeError};
use thiserror::Error;

use super::{ApiKeyPlace, RequestHead};

type Function = Box<dyn for<'r> Fn(RequestHead<'r>) -> Option<Cow<'r, str>> + Send + Sync>;

/// Where one attribute comes from.
pub(super) enum Source {
    Function(Function),
    /// The first that has something.
    Places(Vec<ApiKeyPlace>),
}

/// Where attributes that are neither header, cookie nor query parameter come from.
///
/// Built once and shared: clones are the same sources. A source is asked only if a rule asks for its
/// attribute. One that has nothing, or an empty text, leaves the attribute absent, and rules keyed by it do
/// not count the request.
///
/// ```
/// use std::borrow::Cow;
/// use http::header::HeaderName;
/// use sluicegate_http::attributes::{ApiKeyPlace, AttributeSources};
///
/// let sources = AttributeSources::builder()
///     // The first place that has one.
///     .api_key("api_key", [
///         ApiKeyPlace::Header(HeaderName::from_static("x-api-key")),
///         ApiKeyPlace::Scheme("ApiKey".to_owned()),
///         ApiKeyPlace::Query("key".to_owned()),
///     ])
///     // Anything else the head of a request tells.
///     .with("first_segment", |head| head.uri.path().split('/').nth(1).map(Cow::Borrowed))
///     .build()?;
///
/// let error = AttributeSources::builder().with("client_ip", |_| None).build().unwrap_err();
/// assert_eq!(error.to_string(), "no source can be named so: unknown attribute 'client_ip': did you mean client.ip?");
/// # Ok::<(), sluicegate_http::attributes::SourceError>(())
/// ```
#[derive(Clone, Default)]
pub struct AttributeSources {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    by_name: BTreeMap<String, Source>,
    #[cfg(feature = "jwt")]
    jwt: Option<super::jwt::JwtVerifier>,
}

/// Why sources do not work together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A name that no rule could use.
    #[error("no source can be named so: {0}")]
    Name(AttributeError),
    /// A name that is taken by what every request has.
    #[error("'{0}' has a meaning already: give the source another name, such as account")]
    Known(Attribute),
    /// Two sources of one name.
    #[error("two sources are named '{0}': give each a name of its own")]
    Twice(String),
    /// A name among the claims of tokens.
    #[error("'{0}' names a claim of the verified token: give the source another name")]
    Claim(String),
    /// An API key that can be nowhere.
    #[error("'{0}' can be found nowhere: name at least one place, and schemes and parameters that can be sent")]
    NoPlace(String),
}

/// Builds [`AttributeSources`].
#[must_use]
#[derive(Default)]
pub struct AttributeSourcesBuilder {
    inner: Inner,
    error: Option<SourceError>,
}

impl AttributeSources {
    /// No sources at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// None yet.
    pub fn builder() -> AttributeSourcesBuilder {
        AttributeSourcesBuilder::default()
    }

    /// Whether there is a source of this name, or a verifier whose claims have it.
    pub fn provides(&self, name: &str) -> bool {
        #[cfg(feature = "jwt")]
        if self.inner.jwt.is_some() && name.starts_with(super::jwt::PREFIX) {
            return true;
        }
        self.inner.by_name.contains_key(name)
    }

    pub(super) fn source(&self, name: &str) -> Option<&Source> {
        self.inner.by_name.get(name)
    }

    #[cfg(feature = "jwt")]
    pub(super) fn jwt(&self) -> Option<&super::jwt::JwtVerifier> {
        self.inner.jwt.as_ref()
    }
}

impl AttributeSourcesBuilder {
    /// Provides the attribute `name` by a function of the request's head.
    pub fn with<F>(mut self, name: &str, source: F) -> Self
    where
        F: for<'r> Fn(RequestHead<'r>) -> Option<Cow<'r, str>> + Send + Sync + 'static,
    {
        if let Err(error) = self.insert(name, Source::Function(Box::new(source))) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Provides the attribute `name` from what another layer has put into the request's extensions.
    pub fn extension<T, F>(self, name: &str, source: F) -> Self
    where
        T: Send + Sync + 'static,
        F: for<'r> Fn(&'r T) -> Option<Cow<'r, str>> + Send + Sync + 'static,
    {
        self.with(name, move |head| head.extensions.get::<T>().and_then(&source))
    }

    /// Provides the attribute `name` from the first of these places that has something.
    ///
    /// The key is taken as it came: whether it is a good one, the program behind finds out.
    pub fn api_key(mut self, name: &str, places: impl IntoIterator<Item = ApiKeyPlace>) -> Self {
        let places: Vec<ApiKeyPlace> = places.into_iter().collect();
        if places.is_empty() || !places.iter().all(ApiKeyPlace::is_possible) {
            self.error.get_or_insert(SourceError::NoPlace(name.to_owned()));
        }
        if let Err(error) = self.insert(name, Source::Places(places)) {
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

    /// The sources, or what is wrong with the first that is.
    pub fn build(self) -> Result<AttributeSources, SourceError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        #[cfg(feature = "jwt")]
        if self.inner.jwt.is_some()
            && let Some(name) = self.inner.by_name.keys().find(|name| name.starts_with(super::jwt::PREFIX))
        {
            return Err(SourceError::Claim(name.clone()));
        }
        Ok(AttributeSources { inner: Arc::new(self.inner) })
    }

    fn insert(&mut self, name: &str, source: Source) -> Result<(), SourceError> {
        let name = match name.parse().map_err(SourceError::Name)? {
            Attribute::Custom(name) => name,
            known => return Err(SourceError::Known(known)),
        };
        match self.inner.by_name.entry(name) {
            Entry::Occupied(entry) => Err(SourceError::Twice(entry.key().clone())),
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

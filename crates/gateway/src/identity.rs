//! Who clients are, and what rules can know of a request, as the rule file says.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use http::header::HeaderName;
use sluicegate_config::settings::{self, AttributePlace};
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http::attributes::jwt::{JwtAlgorithm, JwtKey, JwtKeyError, JwtVerifier, NoKeys};
use sluicegate_http::attributes::{ApiKeyPlace, AttributeSources, SourceError};
use sluicegate_http::identity::{self, Forwarding, TrustedProxies};
use thiserror::Error;

/// Why clients cannot be told apart as asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// Attributes that cannot be.
    #[error("gateway.attributes: {0}")]
    Attributes(#[from] SourceError),
    /// A header's name that is none.
    #[error("gateway.attributes: {0} is no header's name")]
    Header(String),
    /// A key that cannot be read.
    #[error("gateway.jwt: {} cannot be read: {source}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// An algorithm that is not known.
    #[error("gateway.jwt: {0} is no algorithm for tokens; RS256, ES256 and HS256 are such")]
    Algorithm(String),
    /// A key that does not fit.
    #[error("gateway.jwt: {0}")]
    Key(#[from] JwtKeyError),
    /// No key at all.
    #[error("gateway.jwt: {0}")]
    NoKeys(#[from] NoKeys),
}

/// Whose word about clients counts.
pub(crate) fn forwarding(gateway: &settings::Gateway) -> Forwarding {
    let trusted: TrustedProxies = gateway.trusted_proxies.iter().copied().collect();
    Forwarding::from(trusted).with_header(match &gateway.forwarded {
        settings::ForwardedHeader::XForwardedFor => identity::ForwardedHeader::XForwardedFor,
        settings::ForwardedHeader::Forwarded => identity::ForwardedHeader::Forwarded,
        settings::ForwardedHeader::Single(name) => {
            HeaderName::try_from(name).map_or(identity::ForwardedHeader::Nothing, identity::ForwardedHeader::Single)
        }
    })
}

/// Where the attributes that rules name come from.
pub(crate) fn attributes(
    gateway: &settings::Gateway,
    base: &Path,
    clock: &ClockHandle,
) -> Result<AttributeSources, IdentityError> {
    let mut sources = AttributeSources::builder();
    if let Some(jwt) = &gateway.jwt {
        sources = sources.jwt(verifier(jwt, base, clock)?);
    }
    for source in &gateway.attributes {
        let places = source.places.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        sources = sources.api_key(&source.name, places);
    }
    Ok(sources.build()?)
}

fn place(place: &AttributePlace) -> Result<ApiKeyPlace, IdentityError> {
    Ok(match place {
        AttributePlace::Header(name) => {
            ApiKeyPlace::Header(HeaderName::try_from(name).map_err(|_| IdentityError::Header(name.clone()))?)
        }
        AttributePlace::Cookie(name) => ApiKeyPlace::Cookie(name.clone()),
        AttributePlace::Query(name) => ApiKeyPlace::Query(name.clone()),
        AttributePlace::Scheme(scheme) => ApiKeyPlace::Scheme(scheme.clone()),
        AttributePlace::Claim(name) => ApiKeyPlace::Claim(name.clone()),
    })
}

fn verifier(jwt: &settings::Jwt, base: &Path, clock: &ClockHandle) -> Result<JwtVerifier, IdentityError> {
    let path = base.join(&jwt.key);
    let contents = fs::read(&path).map_err(|source| IdentityError::KeyFile { path, source })?;
    let algorithm: JwtAlgorithm = jwt.algorithm.parse().map_err(|_| IdentityError::Algorithm(jwt.algorithm.clone()))?;
    let key = if jwt.algorithm.starts_with("HS") {
        // Editors end a file with a line end; a secret does not.
        JwtKey::secret(algorithm, contents.trim_ascii_end())?
    } else {
        JwtKey::public_pem(algorithm, &String::from_utf8_lossy(&contents))?
    };
    let mut verifier = JwtVerifier::builder().key(key).clock(clock.clone());
    if let Some(issuer) = &jwt.issuer {
        verifier = verifier.issuer(issuer.clone());
    }
    if let Some(audience) = &jwt.audience {
        verifier = verifier.audience(audience.clone());
    }
    Ok(verifier.build()?)
}

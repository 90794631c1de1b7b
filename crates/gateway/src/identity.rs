//! Client identification and attribute sources, from the settings.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use http::header::HeaderName;
use sluicegate_config::settings::{self, AttributeLocation};
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http_adapter::attributes::jwt::{JwtAlgorithm, JwtKey, JwtKeyError, JwtVerifier, NoKeys};
use sluicegate_http_adapter::attributes::{ApiKeyLocation, AttributeSourceError, AttributeSources};
use sluicegate_http_adapter::identity::{self, Forwarding, TrustedProxies};
use thiserror::Error;

/// Error in the client identification settings.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// Invalid attributes.
    #[error("gateway.attributes: {0}")]
    Attributes(#[from] AttributeSourceError),
    /// An invalid header name.
    #[error("gateway.attributes: {0} is not a header name")]
    Header(String),
    /// A key file that cannot be read.
    #[error("gateway.jwt: cannot read {}: {source}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// An unknown algorithm.
    #[error("gateway.jwt: unsupported algorithm {0}; use for example RS256, ES256 or HS256")]
    Algorithm(String),
    /// A key that does not fit the algorithm.
    #[error("gateway.jwt: {0}")]
    Key(#[from] JwtKeyError),
    /// No key at all.
    #[error("gateway.jwt: {0}")]
    NoKeys(#[from] NoKeys),
}

/// Trusted proxies, and the header they report clients in.
pub(crate) fn forwarding(gateway: &settings::Gateway) -> Forwarding {
    let trusted: TrustedProxies = gateway.trusted_proxies.iter().copied().collect();
    Forwarding::from(trusted).with_header(match &gateway.client_ip_header {
        settings::ForwardedHeader::XForwardedFor => identity::ForwardedHeader::XForwardedFor,
        settings::ForwardedHeader::Forwarded => identity::ForwardedHeader::Forwarded,
        settings::ForwardedHeader::Single(name) => {
            HeaderName::try_from(name).map_or(identity::ForwardedHeader::Ignored, identity::ForwardedHeader::Single)
        }
    })
}

/// Sources of the attributes that rules refer to.
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
        let locations = source.locations.iter().map(api_key_location).collect::<Result<Vec<_>, _>>()?;
        sources = sources.api_key(&source.name, locations);
    }
    Ok(sources.build()?)
}

fn api_key_location(location: &AttributeLocation) -> Result<ApiKeyLocation, IdentityError> {
    Ok(match location {
        AttributeLocation::Header(name) => {
            ApiKeyLocation::Header(HeaderName::try_from(name).map_err(|_| IdentityError::Header(name.clone()))?)
        }
        AttributeLocation::Cookie(name) => ApiKeyLocation::Cookie(name.clone()),
        AttributeLocation::Query(name) => ApiKeyLocation::Query(name.clone()),
        AttributeLocation::Scheme(scheme) => ApiKeyLocation::Scheme(scheme.clone()),
        AttributeLocation::Claim(name) => ApiKeyLocation::Claim(name.clone()),
    })
}

fn verifier(jwt: &settings::Jwt, base: &Path, clock: &ClockHandle) -> Result<JwtVerifier, IdentityError> {
    let path = base.join(&jwt.key);
    let contents = fs::read(&path).map_err(|source| IdentityError::KeyFile { path, source })?;
    let algorithm: JwtAlgorithm = jwt.algorithm.parse().map_err(|_| IdentityError::Algorithm(jwt.algorithm.clone()))?;
    let key = if jwt.algorithm.starts_with("HS") {
        // Editors add a newline at the end of a file; it is not part of the secret.
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

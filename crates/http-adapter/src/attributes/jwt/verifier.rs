//! JWT verifier: checks a token and returns its claims.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::decode_header;
use sluicegate_engine::clock::ClockHandle;
use thiserror::Error;

use super::claims::ClaimRequirements;
use super::{JwtClaims, JwtKey};

/// Longer tokens are rejected without parsing.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Verifies tokens against a set of keys and claim requirements.
#[derive(Clone, Debug)]
pub struct JwtVerifier {
    keys: Vec<JwtKey>,
    requirements: ClaimRequirements,
    clock: ClockHandle,
}

/// Error of a verifier without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the verifier has no key: add one with JwtVerifierBuilder::key")]
pub struct NoKeys;

/// Builds a [`JwtVerifier`].
#[must_use]
#[derive(Clone, Debug)]
pub struct JwtVerifierBuilder {
    verifier: JwtVerifier,
}

impl JwtVerifier {
    /// A builder without keys, with a leeway of one minute and `exp` as the only requirement.
    pub fn builder() -> JwtVerifierBuilder {
        let demands = ClaimRequirements { leeway: 60.0, ..ClaimRequirements::default() };
        JwtVerifierBuilder { verifier: Self { keys: Vec::new(), requirements: demands, clock: ClockHandle::system() } }
    }

    /// Returns the token's claims if it is signed by a configured key and currently valid.
    pub fn verify(&self, token: &str) -> Option<JwtClaims> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let header = decode_header(token).ok()?;
        if header.crit.is_some() {
            // The token has a critical extension that is not supported.
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let mut keys = self.keys.iter().filter(|key| key.accepts(header.alg, header.kid.as_deref()));
        if !keys.any(|key| key.verify_signature(message.as_bytes(), &signature)) {
            return None;
        }
        let claims = JwtClaims::new(insecure_decode_claims(token).ok()?);
        claims.satisfy(&self.requirements, self.clock.now().to_unix().as_secs_f64()).then_some(claims)
    }
}

impl JwtVerifierBuilder {
    /// Adds a key. A token with a `kid` is checked against keys with that id and keys without one; a token
    /// without a `kid`, against all keys of its algorithm.
    pub fn key(mut self, key: JwtKey) -> Self {
        self.verifier.keys.push(key);
        self
    }

    /// Requires `iss` to be this issuer, or another one added by this method.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.verifier.requirements.issuers.insert(issuer.into());
        self
    }

    /// Requires `aud` to be or contain this audience, or another one added by this method.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.verifier.requirements.audiences.insert(audience.into());
        self
    }

    /// Allowed clock skew: extends `exp` and relaxes `nbf` by this much.
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.verifier.requirements.leeway = leeway.as_secs_f64();
        self
    }

    /// Also accepts tokens without `exp`, which never expire.
    pub fn allow_no_expiry(mut self) -> Self {
        self.verifier.requirements.allow_no_expiry = true;
        self
    }

    /// The clock that `exp` and `nbf` are compared with; defaults to the system clock.
    pub fn clock(mut self, clock: impl Into<ClockHandle>) -> Self {
        self.verifier.clock = clock.into();
        self
    }

    /// Builds the verifier; fails without a key.
    pub fn build(self) -> Result<JwtVerifier, NoKeys> {
        if self.verifier.keys.is_empty() { Err(NoKeys) } else { Ok(self.verifier) }
    }
}

//! From a token to its claims.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::decode_header;
use sluicegate_engine::clock::ClockHandle;
use thiserror::Error;

use super::claims::Demands;
use super::{JwtClaims, JwtKey};

/// Longer tokens are not looked at.
const LONGEST: usize = 16 * 1024;

/// Verifies tokens: with which keys, and what else must hold.
#[derive(Clone, Debug)]
pub struct JwtVerifier {
    keys: Vec<JwtKey>,
    demands: Demands,
    clock: ClockHandle,
}

/// A verifier without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("without a key no token can be verified: add one with JwtVerifierBuilder::key")]
pub struct NoKeys;

/// Builds a [`JwtVerifier`].
#[must_use]
#[derive(Clone, Debug)]
pub struct JwtVerifierBuilder {
    verifier: JwtVerifier,
}

impl JwtVerifier {
    /// No keys yet, a leeway of a minute, and nothing demanded but that the token has not expired.
    pub fn builder() -> JwtVerifierBuilder {
        let demands = Demands { leeway: 60.0, ..Demands::default() };
        JwtVerifierBuilder { verifier: Self { keys: Vec::new(), demands, clock: ClockHandle::system() } }
    }

    /// The token's claims, if it is signed by one of our keys and holds now.
    pub fn claims_of(&self, token: &str) -> Option<JwtClaims> {
        if token.len() > LONGEST {
            return None;
        }
        let header = decode_header(token).ok()?;
        if header.crit.is_some() {
            // It demands to be understood in a way that we do not know.
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let mut keys = self.keys.iter().filter(|key| key.may_have_signed(header.alg, header.kid.as_deref()));
        if !keys.any(|key| key.has_signed(message.as_bytes(), &signature)) {
            return None;
        }
        let claims = JwtClaims::new(insecure_decode_claims(token).ok()?);
        claims.meet(&self.demands, self.clock.now().to_unix().as_secs_f64()).then_some(claims)
    }
}

impl JwtVerifierBuilder {
    /// One more key. A token that names a key by `kid` is tried with the keys of that name and with those
    /// that have none; a token that does not, with all of its algorithm.
    pub fn key(mut self, key: JwtKey) -> Self {
        self.verifier.keys.push(key);
        self
    }

    /// Demands that `iss` is this, or another one named so.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.verifier.demands.issuers.insert(issuer.into());
        self
    }

    /// Demands that `aud` is or has this, or another one named so.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.verifier.demands.audiences.insert(audience.into());
        self
    }

    /// How much clocks may differ: `exp` holds so much longer, `nbf` so much earlier.
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.verifier.demands.leeway = leeway.as_secs_f64();
        self
    }

    /// Takes tokens without `exp` too, which hold for ever.
    pub fn allow_no_expiry(mut self) -> Self {
        self.verifier.demands.eternal = true;
        self
    }

    /// The clock that `exp` and `nbf` are compared with; the system's if none is given.
    pub fn clock(mut self, clock: impl Into<ClockHandle>) -> Self {
        self.verifier.clock = clock.into();
        self
    }

    /// The verifier, if it has a key.
    pub fn build(self) -> Result<JwtVerifier, NoKeys> {
        if self.verifier.keys.is_empty() { Err(NoKeys) } else { Ok(self.verifier) }
    }
}

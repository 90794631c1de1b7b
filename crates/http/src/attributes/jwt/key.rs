//! Keys that tokens are verified with.

use std::fmt;

use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use thiserror::Error;

use super::pem::{self, PublicKey};

/// A key, and the one algorithm it is for.
#[derive(Clone)]
pub struct JwtKey {
    algorithm: Algorithm,
    key: DecodingKey,
    id: Option<String>,
}

/// Why a key verifies no token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JwtKeyError {
    /// A secret that could be guessed.
    #[error("a secret of {found} bytes is too short: this algorithm needs at least {least} (RFC 7518)")]
    ShortSecret {
        /// How long it is.
        found: usize,
        /// How long it must be.
        least: usize,
    },
    /// A secret for an algorithm of public keys.
    #[error("this algorithm takes a public key, not a secret: use JwtKey::public_pem")]
    NotASecret,
    /// A public key for an algorithm of secrets.
    #[error("this algorithm takes a secret, not a public key: use JwtKey::secret")]
    NotPublic,
    /// No public key in PEM form.
    #[error("no public key: the text must be one block that begins with -----BEGIN PUBLIC KEY-----")]
    NotPem,
    /// A public key of another kind, on another curve, or broken.
    #[error("the public key does not fit the algorithm: it is of another kind or curve, or broken")]
    Mismatch,
    /// An RSA key that could be broken.
    #[error("an RSA key of {bits} bits is too short: use one of 2048 to 4096 bits")]
    ShortRsa {
        /// How long it is.
        bits: usize,
    },
}

impl JwtKey {
    /// A secret that both sides know, for `HS256`, `HS384` or `HS512`.
    pub fn secret(algorithm: Algorithm, secret: &[u8]) -> Result<Self, JwtKeyError> {
        let least = match algorithm {
            Algorithm::HS256 => 32,
            Algorithm::HS384 => 48,
            Algorithm::HS512 => 64,
            _ => return Err(JwtKeyError::NotASecret),
        };
        if secret.len() < least {
            return Err(JwtKeyError::ShortSecret { found: secret.len(), least });
        }
        Ok(Self { algorithm, key: DecodingKey::from_secret(secret), id: None })
    }

    /// A public key in PEM form (`-----BEGIN PUBLIC KEY-----`), for all other algorithms.
    pub fn public_pem(algorithm: Algorithm, text: &str) -> Result<Self, JwtKeyError> {
        if algorithm.family() == AlgorithmFamily::Hmac {
            return Err(JwtKeyError::NotPublic);
        }
        let key = match (algorithm, pem::read(text).ok_or(JwtKeyError::NotPem)?) {
            (Algorithm::ES256, PublicKey::P256(point)) | (Algorithm::ES384, PublicKey::P384(point)) => {
                DecodingKey::from_ec_der(&point)
            }
            (Algorithm::EdDSA, PublicKey::Ed25519(bytes)) => DecodingKey::from_ed_der(&bytes),
            (_, PublicKey::Rsa(der)) if algorithm.family() == AlgorithmFamily::Rsa => rsa(&der)?,
            _ => return Err(JwtKeyError::Mismatch),
        };
        (DEFAULT_PROVIDER.verifier_factory)(&algorithm, &key).map_err(|_| JwtKeyError::Mismatch)?;
        Ok(Self { algorithm, key, id: None })
    }

    /// For tokens whose header names this `kid`, or none.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Whether a token that says so of itself could be signed with it.
    pub(super) fn may_have_signed(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        self.algorithm == algorithm && (id.is_none() || self.id.is_none() || self.id.as_deref() == id)
    }

    /// Whether the signature is this key's.
    ///
    /// The provider is named, and not the process's default: that one panics in a program that links two.
    pub(super) fn has_signed(&self, message: &[u8], signature: &Vec<u8>) -> bool {
        (DEFAULT_PROVIDER.verifier_factory)(&self.algorithm, &self.key)
            .is_ok_and(|verifier| verifier.verify(message, signature).is_ok())
    }
}

fn rsa(der: &[u8]) -> Result<DecodingKey, JwtKeyError> {
    const LEAST: usize = 2048;
    let components = DEFAULT_PROVIDER.key_utils.rsa_pub_components_from_public_key;
    let (modulus, exponent) = components(der).map_err(|_| JwtKeyError::Mismatch)?;
    let leading_zeros = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    let bits = modulus.len() * 8 - leading_zeros;
    if bits < LEAST {
        return Err(JwtKeyError::ShortRsa { bits });
    }
    Ok(DecodingKey::from_rsa_raw_components(&modulus, &exponent))
}

/// Does not show the key.
impl fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtKey").field("algorithm", &self.algorithm).field("id", &self.id).finish_non_exhaustive()
    }
}

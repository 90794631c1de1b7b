//! JWT verification keys.

use std::fmt;

use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use thiserror::Error;

use super::pem::{self, PublicKey};

/// A verification key, bound to one algorithm.
#[derive(Clone)]
pub struct JwtKey {
    algorithm: Algorithm,
    key: DecodingKey,
    id: Option<String>,
}

/// Error of a key that cannot verify tokens.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JwtKeyError {
    /// The secret is short enough to guess.
    #[error("a secret of {found} bytes is too short: this algorithm needs at least {min} (RFC 7518)")]
    ShortSecret {
        /// Length in bytes.
        found: usize,
        /// Minimum length in bytes.
        min: usize,
    },
    /// A secret given for a public-key algorithm.
    #[error("this algorithm takes a public key, not a secret: use JwtKey::public_pem")]
    NotASecret,
    /// A public key given for an HMAC algorithm.
    #[error("this algorithm takes a secret, not a public key: use JwtKey::secret")]
    NotPublic,
    /// Not a public key in PEM form.
    #[error("not a public key: expected one PEM block that begins with -----BEGIN PUBLIC KEY-----")]
    NotPem,
    /// A public key of another type or curve, or a corrupt one.
    #[error("the public key does not match the algorithm: its type or curve differs, or it is corrupt")]
    Mismatch,
    /// An RSA key that is too short to be secure.
    #[error("an RSA key of {bits} bits is too short: use one of 2048 to 4096 bits")]
    ShortRsa {
        /// Length in bits.
        bits: usize,
    },
}

impl JwtKey {
    /// Creates a key from a shared secret, for `HS256`, `HS384` or `HS512`.
    pub fn secret(algorithm: Algorithm, secret: &[u8]) -> Result<Self, JwtKeyError> {
        let min_secret_bytes = match algorithm {
            Algorithm::HS256 => 32,
            Algorithm::HS384 => 48,
            Algorithm::HS512 => 64,
            _ => return Err(JwtKeyError::NotASecret),
        };
        if secret.len() < min_secret_bytes {
            return Err(JwtKeyError::ShortSecret { found: secret.len(), min: min_secret_bytes });
        }
        Ok(Self { algorithm, key: DecodingKey::from_secret(secret), id: None })
    }

    /// Creates a key from a public key in PEM form (`-----BEGIN PUBLIC KEY-----`), for all other algorithms.
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

    /// Restricts the key to tokens whose header names this `kid`, or none.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// True if a token with this header could be signed with this key.
    pub(super) fn accepts(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        self.algorithm == algorithm && (id.is_none() || self.id.is_none() || self.id.as_deref() == id)
    }

    /// True if the signature was made with this key.
    ///
    /// The crypto provider is passed explicitly: the process default panics in a program that links two.
    pub(super) fn verify_signature(&self, message: &[u8], signature: &Vec<u8>) -> bool {
        (DEFAULT_PROVIDER.verifier_factory)(&self.algorithm, &self.key)
            .is_ok_and(|verifier| verifier.verify(message, signature).is_ok())
    }
}

fn rsa(der: &[u8]) -> Result<DecodingKey, JwtKeyError> {
    const MIN_RSA_BITS: usize = 2048;
    let components = DEFAULT_PROVIDER.key_utils.rsa_pub_components_from_public_key;
    let (modulus, exponent) = components(der).map_err(|_| JwtKeyError::Mismatch)?;
    let leading_zeros = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    let bits = modulus.len() * 8 - leading_zeros;
    if bits < MIN_RSA_BITS {
        return Err(JwtKeyError::ShortRsa { bits });
    }
    Ok(DecodingKey::from_rsa_raw_components(&modulus, &exponent))
}

/// Omits the key material.
impl fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtKey").field("algorithm", &self.algorithm).field("id", &self.id).finish_non_exhaustive()
    }
}

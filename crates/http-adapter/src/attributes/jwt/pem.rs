//! Public keys in PEM form.

use spki::der::DecodePem;
use spki::{ObjectIdentifier, SubjectPublicKeyInfoOwned};

/// Key type, as declared in the PEM file.
pub(super) enum PublicKey {
    /// Modulus and exponent, in PKCS #1 form.
    Rsa(Vec<u8>),
    /// A point on the curve P-256.
    P256(Vec<u8>),
    /// A point on the curve P-384.
    P384(Vec<u8>),
    /// An Ed25519 public key.
    Ed25519([u8; 32]),
    /// A key type that no supported algorithm uses.
    Other,
}

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// Parses a `PUBLIC KEY` block; `None` if the text is not one.
pub(super) fn read(text: &str) -> Option<PublicKey> {
    let info = SubjectPublicKeyInfoOwned::from_pem(text.trim()).ok()?;
    let key = info.subject_public_key.as_bytes()?;
    let curve = || info.algorithm.parameters.as_ref().and_then(|parameters| parameters.decode_as().ok());
    Some(match info.algorithm.oid {
        RSA => PublicKey::Rsa(key.to_vec()),
        EC if curve() == Some(P256) => PublicKey::P256(key.to_vec()),
        EC if curve() == Some(P384) => PublicKey::P384(key.to_vec()),
        ED25519 => key.try_into().map_or(PublicKey::Other, PublicKey::Ed25519),
        _ => PublicKey::Other,
    })
}

//! Claims of verified JSON web tokens as attributes: `jwt.sub`, `jwt.tenant`.
//!
//! The token is read from `Authorization: Bearer`. A claim is an attribute only if the token is signed by a
//! configured key and is currently valid; any other token is treated as absent. Each key is bound to one
//! algorithm, so the algorithm in the token's header (`none`, or HMAC with a public key as the secret)
//! cannot be used to bypass verification.
//!
//! Strings, numbers and booleans are attributes; lists and objects are not.
//!
//! ```
//! use sluicegate_http_adapter::attributes::AttributeSources;
//! use sluicegate_http_adapter::attributes::jwt::{JwtAlgorithm, JwtKey, JwtVerifier};
//!
//! let verifier = JwtVerifier::builder()
//!     .key(JwtKey::secret(JwtAlgorithm::HS256, b"at least thirty-two bytes of secret")?.with_id("2026"))
//!     .issuer("https://login.example")
//!     .audience("shop")
//!     .build()?;
//! let sources = AttributeSources::builder().jwt(verifier).build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod claims;
mod key;
mod pem;
mod verifier;

pub use claims::JwtClaims;
pub use jsonwebtoken::Algorithm as JwtAlgorithm;
pub use key::{JwtKey, JwtKeyError};
pub use verifier::{JwtVerifier, JwtVerifierBuilder, NoKeys};

/// Prefix of claim attributes.
pub(super) const CLAIM_PREFIX: &str = "jwt.";

/// Authorization scheme of tokens.
pub(super) const AUTH_SCHEME: &str = "Bearer";

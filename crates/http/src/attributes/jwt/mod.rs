//! Claims of verified JSON web tokens as attributes: `jwt.sub`, `jwt.tenant`.
//!
//! The token is the one in `Authorization: Bearer`. A claim is an attribute only if the token is signed by
//! one of our keys and holds now; of any other token nothing is said, as if it had not been sent. Each key is
//! for one algorithm, so a token's own word about its algorithm (`none`, or HMAC with a public key for its
//! secret) gets it nowhere.
//!
//! Texts, numbers and truth values are attributes; lists and objects are not.
//!
//! ```
//! use sluicegate_http::attributes::AttributeSources;
//! use sluicegate_http::attributes::jwt::{JwtAlgorithm, JwtKey, JwtVerifier};
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

/// What the names of claims begin with.
pub(super) const PREFIX: &str = "jwt.";

/// How tokens are sent.
pub(super) const SCHEME: &str = "Bearer";

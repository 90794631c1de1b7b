//! The decision server: flow control for any proxy and any language.
//!
//! Three protocols, one set of rules: Envoy's rate limit service (`rls`), HTTP (`http`) and the Redis
//! protocol (`resp`). Each turns what came over the wire into a request of the engine and renders the
//! outcome; none of them decides anything by itself.

mod domains;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod lacking;
mod resp;
mod rls;
mod secret;
mod server;
mod speaking;

pub use domains::{Domains, DomainsInForce, take_up_domains};
pub use rls::LimitCounts;
pub use secret::{Secret, SecretError};
pub use server::{Running, Server, ServerError, Vitals};

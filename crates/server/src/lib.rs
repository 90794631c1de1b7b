//! The decision server: rate limiting for any proxy and any language.
//!
//! Three protocols share one set of rules. Each protocol turns a call into an engine request and renders the
//! outcome; none of them decides anything by itself.
//!
//! - `server`: opens sockets, starts worker threads, drains and stops ([`Server`], [`RunningServer`])
//! - `protocol`: dispatches connections to the protocol of their socket
//! - `rls`: Envoy's rate limit service over gRPC, and its JSON variant
//! - `http`: HTTP API with checks, reservations, permits and forward auth
//! - `resp`: Redis protocol with `CL.THROTTLE`, `THROTTLE` and `SLUICE.CHECK`
//! - `active_domains`: active envoyproxy/ratelimit configuration ([`ActiveDomains`])
//! - `missing_key`: finds key attributes missing from a request
//! - `error`: startup errors ([`ServerError`])
//! - `secret`: shared secret of the clients ([`Secret`])
//!
//! A connection is accepted in `server`, assigned to a protocol in `protocol` and served there until it closes.

mod active_domains;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod missing_key;
mod protocol;
mod resp;
mod rls;
mod secret;
mod server;

pub use active_domains::{ActiveDomains, Domains, apply_domains};
pub use error::ServerError;
pub use rls::LimitCounts;
pub use secret::{Secret, SecretError};
pub use server::{RunningServer, Server, ServerMonitor};

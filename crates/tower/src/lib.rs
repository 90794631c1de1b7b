//! Tower layers that enforce rate-limit rules on incoming and outgoing requests.
//!
//! | side | layer |
//! |---|---|
//! | incoming requests | [`LimitLayer`] |
//! | outgoing requests | [`client`], and for reqwest `reqwest_middleware` (feature `reqwest`) |
//!
//! Modules:
//!
//! - `incoming`: server-side layer: decides, queues, refuses, and holds permits until the response is sent.
//! - [`client`]: client-side limits: outbound rules, `Retry-After` and `RateLimit` headers, adaptive throttle.
//! - `reqwest_middleware`: the client side as `reqwest-middleware` middlewares.

pub mod client;
mod incoming;
#[cfg(feature = "reqwest")]
pub mod reqwest_middleware;

pub use incoming::{ActualCost, LimitBody, LimitFuture, LimitLayer, LimitLayerBuilder, LimitService};

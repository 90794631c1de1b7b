//! Client identity: resolves the client IP behind trusted proxies.
//!
//! Only the address of the TCP peer cannot be forged. A trusted proxy reports its client in a header, but any
//! client can send that header too. [`Forwarding`] defines the trusted proxies and the one header that is read:
//!
//! 1. The header is used only if the peer is a trusted proxy.
//! 2. Hops are walked from the right, the end that the nearest proxy wrote. Trusted addresses are skipped;
//!    the first untrusted one is the client. If all are trusted, the leftmost is.
//! 3. The walk ends at a hop that is not an address, such as `unknown`: the client is the proxy that reported
//!    it. Everything to its left is ignored.
//! 4. At most [`MAX_HOPS`] hops are evaluated.
//!
//! Anything a client sends is to the left of the entries of trusted proxies and is never reached.
//! IPv4-mapped IPv6 addresses are treated as IPv4 everywhere. Nothing here allocates.
//!
//! ```
//! use http::HeaderMap;
//! use sluicegate_http_adapter::identity::{Forwarding, TrustedProxies};
//!
//! let forwarding = Forwarding::from(TrustedProxies::parse(["10.0.0.0/8", "::1"])?);
//! let mut headers = HeaderMap::new();
//! headers.insert("x-forwarded-for", "192.0.2.66, 203.0.113.9, 10.0.0.2".parse()?);
//!
//! // The trusted proxies report 203.0.113.9; the entry to its left is client input.
//! assert_eq!(forwarding.client_ip([10, 0, 0, 1].into(), &headers).to_string(), "203.0.113.9");
//! // The header of an untrusted peer is ignored.
//! assert_eq!(forwarding.client_ip([198, 51, 100, 7].into(), &headers).to_string(), "198.51.100.7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod forwarded;
mod forwarding;
mod trusted_proxies;

pub use forwarding::{ForwardedHeader, Forwarding, MAX_HOPS};
pub use trusted_proxies::{TrustedProxies, TrustedProxyError};

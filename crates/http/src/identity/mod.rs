//! Who the client is.
//!
//! The one address nobody can forge is that of the TCP peer. If the peer is a proxy of our own, it tells us
//! in a header whom it speaks for. Anybody can send that header, so [`Forwarding`] says who is believed, and
//! which one header is read:
//!
//! 1. The header counts only if the peer is a trusted proxy.
//! 2. Its hops are walked from the right, where the nearest proxy wrote. Trusted addresses are passed over;
//!    the first one that is not trusted is the client. If all are, the leftmost is.
//! 3. At a hop that is no address, such as `unknown`, the walk ends: the client is the proxy that reported
//!    it. Nothing to the left of it is believed.
//! 4. At most [`MOST_HOPS`] hops are looked at.
//!
//! So whatever a client sends is to the left of what a trusted proxy wrote about it, and never reached. An
//! IPv4 address mapped into IPv6 is an IPv4 address everywhere. Nothing here allocates.
//!
//! ```
//! use http::HeaderMap;
//! use sluicegate_http::identity::{Forwarding, TrustedProxies};
//!
//! let forwarding = Forwarding::from(TrustedProxies::parse(["10.0.0.0/8", "::1"])?);
//! let mut headers = HeaderMap::new();
//! headers.insert("x-forwarded-for", "192.0.2.66, 203.0.113.9, 10.0.0.2".parse()?);
//!
//! // Our proxies speak for 203.0.113.9, which claimed to speak for somebody else.
//! assert_eq!(forwarding.client_ip([10, 0, 0, 1].into(), &headers).to_string(), "203.0.113.9");
//! // Anybody else speaks for itself.
//! assert_eq!(forwarding.client_ip([198, 51, 100, 7].into(), &headers).to_string(), "198.51.100.7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod elements;
mod forwarding;
mod trusted;

pub use forwarding::{ForwardedHeader, Forwarding, MOST_HOPS};
pub use trusted::{TrustedProxies, TrustedProxyError};

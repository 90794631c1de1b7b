//! Client IP resolution from forwarded headers.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName, HeaderValue};

use super::TrustedProxies;
use super::address::{self, Brackets};
use super::forwarded::{self, ForwardedElements};

/// Maximum number of hops that are evaluated; no real proxy chain is longer.
pub const MAX_HOPS: usize = 64;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The header that trusted proxies use to report the client. All others are ignored: an attacker could add
/// one that the proxy does not overwrite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// No header is read: the client is the peer.
    Ignored,
    /// `X-Forwarded-For`: each proxy appends the address of its peer.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239): `for=192.0.2.1;proto=https, for="[2001:db8::1]:80"`.
    Forwarded,
    /// A header with a single address, such as `X-Real-IP`. Ignored if it is repeated.
    Single(HeaderName),
}

/// Trusted proxies and the header they report the client in. By default no proxy is trusted and the client
/// is the peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    trusted: TrustedProxies,
    header: ForwardedHeader,
}

/// Trusts these proxies to append to `X-Forwarded-For`.
impl From<TrustedProxies> for Forwarding {
    fn from(trusted: TrustedProxies) -> Self {
        Self { trusted, header: ForwardedHeader::XForwardedFor }
    }
}

impl Forwarding {
    /// Sets the only header that is read.
    #[must_use]
    pub fn with_header(self, header: ForwardedHeader) -> Self {
        Self { header, ..self }
    }

    /// The trusted proxies.
    pub fn trusted(&self) -> &TrustedProxies {
        &self.trusted
    }

    /// The header that is read.
    pub fn header(&self) -> &ForwardedHeader {
        &self.header
    }

    /// Returns the client's address, as described in the [module](super). Never an IPv4-mapped IPv6 address.
    #[inline]
    pub fn client_ip(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if self.trusted.is_empty() || !self.trusted.contains(peer) {
            return peer;
        }
        self.forwarded_client(peer, headers)
    }

    /// Resolves the client behind a trusted peer.
    fn forwarded_client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let lines = |name: &HeaderName| headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
        match &self.header {
            ForwardedHeader::Ignored => peer,
            ForwardedHeader::XForwardedFor => {
                let hops = lines(&X_FORWARDED_FOR).rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
                self.walk_hops(peer, hops.map(|hop| address::parse(hop, Brackets::Optional)))
            }
            ForwardedHeader::Forwarded => {
                let hops = lines(&FORWARDED).rev().flat_map(ForwardedElements::of);
                self.walk_hops(peer, hops.map(forwarded::for_address))
            }
            ForwardedHeader::Single(name) => {
                let mut lines = lines(name);
                match (lines.next(), lines.next()) {
                    (Some(line), None) => address::parse(line, Brackets::Optional).unwrap_or(peer),
                    _ => peer,
                }
            }
        }
    }

    /// Walks the hops, nearest first, while each is reported by a trusted proxy.
    fn walk_hops(&self, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut client = peer;
        for hop in hops.take(MAX_HOPS) {
            let Some(address) = hop else { break };
            client = address;
            if !self.trusted.contains(address) {
                break;
            }
        }
        client
    }
}

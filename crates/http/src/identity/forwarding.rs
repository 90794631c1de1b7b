//! From the peer to the client.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName, HeaderValue};

use super::TrustedProxies;
use super::address::{self, Brackets};
use super::elements::{self, Elements};

/// The most hops that are looked at: a longer chain of trusted proxies is no chain of proxies.
pub const MOST_HOPS: usize = 64;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The one header that says whom a proxy speaks for. The others are never read: an attacker adds the one
/// that our proxy does not overwrite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// None: the client is the peer.
    Nothing,
    /// `X-Forwarded-For`: a list to which each proxy appends the address it was called from.
    #[default]
    XForwardedFor,
    /// `Forwarded`, the same as RFC 7239 has it: `for=192.0.2.1;proto=https, for="[2001:db8::1]:80"`.
    Forwarded,
    /// A header of this name with a single address, such as `X-Real-IP`. If there are several of it, none
    /// counts.
    Single(HeaderName),
}

/// Which proxies are trusted, and in which header they say who the client is. By default nobody is trusted,
/// and the client is the peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    trusted: TrustedProxies,
    header: ForwardedHeader,
}

/// Trusts these to append to `X-Forwarded-For`.
impl From<TrustedProxies> for Forwarding {
    fn from(trusted: TrustedProxies) -> Self {
        Self { trusted, header: ForwardedHeader::XForwardedFor }
    }
}

impl Forwarding {
    /// Reads this header, and no other.
    #[must_use]
    pub fn with_header(self, header: ForwardedHeader) -> Self {
        Self { header, ..self }
    }

    /// Who is trusted.
    pub fn trusted(&self) -> &TrustedProxies {
        &self.trusted
    }

    /// What is read.
    pub fn header(&self) -> &ForwardedHeader {
        &self.header
    }

    /// The client's address, as the [module](super) says. Never an IPv4 address mapped into IPv6.
    #[inline]
    pub fn client_ip(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if self.trusted.is_empty() || !self.trusted.contains(peer) {
            return peer;
        }
        self.client_behind(peer, headers)
    }

    /// Whom a trusted peer speaks for.
    fn client_behind(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let lines = |name: &HeaderName| headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
        match &self.header {
            ForwardedHeader::Nothing => peer,
            ForwardedHeader::XForwardedFor => {
                let hops = lines(&X_FORWARDED_FOR).rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
                self.walk(peer, hops.map(|hop| address::parse(hop, Brackets::Optional)))
            }
            ForwardedHeader::Forwarded => {
                let hops = lines(&FORWARDED).rev().flat_map(Elements::of);
                self.walk(peer, hops.map(elements::client_of))
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

    /// Follows the hops, nearest first, as far as they are vouched for.
    fn walk(&self, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut client = peer;
        for hop in hops.take(MOST_HOPS) {
            let Some(address) = hop else { break };
            client = address;
            if !self.trusted.contains(address) {
                break;
            }
        }
        client
    }
}

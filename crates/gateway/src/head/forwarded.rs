//! Client origin of a connection, and the forwarded headers sent to upstreams.
//!
//! `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are rewritten. Values from a trusted proxy are
//! kept and extended; values from any other peer are dropped, together with `Forwarded`, `X-Real-IP` and every
//! other header that starts with `X-Forwarded-`. An upstream can therefore trust these headers.

use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};
use http::Version;
use http::header::{HeaderMap, HeaderName, HeaderValue, VIA};
use sluicegate_http_adapter::identity::{ForwardedHeader, Forwarding};
use smallvec::SmallVec;

use super::HeaderScan;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The peer of a client connection.
#[derive(Debug)]
pub(crate) struct ClientOrigin {
    pub(crate) address: IpAddr,
    /// Set if the peer is a trusted proxy.
    trusted: bool,
    /// The forwarded headers for upstreams, as raw header lines.
    raw_headers: Bytes,
    /// End offset of the address in the raw lines.
    address_end: usize,
    tls: bool,
}

/// Text before the address in the raw lines.
const ADDRESS_PREFIX: &str = "x-forwarded-for: ";

impl ClientOrigin {
    pub(crate) fn new(peer: SocketAddr, forwarding: &Forwarding, tls: bool) -> Self {
        let address = peer.ip().to_canonical();
        let scheme = scheme(tls);
        let mut raw_headers = format!("{ADDRESS_PREFIX}{address}");
        let address_end = raw_headers.len();
        raw_headers.extend(["\r\nx-forwarded-proto: ", scheme, "\r\nvia: ", via(Version::HTTP_11), "\r\n"]);
        Self {
            address,
            trusted: forwarding.trusted().contains(address),
            raw_headers: raw_headers.into(),
            address_end,
            tls,
        }
    }

    /// The address as a header value.
    fn address_value(&self) -> HeaderValue {
        let address = self.raw_headers.slice(ADDRESS_PREFIX.len()..self.address_end);
        HeaderValue::from_maybe_shared(address).unwrap_or(HeaderValue::from_static("unknown"))
    }

    /// True if the peer is a trusted proxy.
    pub(crate) const fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// True if the connection uses TLS.
    pub(crate) const fn is_encrypted(&self) -> bool {
        self.tls
    }

    /// The client's IP address.
    pub(crate) fn client_ip(&self, forwarding: &Forwarding, headers: &HeaderMap) -> IpAddr {
        if self.trusted { forwarding.client_ip(self.address, headers) } else { self.address }
    }

    /// Removes the configured client-IP header, unless the peer is a trusted proxy: upstreams may trust that header
    /// too.
    pub(crate) fn strip_client_ip_header(&self, forwarding: &Forwarding, headers: &mut HeaderMap) {
        if let (false, ForwardedHeader::Single(name)) = (self.trusted, forwarding.header()) {
            headers.remove(name);
        }
    }

    /// Adds the forwarded headers. Returns raw lines that are the same for all requests of the connection, if
    /// possible; otherwise changes `headers` and returns nothing.
    pub(crate) fn write_forwarded_raw(
        &self,
        version: Version,
        headers: &mut HeaderMap,
        host: Option<HeaderValue>,
        scan: HeaderScan,
    ) -> Bytes {
        if self.trusted || host.is_some() || scan.untrusted_forwarded || scan.rewritten || version == Version::HTTP_2 {
            self.write_forwarded(version, headers, host, scan);
            return Bytes::new();
        }
        self.raw_headers.clone()
    }

    /// Adds the forwarded headers to `headers`. `host` is the requested host, if the upstream is sent another one.
    pub(crate) fn write_forwarded(
        &self,
        version: Version,
        headers: &mut HeaderMap,
        host: Option<HeaderValue>,
        scan: HeaderScan,
    ) {
        if self.trusted {
            let value = match headers.get(&X_FORWARDED_FOR) {
                Some(_) => self.append_address(headers),
                None => self.address_value(),
            };
            headers.insert(&X_FORWARDED_FOR, value);
            headers.entry(&X_FORWARDED_PROTO).or_insert_with(|| HeaderValue::from_static(scheme(self.tls)));
            if let Some(host) = host {
                headers.entry(&X_FORWARDED_HOST).or_insert(host);
            }
        } else {
            if scan.untrusted_forwarded {
                let untrusted: SmallVec<[HeaderName; 4]> =
                    headers.keys().filter(|name| is_untrusted_forwarded(name)).cloned().collect();
                for name in untrusted {
                    headers.remove(name);
                }
            }
            headers.insert(&X_FORWARDED_FOR, self.address_value());
            headers.insert(&X_FORWARDED_PROTO, HeaderValue::from_static(scheme(self.tls)));
            if let Some(host) = host {
                headers.insert(&X_FORWARDED_HOST, host);
            }
        }
        headers.append(VIA, HeaderValue::from_static(via(version)));
    }

    /// Joins the received `X-Forwarded-For` values and appends this address.
    fn append_address(&self, headers: &HeaderMap) -> HeaderValue {
        let mut line = BytesMut::new();
        for value in headers.get_all(&X_FORWARDED_FOR) {
            line.extend_from_slice(value.as_bytes());
            line.extend_from_slice(b", ");
        }
        line.extend_from_slice(self.address_value().as_bytes());
        HeaderValue::from_maybe_shared(line.freeze()).unwrap_or_else(|_| self.address_value())
    }
}

const fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

/// The `Via` value for the client's HTTP version.
fn via(version: Version) -> &'static str {
    if version == Version::HTTP_2 { "2 sluicegate" } else { "1.1 sluicegate" }
}

/// True if only a proxy may set this header and it is not [rewritten](is_rewritten) anyway. Some servers treat
/// `_` like `-`, so such spellings match too.
pub(super) fn is_untrusted_forwarded(name: &HeaderName) -> bool {
    let text = name.as_str();
    if !text.starts_with(['x', 'f']) || is_rewritten(name) {
        return false;
    }
    let starts_with = |known: &str| {
        let is_equivalent = |(byte, known): (u8, u8)| byte == known || (byte == b'_' && known == b'-');
        text.len() >= known.len() && text.bytes().zip(known.bytes()).all(is_equivalent)
    };
    let is = |known: &str| text.len() == known.len() && starts_with(known);
    starts_with("x-forwarded-") || is("x-real-ip") || is("forwarded")
}

/// True if the gateway always writes this header itself.
pub(super) fn is_rewritten(name: &HeaderName) -> bool {
    *name == X_FORWARDED_FOR || *name == X_FORWARDED_PROTO
}

#[cfg(test)]
mod tests {
    use sluicegate_http_adapter::identity::TrustedProxies;

    use super::*;
    use crate::head::HeaderScan;

    fn forwarded_headers(
        peer: [u8; 4],
        lines: &[(&'static str, &'static str)],
        host: Option<&'static str>,
    ) -> Vec<(String, String)> {
        let forwarding = Forwarding::from(TrustedProxies::parse(["10.0.0.0/8"]).unwrap());
        let origin = ClientOrigin::new((peer, 4000).into(), &forwarding, true);
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let scan = HeaderScan::of(&headers);
        let raw_headers =
            origin.write_forwarded_raw(Version::HTTP_11, &mut headers, host.map(HeaderValue::from_static), scan);
        for line in std::str::from_utf8(&raw_headers).unwrap().lines() {
            let (name, value) = line.split_once(": ").unwrap();
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let mut forwarded: Vec<_> = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        forwarded.sort();
        forwarded
    }

    fn owned_headers(lines: &[(&str, &str)]) -> Vec<(String, String)> {
        lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const RECEIVED: [(&str, &str); 10] = [
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-for", "192.0.2.2"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "evil"),
        ("forwarded", "for=192.0.2.1"),
        ("x-real-ip", "192.0.2.1"),
        ("x-forwarded-port", "1"),
        ("x-forwarded-prefix", "/evil"),
        ("x_forwarded_for", "192.0.2.3"),
        ("x-real_ip", "192.0.2.3"),
    ];

    #[test]
    fn untrusted_forwarded_headers_are_replaced() {
        let expected = owned_headers(&[
            ("via", "1.1 sluicegate"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "shop"),
            ("x-forwarded-proto", "https"),
        ]);
        assert_eq!(forwarded_headers([203, 0, 113, 9], &RECEIVED, Some("shop")), expected);
        assert_eq!(forwarded_headers([203, 0, 113, 9], &[], Some("shop")), expected);
        let [_, .., proto] = &expected[..] else { panic!("there are forwarded headers") };
        let without_host = [&expected[0], &expected[1], proto].map(Clone::clone);
        for received in [&RECEIVED[..], &RECEIVED[..2], &RECEIVED[2..3], &[]] {
            assert_eq!(forwarded_headers([203, 0, 113, 9], received, None), without_host);
        }
    }

    #[test]
    fn trusted_forwarded_headers_are_extended() {
        let expected = owned_headers(&[
            ("forwarded", "for=192.0.2.1"),
            ("via", "1.1 sluicegate"),
            ("x-forwarded-for", "192.0.2.1, 192.0.2.2, 10.0.0.1"),
            ("x-forwarded-host", "evil"),
            ("x-forwarded-port", "1"),
            ("x-forwarded-prefix", "/evil"),
            ("x-forwarded-proto", "http"),
            ("x-real-ip", "192.0.2.1"),
            ("x-real_ip", "192.0.2.3"),
            ("x_forwarded_for", "192.0.2.3"),
        ]);
        assert_eq!(forwarded_headers([10, 0, 0, 1], &RECEIVED, Some("shop")), expected);
        let first = owned_headers(&[
            ("via", "1.1 sluicegate"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "https"),
        ]);
        assert_eq!(forwarded_headers([10, 0, 0, 1], &[], None), first);
    }
}

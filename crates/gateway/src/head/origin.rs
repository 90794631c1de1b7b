//! Who a connection is from, and what upstreams are told of it.
//!
//! `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are made anew. What a trusted proxy said
//! in them is kept and added to; what anybody else said is dropped, and so are `Forwarded`, `X-Real-IP` and all
//! else that begins with `X-Forwarded-`:
//! a program behind the gateway may believe what it reads there.

use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};
use http::Version;
use http::header::{HeaderMap, HeaderName, HeaderValue, VIA};
use sluicegate_http::identity::{ForwardedHeader, Forwarding};
use smallvec::SmallVec;

use super::Survey;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The other end of a connection.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) address: IpAddr,
    /// Whether its word about clients counts.
    trusted: bool,
    /// What upstreams are told of it, as lines of a head.
    lines: Bytes,
    /// Where among them the address ends.
    address_ends: usize,
    tls: bool,
}

/// What stands before the address in the lines.
const BEFORE_ADDRESS: &str = "x-forwarded-for: ";

impl Origin {
    pub(crate) fn new(peer: SocketAddr, forwarding: &Forwarding, tls: bool) -> Self {
        let address = peer.ip().to_canonical();
        let scheme = scheme(tls);
        let mut lines = format!("{BEFORE_ADDRESS}{address}");
        let address_ends = lines.len();
        lines.extend(["\r\nx-forwarded-proto: ", scheme, "\r\nvia: ", via(Version::HTTP_11), "\r\n"]);
        Self { address, trusted: forwarding.trusted().contains(address), lines: lines.into(), address_ends, tls }
    }

    /// The address as upstreams are told.
    fn told(&self) -> HeaderValue {
        let address = self.lines.slice(BEFORE_ADDRESS.len()..self.address_ends);
        HeaderValue::from_maybe_shared(address).unwrap_or(HeaderValue::from_static("unknown"))
    }

    /// Whether its word about requests counts.
    pub(crate) const fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Whether it is encrypted.
    pub(crate) const fn is_encrypted(&self) -> bool {
        self.tls
    }

    /// Who the client is.
    pub(crate) fn client(&self, forwarding: &Forwarding, headers: &HeaderMap) -> IpAddr {
        if self.trusted { forwarding.client_ip(self.address, headers) } else { self.address }
    }

    /// Takes off a head the header of this gateway's own in which proxies tell who the client is, unless one does: whoever
    /// is behind may believe it, too.
    pub(crate) fn silence(&self, forwarding: &Forwarding, headers: &mut HeaderMap) {
        if let (false, ForwardedHeader::Single(name)) = (self.trusted, forwarding.header()) {
            headers.remove(name);
        }
    }

    /// Says where a request comes from, as far as that can be done in lines that are the same for all requests of the
    /// connection: they are the answer. The rest is said in the request's head.
    pub(crate) fn tell_in_lines(
        &self,
        version: Version,
        headers: &mut HeaderMap,
        host: Option<HeaderValue>,
        survey: Survey,
    ) -> Bytes {
        if self.trusted || host.is_some() || survey.hearsay || survey.retold || version == Version::HTTP_2 {
            self.tell(version, headers, host, survey);
            return Bytes::new();
        }
        self.lines.clone()
    }

    /// Says in a request's head where it comes from. `host` is what the client asked for, if the upstream is
    /// sent another.
    pub(crate) fn tell(&self, version: Version, headers: &mut HeaderMap, host: Option<HeaderValue>, survey: Survey) {
        if self.trusted {
            let told = match headers.get(&X_FORWARDED_FOR) {
                Some(_) => self.appended(headers),
                None => self.told(),
            };
            headers.insert(&X_FORWARDED_FOR, told);
            headers.entry(&X_FORWARDED_PROTO).or_insert_with(|| HeaderValue::from_static(scheme(self.tls)));
            if let Some(host) = host {
                headers.entry(&X_FORWARDED_HOST).or_insert(host);
            }
        } else {
            if survey.hearsay {
                let said: SmallVec<[HeaderName; 4]> = headers.keys().filter(|name| is_hearsay(name)).cloned().collect();
                for name in said {
                    headers.remove(name);
                }
            }
            headers.insert(&X_FORWARDED_FOR, self.told());
            headers.insert(&X_FORWARDED_PROTO, HeaderValue::from_static(scheme(self.tls)));
            if let Some(host) = host {
                headers.insert(&X_FORWARDED_HOST, host);
            }
        }
        headers.append(VIA, HeaderValue::from_static(via(version)));
    }

    /// What was said so far, all of it in one line, and this address.
    fn appended(&self, headers: &HeaderMap) -> HeaderValue {
        let mut line = BytesMut::new();
        for value in headers.get_all(&X_FORWARDED_FOR) {
            line.extend_from_slice(value.as_bytes());
            line.extend_from_slice(b", ");
        }
        line.extend_from_slice(self.told().as_bytes());
        HeaderValue::from_maybe_shared(line.freeze()).unwrap_or_else(|_| self.told())
    }
}

const fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

/// How the client spoke to us, and who we are.
fn via(version: Version) -> &'static str {
    if version == Version::HTTP_2 { "2 sluicegate" } else { "1.1 sluicegate" }
}

/// Whether a header says what only a proxy may say, and is not [retold](is_retold). Some programs take `_` for `-`: what
/// they would mistake for it is hearsay, too.
pub(super) fn is_hearsay(name: &HeaderName) -> bool {
    let text = name.as_str();
    if !text.starts_with(['x', 'f']) || is_retold(name) {
        return false;
    }
    let begins = |known: &str| {
        let alike = |(byte, known): (u8, u8)| byte == known || (byte == b'_' && known == b'-');
        text.len() >= known.len() && text.bytes().zip(known.bytes()).all(alike)
    };
    let is = |known: &str| text.len() == known.len() && begins(known);
    begins("x-forwarded-") || is("x-real-ip") || is("forwarded")
}

/// Whether a header says what is made anew in any case.
pub(super) fn is_retold(name: &HeaderName) -> bool {
    *name == X_FORWARDED_FOR || *name == X_FORWARDED_PROTO
}

#[cfg(test)]
mod tests {
    use sluicegate_http::identity::TrustedProxies;

    use super::*;
    use crate::head::Survey;

    fn told(
        peer: [u8; 4],
        lines: &[(&'static str, &'static str)],
        host: Option<&'static str>,
    ) -> Vec<(String, String)> {
        let forwarding = Forwarding::from(TrustedProxies::parse(["10.0.0.0/8"]).unwrap());
        let origin = Origin::new((peer, 4000).into(), &forwarding, true);
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let survey = Survey::of(&headers);
        let lines = origin.tell_in_lines(Version::HTTP_11, &mut headers, host.map(HeaderValue::from_static), survey);
        for line in std::str::from_utf8(&lines).unwrap().lines() {
            let (name, value) = line.split_once(": ").unwrap();
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let mut told: Vec<_> = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        told.sort();
        told
    }

    fn lines(lines: &[(&str, &str)]) -> Vec<(String, String)> {
        lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const SAID: [(&str, &str); 10] = [
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
    fn anybody_is_told_of_by_its_address_alone() {
        let expected = lines(&[
            ("via", "1.1 sluicegate"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "shop"),
            ("x-forwarded-proto", "https"),
        ]);
        assert_eq!(told([203, 0, 113, 9], &SAID, Some("shop")), expected);
        assert_eq!(told([203, 0, 113, 9], &[], Some("shop")), expected);
        let [_, .., proto] = &expected[..] else { panic!("there are some") };
        let in_lines = [&expected[0], &expected[1], proto].map(Clone::clone);
        for said in [&SAID[..], &SAID[..2], &SAID[2..3], &[]] {
            assert_eq!(told([203, 0, 113, 9], said, None), in_lines);
        }
    }

    #[test]
    fn a_trusted_proxy_is_believed_and_added_to() {
        let expected = lines(&[
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
        assert_eq!(told([10, 0, 0, 1], &SAID, Some("shop")), expected);
        let first =
            lines(&[("via", "1.1 sluicegate"), ("x-forwarded-for", "10.0.0.1"), ("x-forwarded-proto", "https")]);
        assert_eq!(told([10, 0, 0, 1], &[], None), first);
    }
}

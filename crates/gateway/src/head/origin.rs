//! Who a connection is from, and what upstreams are told of it.
//!
//! `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are made anew. What a trusted proxy said
//! in them is kept and added to; what anybody else said is dropped, and so are `Forwarded`, `X-Real-IP` and all
//! else that begins with `X-Forwarded-`:
//! a program behind the gateway may believe what it reads there.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use http::Version;
use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue, VIA};
use sluicegate_http::identity::Forwarding;
use smallvec::SmallVec;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The other end of a connection.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) address: IpAddr,
    /// Whether its word about clients counts.
    trusted: bool,
    /// The address as upstreams are told.
    told: HeaderValue,
    tls: bool,
}

impl Origin {
    pub(crate) fn new(peer: SocketAddr, forwarding: &Forwarding, tls: bool) -> Self {
        let address = peer.ip().to_canonical();
        let told = HeaderValue::try_from(address.to_string()).unwrap_or(HeaderValue::from_static("unknown"));
        Self { address, trusted: forwarding.trusted().contains(address), told, tls }
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

    /// Says in a request's head where it comes from. `host` is what the client asked for, if the upstream is
    /// sent another; `hearsay` whether the head says something of it already.
    pub(crate) fn tell(&self, version: Version, headers: &mut HeaderMap, host: Option<HeaderValue>, hearsay: bool) {
        if self.trusted {
            let told = match headers.get(&X_FORWARDED_FOR) {
                Some(_) => self.appended(headers),
                None => self.told.clone(),
            };
            headers.insert(&X_FORWARDED_FOR, told);
            headers.entry(&X_FORWARDED_PROTO).or_insert_with(|| self.scheme());
            if let Some(host) = host {
                headers.entry(&X_FORWARDED_HOST).or_insert(host);
            }
        } else {
            if hearsay {
                let said: SmallVec<[HeaderName; 4]> = headers.keys().filter(|name| is_hearsay(name)).cloned().collect();
                for name in said {
                    headers.remove(name);
                }
            }
            headers.insert(&X_FORWARDED_FOR, self.told.clone());
            headers.insert(&X_FORWARDED_PROTO, self.scheme());
            if let Some(host) = host {
                headers.insert(&X_FORWARDED_HOST, host);
            }
        }
        headers.append(
            VIA,
            HeaderValue::from_static(if version == Version::HTTP_2 { "2 sluicegate" } else { "1.1 sluicegate" }),
        );
    }

    const fn scheme(&self) -> HeaderValue {
        HeaderValue::from_static(if self.tls { "https" } else { "http" })
    }

    /// What was said so far, all of it in one line, and this address.
    fn appended(&self, headers: &HeaderMap) -> HeaderValue {
        let mut line = BytesMut::new();
        for value in headers.get_all(&X_FORWARDED_FOR) {
            line.extend_from_slice(value.as_bytes());
            line.extend_from_slice(b", ");
        }
        line.extend_from_slice(self.told.as_bytes());
        HeaderValue::from_maybe_shared(line.freeze()).unwrap_or_else(|_| self.told.clone())
    }
}

/// Whether a header says what only a proxy may say. Two of them are made anew in any case.
pub(super) fn is_hearsay(name: &HeaderName) -> bool {
    let is_made_anew = || *name == X_FORWARDED_FOR || *name == X_FORWARDED_PROTO;
    *name == FORWARDED || *name == X_REAL_IP || (name.as_str().starts_with("x-forwarded-") && !is_made_anew())
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
        let hearsay = Survey::of(&headers).hearsay;
        origin.tell(Version::HTTP_11, &mut headers, host.map(HeaderValue::from_static), hearsay);
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let mut told: Vec<_> = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        told.sort();
        told
    }

    fn lines(lines: &[(&str, &str)]) -> Vec<(String, String)> {
        lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const SAID: [(&str, &str); 8] = [
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-for", "192.0.2.2"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "evil"),
        ("forwarded", "for=192.0.2.1"),
        ("x-real-ip", "192.0.2.1"),
        ("x-forwarded-port", "1"),
        ("x-forwarded-prefix", "/evil"),
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
        ]);
        assert_eq!(told([10, 0, 0, 1], &SAID, Some("shop")), expected);
        let first =
            lines(&[("via", "1.1 sluicegate"), ("x-forwarded-for", "10.0.0.1"), ("x-forwarded-proto", "https")]);
        assert_eq!(told([10, 0, 0, 1], &[], None), first);
    }
}

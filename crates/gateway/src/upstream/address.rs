//! Server URLs.

use std::net::{IpAddr, Ipv6Addr};

use http::{HeaderValue, Uri};

/// Parsed base URL of a server.
#[derive(Debug)]
pub(super) struct ServerAddress {
    /// The URL as written.
    pub(super) url: String,
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: bool,
    /// The authority as a `Host` value, without the default port.
    pub(super) authority: HeaderValue,
    /// Empty, or a path with a leading slash and without a trailing one.
    pub(super) base_path: String,
}

impl ServerAddress {
    /// Parses a base URL. The error describes the problem.
    pub(super) fn parse(url: &str) -> Result<Self, &'static str> {
        // The URI parser drops fragments.
        if url.contains(['?', '#']) {
            return Err("must not have a query");
        }
        let uri: Uri = url.parse().map_err(|_| "is not a valid URL")?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("does not start with http:// or https://"),
        };
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("must not contain credentials");
        }
        let host = authority.host();
        if host.is_empty() {
            return Err("has no host");
        }
        let default_port = if tls { 443 } else { 80 };
        let port = match authority.as_str()[host.len()..].strip_prefix(':') {
            None => default_port,
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or("has a port outside 1 to 65535")?,
        };
        let authority_text = if port == default_port { host.to_owned() } else { format!("{host}:{port}") };
        Ok(Self {
            url: url.to_owned(),
            host: without_brackets(host)?.to_owned(),
            port,
            tls,
            authority: HeaderValue::from_str(&authority_text).map_err(|_| "has an invalid host")?,
            base_path: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// The IP address, if the host is one.
    pub(super) fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

fn without_brackets(host: &str) -> Result<&str, &'static str> {
    let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else { return Ok(host) };
    match inner.parse::<Ipv6Addr>() {
        Ok(_) => Ok(inner),
        Err(_) => Err("has brackets around an invalid IPv6 address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (String, u16, bool, String, String) {
        let it = ServerAddress::parse(url).unwrap();
        (it.host, it.port, it.tls, it.authority.to_str().unwrap().to_owned(), it.base_path)
    }

    fn expected(host: &str, port: u16, tls: bool, authority: &str, base: &str) -> (String, u16, bool, String, String) {
        (host.to_owned(), port, tls, authority.to_owned(), base.to_owned())
    }

    #[test]
    fn parts_of_a_url() {
        assert_eq!(parts("http://127.0.0.1:9001"), expected("127.0.0.1", 9001, false, "127.0.0.1:9001", ""));
        assert_eq!(parts("http://shop/"), expected("shop", 80, false, "shop", ""));
        assert_eq!(parts("http://shop:80"), expected("shop", 80, false, "shop", ""));
        assert_eq!(parts("http://shop:443"), expected("shop", 443, false, "shop:443", ""));
        assert_eq!(parts("https://shop:443/a/b/"), expected("shop", 443, true, "shop", "/a/b"));
        assert_eq!(parts("https://[::1]:8443/a"), expected("::1", 8443, true, "[::1]:8443", "/a"));
        assert_eq!(parts("http://[::1]"), expected("::1", 80, false, "[::1]", ""));
    }

    #[test]
    fn invalid_urls_are_rejected() {
        for invalid in [
            "",
            "/",
            "shop",
            "shop:80",
            "ftp://shop",
            "http://",
            "http:///a",
            "http://u:p@shop",
            "http://shop:0",
            "http://shop:65536",
            "http://shop:",
            "http://shop:x",
            "http://shop/?a=1",
            "http://shop/#a",
            "http://[::1",
            "http://[shop]",
            "http://a b",
            "http://\u{e9}\u{e9}",
        ] {
            assert!(ServerAddress::parse(invalid).is_err(), "{invalid}");
        }
    }
}

//! A server's URL, taken apart.

use std::net::{IpAddr, Ipv6Addr};

use http::{HeaderValue, Uri};

/// Where a server is, and what requests to it begin with.
#[derive(Debug)]
pub(super) struct Address {
    /// As it is written.
    pub(super) url: String,
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: bool,
    /// The authority as a `Host`, without the port that goes without saying.
    pub(super) authority: HeaderValue,
    /// Empty, or `/` and more, without a slash at its end.
    pub(super) base_path: String,
}

impl Address {
    /// Reads a base URL. The error says what is wrong with it.
    pub(super) fn parse(url: &str) -> Result<Self, &'static str> {
        // A fragment is not part of what the parser below keeps.
        if url.contains(['?', '#']) {
            return Err("has a query, which a base URL cannot have");
        }
        let uri: Uri = url.parse().map_err(|_| "is no URL")?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("does not begin with http:// or https://"),
        };
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("has a login, which has no place here");
        }
        let host = authority.host();
        if host.is_empty() {
            return Err("has no host");
        }
        let usual = if tls { 443 } else { 80 };
        let port = match authority.as_str()[host.len()..].strip_prefix(':') {
            None => usual,
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or("has a port that is not 1 to 65535")?,
        };
        let shown = if port == usual { host.to_owned() } else { format!("{host}:{port}") };
        Ok(Self {
            url: url.to_owned(),
            host: without_brackets(host)?.to_owned(),
            port,
            tls,
            authority: HeaderValue::from_str(&shown).map_err(|_| "has a host that cannot be sent")?,
            base_path: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// The address, if the URL has one instead of a name.
    pub(super) fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

fn without_brackets(host: &str) -> Result<&str, &'static str> {
    let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else { return Ok(host) };
    match inner.parse::<Ipv6Addr>() {
        Ok(_) => Ok(inner),
        Err(_) => Err("has brackets around what is no IPv6 address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (String, u16, bool, String, String) {
        let it = Address::parse(url).unwrap();
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
    fn what_leads_nowhere_is_refused() {
        for bad in [
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
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }
}

//! Server addresses.

use std::fmt;

/// A server's host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    pub(crate) fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Parses `host:port` or `[v6]:port`. A server that does not know its own host leaves it empty and means
    /// the address it was queried at.
    pub(crate) fn parse(text: &str, source_host: Option<&str>) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = if host.is_empty() { source_host? } else { host };
        Some(Self::new(host, port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in ["redis.internal:6379", "127.0.0.1:1", "[::1]:65535"] {
            assert_eq!(Address::parse(text, None).map(|address| address.to_string()).as_deref(), Some(text));
        }
        assert_eq!(Address::parse("::1:7000", None), Some(Address::new("::1", 7000)));
        assert_eq!(Address::parse(":7000", Some("10.0.0.1")), Some(Address::new("10.0.0.1", 7000)));
        for text in ["", "redis", "redis:", "redis:port", "redis:65536", ":7000"] {
            assert_eq!(Address::parse(text, None), None, "{text}");
        }
    }
}

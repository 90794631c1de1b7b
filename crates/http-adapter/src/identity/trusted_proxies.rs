//! Set of trusted proxy networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use thiserror::Error;

/// Networks of trusted proxies. Empty by default.
///
/// ```
/// use sluicegate_http_adapter::identity::TrustedProxies;
///
/// let proxies = TrustedProxies::parse(["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"])?.and(TrustedProxies::loopback());
/// assert!(proxies.contains([127, 0, 0, 1].into()));
/// assert!(!proxies.contains([192, 0, 2, 2].into()));
///
/// let error = TrustedProxies::parse(["10.0.0.0/33"]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "'10.0.0.0/33' is not a network: write an address such as 192.0.2.1, or a network such as 10.0.0.0/8",
/// );
/// # Ok::<(), sluicegate_http_adapter::identity::TrustedProxyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    /// Sorted and disjoint.
    v4: Box<[Ipv4Net]>,
    v6: Box<[Ipv6Net]>,
}

/// An entry that is not a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{entry}' is not a network: write an address such as 192.0.2.1, or a network such as 10.0.0.0/8")]
pub struct TrustedProxyError {
    /// The entry, in printable form.
    pub entry: String,
}

impl TrustedProxies {
    /// Trusts no proxy: forwarded headers are ignored.
    pub fn none() -> Self {
        Self::default()
    }

    /// The loopback networks: `127.0.0.0/8` and `::1`.
    pub fn loopback() -> Self {
        Self::from_iter([v4([127, 0, 0, 0], 8), v6(1, 128)])
    }

    /// The loopback and private networks: `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16` and `fc00::/7`. Use it
    /// only if every machine in them may report the client's address.
    pub fn private() -> Self {
        let networks = [v4([10, 0, 0, 0], 8), v4([172, 16, 0, 0], 12), v4([192, 168, 0, 0], 16), v6(0xfc << 120, 7)];
        Self::from_iter(networks).and(Self::loopback())
    }

    /// Parses networks and addresses. Bits beyond a network's prefix are dropped. A network within
    /// `::ffff:0:0/96` is an IPv4 network; a wider IPv6 network, including `::/0`, contains no IPv4 address.
    pub fn parse<S: AsRef<str>>(entries: impl IntoIterator<Item = S>) -> Result<Self, TrustedProxyError> {
        entries.into_iter().map(|entry| network(entry.as_ref())).collect()
    }

    /// The union of two sets.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        let networks = |proxies: Self| {
            let v6 = proxies.v6.into_iter().map(IpNet::V6);
            proxies.v4.into_iter().map(IpNet::V4).chain(v6)
        };
        networks(self).chain(networks(others)).collect()
    }

    /// True if an address is in one of the networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let after = self.v4.partition_point(|network| network.network() <= address);
                after > 0 && self.v4[after - 1].contains(&address)
            }
            IpAddr::V6(address) => {
                let after = self.v6.partition_point(|network| network.network() <= address);
                after > 0 && self.v6[after - 1].contains(&address)
            }
        }
    }

    /// True if no proxy is trusted.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

impl FromIterator<IpNet> for TrustedProxies {
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match unmapped(network) {
                IpNet::V4(network) => v4.push(network),
                IpNet::V6(network) => v6.push(network),
            }
        }
        Self { v4: Ipv4Net::aggregate(&v4).into(), v6: Ipv6Net::aggregate(&v6).into() }
    }
}

fn network(entry: &str) -> Result<IpNet, TrustedProxyError> {
    parse_network(entry.trim()).ok_or_else(|| TrustedProxyError { entry: printable(entry) })
}

/// Addresses follow the same rules as in headers: leading zeros are rejected.
fn parse_network(text: &str) -> Option<IpNet> {
    let Some((address, prefix)) = text.split_once('/') else {
        return text.parse().ok().map(|address: IpAddr| IpNet::from(address));
    };
    let digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
    let prefix = prefix.parse().ok().filter(|_| digits)?;
    IpNet::new(address.parse().ok()?, prefix).ok()
}

/// Converts a network of IPv4-mapped addresses to IPv4.
fn unmapped(network: IpNet) -> IpNet {
    match network {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => v6
            .addr()
            .to_ipv4_mapped()
            .and_then(|address| Ipv4Net::new(address, v6.prefix_len() - 96).ok())
            .map_or(network, IpNet::V4),
        _ => network,
    }
    .trunc()
}

fn v4(address: [u8; 4], prefix: u8) -> IpNet {
    IpNet::new_assert(Ipv4Addr::from(address).into(), prefix)
}

fn v6(address: u128, prefix: u8) -> IpNet {
    IpNet::new_assert(Ipv6Addr::from_bits(address).into(), prefix)
}

/// Escapes control characters and truncates long entries.
fn printable(entry: &str) -> String {
    const MAX_CHARS: usize = 60;
    let shown: String = entry.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if entry.chars().nth(MAX_CHARS).is_some() { shown + "..." } else { shown }
}

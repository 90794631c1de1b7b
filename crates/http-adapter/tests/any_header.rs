//! Property tests: no header lets a client choose its own address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use ipnet::IpNet;
use proptest::prelude::*;
use sluicegate_http_adapter::identity::{ForwardedHeader, Forwarding, TrustedProxies};

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

fn trusted_proxies() -> TrustedProxies {
    TrustedProxies::parse(["10.0.0.0/8", "2001:db8:ffff::/48"]).unwrap()
}

fn families() -> impl Strategy<Value = ForwardedHeader> {
    prop_oneof![
        Just(ForwardedHeader::XForwardedFor),
        Just(ForwardedHeader::Forwarded),
        Just(ForwardedHeader::Single(HeaderName::from_static("x-real-ip"))),
        Just(ForwardedHeader::Ignored),
    ]
}

/// Attacker input: arbitrary header bytes, and values that look genuine.
fn header_lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let byte = prop_oneof![
        Just(b'\t'),
        32..=126u8,
        128..=255u8,
        prop::sample::select(b"\",;=\\:[] forunkw_.0123456789".to_vec())
    ];
    let piece = prop_oneof![
        prop::collection::vec(byte, 0..12),
        prop::sample::select(vec![
            "10.0.0.2",
            "for=10.0.0.2",
            "198.51.100.7",
            "for=198.51.100.7",
            "for=\"",
            "\"",
            "\\\"",
            ", ",
            ";",
            "unknown",
            "for=\"[2001:db8:ffff::1]:1\"",
            "x=\"",
            "\\",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    let line = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    prop::collection::vec(line, 0..4)
}

fn untrusted() -> impl Strategy<Value = IpAddr> {
    let v4 = any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
    let v6 = any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)));
    let mapped = any::<u32>().prop_map(|bits| IpAddr::V6(Ipv4Addr::from_bits(bits).to_ipv6_mapped()));
    prop_oneof![v4, v6, mapped].prop_filter("trusted", |address| !trusted_proxies().contains(*address))
}

fn append(headers: &mut HeaderMap, name: &str, value: &[u8]) {
    headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value).unwrap());
}

/// An address as written by a trusted proxy.
fn forwarded_value(family: &ForwardedHeader, address: IpAddr, port: Option<u16>) -> String {
    let text = match (address, port) {
        (IpAddr::V6(address), Some(port)) => format!("[{address}]:{port}"),
        (IpAddr::V6(address), None) if *family == ForwardedHeader::Forwarded => format!("[{address}]"),
        (address, Some(port)) => format!("{address}:{port}"),
        (address, None) => address.to_string(),
    };
    match family {
        ForwardedHeader::Forwarded if text.contains(':') => format!("for=\"{text}\";proto=http"),
        ForwardedHeader::Forwarded => format!("proto=http;for={text}"),
        _ => text,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_untrusted_peer_is_the_client(
        peer in untrusted(), family in families(), sent in header_lines(), more in header_lines(), real in header_lines(),
    ) {
        let mut headers = HeaderMap::new();
        for (name, lines) in [("x-forwarded-for", sent), ("forwarded", more), ("x-real-ip", real)] {
            lines.iter().for_each(|line| append(&mut headers, name, line));
        }
        let forwarding = Forwarding::from(trusted_proxies()).with_header(family);
        prop_assert_eq!(forwarding.client_ip(peer, &headers), peer.to_canonical());
    }

    #[test]
    fn the_address_appended_by_a_trusted_proxy_is_the_client(
        attacker in untrusted(),
        family in prop_oneof![Just(ForwardedHeader::XForwardedFor), Just(ForwardedHeader::Forwarded)],
        sent in header_lines(),
        port in any::<Option<u16>>(),
        behind in 0..3usize,
        own_line in any::<bool>(),
    ) {
        let name = if family == ForwardedHeader::Forwarded { "forwarded" } else { "x-forwarded-for" };
        let mut list = vec![forwarded_value(&family, attacker, port)];
        list.extend((0..behind).map(|hop| forwarded_value(&family, [10, 0, 1, hop as u8].into(), None)));
        let list = list.join(", ");
        let mut headers = HeaderMap::new();
        let (last, before) = match sent.split_last() {
            Some((last, before)) if !own_line => (Some(last), before),
            _ => (None, sent.as_slice()),
        };
        before.iter().for_each(|line| append(&mut headers, name, line));
        match last {
            Some(last) => append(&mut headers, name, &[last, &b", "[..], list.as_bytes()].concat()),
            None => append(&mut headers, name, list.as_bytes()),
        }
        let forwarding = Forwarding::from(trusted_proxies()).with_header(family);
        prop_assert_eq!(forwarding.client_ip(PROXY, &headers), attacker.to_canonical());
    }

    #[test]
    fn any_forwarded_value_gives_an_address(family in families(), sent in header_lines(), real in header_lines()) {
        let mut headers = HeaderMap::new();
        for (name, lines) in [("x-forwarded-for", &sent), ("forwarded", &sent), ("x-real-ip", &real)] {
            lines.iter().for_each(|line| append(&mut headers, name, line));
        }
        let client = Forwarding::from(trusted_proxies()).with_header(family).client_ip(PROXY, &headers);
        prop_assert_eq!(client, client.to_canonical());
    }

    #[test]
    fn a_set_contains_exactly_its_networks(
        networks in prop::collection::vec((any::<IpAddr>(), 0..=128u8), 0..8),
        near in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 8),
        addresses in prop::collection::vec(any::<IpAddr>(), 8),
    ) {
        let networks: Vec<IpNet> = networks.into_iter()
            .map(|(address, prefix)| address.to_canonical().into_net(prefix))
            .collect();
        let set: TrustedProxies = networks.iter().copied().collect();
        let near = near.iter().filter(|_| !networks.is_empty()).map(|(index, low)| {
            match networks[index.index(networks.len())].addr() {
                IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() ^ u32::from(*low))),
                IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() ^ u128::from(*low))),
            }
        });
        for address in addresses.iter().copied().chain(near) {
            let address = address.to_canonical();
            prop_assert_eq!(set.contains(address), networks.iter().any(|network| network.contains(&address)));
        }
        prop_assert_eq!(set.clone().and(TrustedProxies::none()), set.clone());
        prop_assert_eq!(set.clone().and(set.clone()), set);
    }
}

trait IntoNet {
    fn into_net(self, prefix: u8) -> IpNet;
}

impl IntoNet for IpAddr {
    fn into_net(self, prefix: u8) -> IpNet {
        let max_prefix = if self.is_ipv4() { 32 } else { 128 };
        IpNet::new(self, prefix.min(max_prefix)).unwrap()
    }
}

//! No header lets a client choose its own address.
//!
//! Table of peer, trusted networks, header values and resolved client.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use sluicegate_http_adapter::identity::{ForwardedHeader, Forwarding, MAX_HOPS, TrustedProxies};

/// Networks of trusted proxies, in every notation.
const TRUSTED_NETWORKS: [&str; 4] = ["10.0.0.0/8", "192.0.2.1", "::ffff:172.16.0.0/108", "2001:db8:ffff::/48"];
/// A trusted proxy.
const PROXY: &str = "10.0.0.1";
/// The attacker's own address.
const ATTACKER: &str = "203.0.113.9";
/// The address that the attacker forges.
const FORGED: &str = "198.51.100.7";

fn trusted_forwarding() -> Forwarding {
    Forwarding::from(TrustedProxies::parse(TRUSTED_NETWORKS).unwrap())
}

fn headers(lines: &[(&str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

fn client(forwarding: &Forwarding, peer: &str, headers: &HeaderMap) -> String {
    forwarding.client_ip(peer.parse().unwrap(), headers).to_string()
}

/// Peer, header lines, expected client.
type Row = (&'static str, &'static [&'static [u8]], &'static str);

fn check(forwarding: &Forwarding, name: &str, rows: &[Row]) {
    for (peer, lines, expected) in rows {
        let lines: Vec<(&str, &[u8])> = lines.iter().map(|line| (name, *line)).collect();
        let shown: Vec<_> = lines.iter().map(|(name, line)| format!("{name}: {}", line.escape_ascii())).collect();
        assert_eq!(client(forwarding, peer, &headers(&lines)), *expected, "from {peer}: {shown:?}");
    }
}

#[test]
fn x_forwarded_for() {
    check(
        &trusted_forwarding(),
        "x-forwarded-for",
        &[
            // Untrusted peers are the client.
            (ATTACKER, &[], ATTACKER),
            (ATTACKER, &[b"198.51.100.7"], ATTACKER),
            (ATTACKER, &[b"198.51.100.7, 10.0.0.1"], ATTACKER),
            (ATTACKER, &[b"10.0.0.1"], ATTACKER),
            (ATTACKER, &[b"127.0.0.1"], ATTACKER),
            (ATTACKER, &[b"203.0.113.9"], ATTACKER),
            ("127.0.0.1", &[b"198.51.100.7"], "127.0.0.1"),
            ("192.0.2.2", &[b"198.51.100.7"], "192.0.2.2"),
            ("11.0.0.0", &[b"198.51.100.7"], "11.0.0.0"),
            ("9.255.255.255", &[b"198.51.100.7"], "9.255.255.255"),
            ("172.32.0.0", &[b"198.51.100.7"], "172.32.0.0"),
            ("2001:db8:fffe::1", &[b"198.51.100.7"], "2001:db8:fffe::1"),
            ("::ffff:203.0.113.9", &[b"198.51.100.7"], ATTACKER),
            ("::10.0.0.1", &[b"198.51.100.7"], "::a00:1"),
            ("64:ff9b::10.0.0.1", &[b"198.51.100.7"], "64:ff9b::a00:1"),
            // Trusted peers, in every notation.
            (PROXY, &[b"203.0.113.9"], ATTACKER),
            ("::ffff:10.0.0.1", &[b"203.0.113.9"], ATTACKER),
            ("192.0.2.1", &[b"203.0.113.9"], ATTACKER),
            ("172.16.0.1", &[b"203.0.113.9"], ATTACKER),
            ("::ffff:172.31.255.255", &[b"203.0.113.9"], ATTACKER),
            ("2001:db8:ffff::1", &[b"203.0.113.9"], ATTACKER),
            // No header: the proxy itself is the client.
            (PROXY, &[], PROXY),
            ("::ffff:10.0.0.1", &[], PROXY),
            // Attacker input is to the left of the proxy's entry.
            (PROXY, &[b"198.51.100.7, 203.0.113.9"], ATTACKER),
            (PROXY, &[b"198.51.100.7,203.0.113.9"], ATTACKER),
            (PROXY, &[b"198.51.100.7, 203.0.113.9, 10.0.0.2"], ATTACKER),
            (PROXY, &[b"198.51.100.7, 203.0.113.9, 10.0.0.2, 192.0.2.1"], ATTACKER),
            (PROXY, &[b"198.51.100.7, 203.0.113.9, ::ffff:10.0.0.2"], ATTACKER),
            (PROXY, &[b"198.51.100.7, 203.0.113.9, 2001:db8:ffff::2"], ATTACKER),
            (PROXY, &[b"10.0.0.9, 203.0.113.9"], ATTACKER),
            (PROXY, &[b"10.0.0.9, 203.0.113.9, 10.0.0.2"], ATTACKER),
            (PROXY, &[b"unknown, 203.0.113.9"], ATTACKER),
            (PROXY, &[b", 203.0.113.9"], ATTACKER),
            (PROXY, &[b",,,, 203.0.113.9"], ATTACKER),
            (PROXY, &[b"\", 203.0.113.9"], ATTACKER),
            (PROXY, &[b"\xff\xfe, 203.0.113.9"], ATTACKER),
            (PROXY, &[b"198.51.100.7\t, \t203.0.113.9\t "], ATTACKER),
            // Several lines are one list.
            (PROXY, &[b"198.51.100.7", b"203.0.113.9"], ATTACKER),
            (PROXY, &[b"198.51.100.7", b"203.0.113.9", b"10.0.0.2"], ATTACKER),
            (PROXY, &[b"198.51.100.7, 203.0.113.9", b"10.0.0.2, 10.0.0.3"], ATTACKER),
            (PROXY, &[b"10.0.0.2", b"203.0.113.9"], ATTACKER),
            (PROXY, &[b"198.51.100.7", b""], PROXY),
            // All trusted: the leftmost is the client.
            (PROXY, &[b"10.0.0.2"], "10.0.0.2"),
            (PROXY, &[b"10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            (PROXY, &[b"10.0.0.4", b"10.0.0.3, 10.0.0.2"], "10.0.0.4"),
            // An invalid address ends the walk at the proxy that reported it.
            (PROXY, &[b"198.51.100.7, unknown"], PROXY),
            (PROXY, &[b"198.51.100.7, unknown, 10.0.0.2"], "10.0.0.2"),
            (PROXY, &[b"198.51.100.7, _hidden"], PROXY),
            (PROXY, &[b"198.51.100.7, "], PROXY),
            (PROXY, &[b"198.51.100.7,, 10.0.0.2"], "10.0.0.2"),
            (PROXY, &[b""], PROXY),
            (PROXY, &[b" "], PROXY),
            (PROXY, &[b","], PROXY),
            (PROXY, &[b"198.51.100.7, localhost"], PROXY),
            (PROXY, &[b"198.51.100.7, 203.0.113.9\xe9"], PROXY),
            (PROXY, &[b"198.51.100.7 203.0.113.9"], PROXY),
            (PROXY, &[b"198.51.100.7; 203.0.113.9"], PROXY),
            (PROXY, &[b"for=198.51.100.7"], PROXY),
            (PROXY, &[b"\"198.51.100.7\""], PROXY),
            // Numbers that parsers interpret differently.
            (PROXY, &[b"198.51.100.07"], PROXY),
            (PROXY, &[b"0306.51.100.7"], PROXY),
            (PROXY, &[b"010.0.0.1, 10.0.0.2"], "10.0.0.2"),
            (PROXY, &[b"0xc6.51.100.7"], PROXY),
            (PROXY, &[b"3325256711"], PROXY),
            (PROXY, &[b"198.51.25607"], PROXY),
            (PROXY, &[b"198.51.100"], PROXY),
            (PROXY, &[b"198.51.100.256"], PROXY),
            (PROXY, &[b"198.51.100.7."], PROXY),
            (PROXY, &[b"+198.51.100.7"], PROXY),
            (PROXY, &[b"-1.51.100.7"], PROXY),
            (PROXY, &[b"198.51.100.7/32"], PROXY),
            (PROXY, &[b"\xef\xbc\x91.2.3.4"], PROXY),
            // Ports.
            (PROXY, &[b"203.0.113.9:4711"], ATTACKER),
            (PROXY, &[b"198.51.100.7, 203.0.113.9:65535, 10.0.0.2:80"], ATTACKER),
            (PROXY, &[b"203.0.113.9:"], PROXY),
            (PROXY, &[b"203.0.113.9:65536"], PROXY),
            (PROXY, &[b"203.0.113.9:+80"], PROXY),
            (PROXY, &[b"203.0.113.9:80:80"], PROXY),
            (PROXY, &[b"203.0.113.9 :80"], PROXY),
            (PROXY, &[b"[203.0.113.9]:80"], PROXY),
            // IPv6.
            (PROXY, &[b"2001:db8::9"], "2001:db8::9"),
            (PROXY, &[b"2001:DB8:0:0::9"], "2001:db8::9"),
            (PROXY, &[b"[2001:db8::9]"], "2001:db8::9"),
            (PROXY, &[b"[2001:db8::9]:4711"], "2001:db8::9"),
            (PROXY, &[b"2001:db8::9:4711"], "2001:db8::9:4711"),
            (PROXY, &[b"[2001:db8::9]4711"], PROXY),
            (PROXY, &[b"[2001:db8::9"], PROXY),
            (PROXY, &[b"2001:db8::9]"], PROXY),
            (PROXY, &[b"[]"], PROXY),
            (PROXY, &[b"::"], "::"),
            (PROXY, &[b"2001:db8::9::1"], PROXY),
            (PROXY, &[b"::ffff:203.0.113.9"], ATTACKER),
            (PROXY, &[b"::ffff:cb00:7109"], ATTACKER),
            (PROXY, &[b"[::ffff:203.0.113.9]:80"], ATTACKER),
            (PROXY, &[b"198.51.100.7, ::ffff:203.0.113.9, ::ffff:192.0.2.1"], ATTACKER),
            (PROXY, &[b"::ffff:203.0.113.09"], PROXY),
            // Zones are meaningful on one machine only.
            (PROXY, &[b"fe80::1%eth0"], PROXY),
            (PROXY, &[b"198.51.100.7, [fe80::1%25eth0]:80"], PROXY),
        ],
    );
}

#[test]
fn forwarded() {
    check(
        &trusted_forwarding().with_header(ForwardedHeader::Forwarded),
        "forwarded",
        &[
            // Untrusted peers are the client.
            (ATTACKER, &[b"for=198.51.100.7"], ATTACKER),
            (ATTACKER, &[b"for=198.51.100.7, for=10.0.0.1"], ATTACKER),
            ("::ffff:203.0.113.9", &[b"for=198.51.100.7"], ATTACKER),
            // Trusted peers report the client.
            (PROXY, &[], PROXY),
            (PROXY, &[b"for=203.0.113.9"], ATTACKER),
            (PROXY, &[b"For=203.0.113.9"], ATTACKER),
            (PROXY, &[b"FOR=\"203.0.113.9\""], ATTACKER),
            (PROXY, &[b"for=203.0.113.9;proto=https;by=10.0.0.1"], ATTACKER),
            (PROXY, &[b"by=10.0.0.1;proto=https;for=203.0.113.9"], ATTACKER),
            (PROXY, &[b"by=10.0.0.1 ; For = 203.0.113.9 ;"], ATTACKER),
            (PROXY, &[b";;for=203.0.113.9;;"], ATTACKER),
            (PROXY, &[b"for=203.0.113.9:4711"], ATTACKER),
            (PROXY, &[b"for=\"203.0.113.9:4711\""], ATTACKER),
            (PROXY, &[b"for=\"203.0.113.9:_p-1.x\""], ATTACKER),
            (PROXY, &[b"for=\"[2001:db8::9]:4711\""], "2001:db8::9"),
            (PROXY, &[b"for=\"[2001:db8::9]\""], "2001:db8::9"),
            (PROXY, &[b"for=[2001:db8::9]"], "2001:db8::9"),
            (PROXY, &[b"for=\"[::ffff:203.0.113.9]:80\""], ATTACKER),
            (PROXY, &[b"for=\"[2001:db8::9]:_obf\""], "2001:db8::9"),
            // Attacker input is to the left.
            (PROXY, &[b"for=198.51.100.7, for=203.0.113.9"], ATTACKER),
            (PROXY, &[b"for=198.51.100.7,for=203.0.113.9,for=10.0.0.2"], ATTACKER),
            (PROXY, &[b"for=198.51.100.7", b"for=203.0.113.9", b"for=10.0.0.2"], ATTACKER),
            (PROXY, &[b"for=198.51.100.7", b"for=203.0.113.9, for=\"[2001:db8:ffff::2]:1\""], ATTACKER),
            (PROXY, &[b"for=198.51.100.7, for=203.0.113.9, for=\"[::ffff:10.0.0.2]\""], ATTACKER),
            // Even with unclosed quotes and escapes.
            (PROXY, &[b"for=\"198.51.100.7, for=203.0.113.9"], ATTACKER),
            (PROXY, &[b"for=198.51.100.7;x=\", for=203.0.113.9"], ATTACKER),
            (PROXY, &[b"for=198.51.100.7;x=\"\\, for=203.0.113.9"], ATTACKER),
            (PROXY, &[b"for=198.51.100.7;x=\", for=\"203.0.113.9\""], ATTACKER),
            (PROXY, &[b"for=198.51.100.7;x=\"\\\", for=\"203.0.113.9:1\";by=\"[::1]\""], ATTACKER),
            (PROXY, &[b"\\\"\\, for=203.0.113.9"], ATTACKER),
            (PROXY, &[b"for=198.51.100.7;x=\"", b"for=203.0.113.9;y=\"z\""], ATTACKER),
            (PROXY, &[b"x=\xff, for=203.0.113.9"], ATTACKER),
            // Commas, semicolons and escapes inside the proxy's quoted strings.
            (PROXY, &[b"for=203.0.113.9;host=\"a, for=198.51.100.7\""], ATTACKER),
            (PROXY, &[b"for=203.0.113.9;host=\"a\\\", for=198.51.100.7\""], ATTACKER),
            (PROXY, &[b"for=203.0.113.9;host=\"a\\\\\";x=\"b, for=198.51.100.7\""], ATTACKER),
            (PROXY, &[b"host=\"a;for=198.51.100.7\";for=203.0.113.9"], ATTACKER),
            (PROXY, &[b"host=\"\\\";for=198.51.100.7;\";for=203.0.113.9"], ATTACKER),
            (PROXY, &[b"for=198.51.100.7, for=203.0.113.9, for=10.0.0.2;host=\"x, y\""], ATTACKER),
            // Misplaced quotes.
            (PROXY, &[b"for=198.51.100.7;x=\", for=203.0.113.9;host=a\"b"], PROXY),
            (PROXY, &[b"for=198.51.100.7, for=203.0.113.9;host=a\"b"], PROXY),
            (PROXY, &[b"for=\"203.0.113.9"], PROXY),
            (PROXY, &[b"for=203.0.113.9\""], PROXY),
            (PROXY, &[b"for=\"203.0.113\\.9\""], PROXY),
            (PROXY, &[b"for=\""], PROXY),
            (PROXY, &[b"for=\"\""], PROXY),
            (PROXY, &[b"for='203.0.113.9'"], PROXY),
            // All trusted: the leftmost is the client.
            (PROXY, &[b"for=10.0.0.3, for=10.0.0.2"], "10.0.0.3"),
            // An invalid address ends the walk.
            (PROXY, &[b"for=198.51.100.7, for=unknown"], PROXY),
            (PROXY, &[b"for=198.51.100.7, for=_hidden, for=10.0.0.2"], "10.0.0.2"),
            (PROXY, &[b"for=198.51.100.7, for=\"_gazonk:80\""], PROXY),
            (PROXY, &[b"for=198.51.100.7, for=\"unknown:80\", for=10.0.0.2"], "10.0.0.2"),
            (PROXY, &[b"for=198.51.100.7, proto=https"], PROXY),
            (PROXY, &[b"for=198.51.100.7, by=10.0.0.1;proto=https, for=10.0.0.2"], "10.0.0.2"),
            (PROXY, &[b"for=198.51.100.7, 203.0.113.9"], PROXY),
            (PROXY, &[b"for=198.51.100.7, "], PROXY),
            (PROXY, &[b"for=198.51.100.7,, for=10.0.0.2"], "10.0.0.2"),
            (PROXY, &[b"for=198.51.100.7;for=203.0.113.9"], PROXY),
            (PROXY, &[b"for=198.51.100.7;FOR=198.51.100.7"], PROXY),
            (PROXY, &[b"for=198.51.100.7;secure"], PROXY),
            (PROXY, &[b"fortune=198.51.100.7"], PROXY),
            (PROXY, &[b"for"], PROXY),
            (PROXY, &[b"for="], PROXY),
            (PROXY, &[b"="], PROXY),
            (PROXY, &[b""], PROXY),
            // Without brackets, the last group could be a port.
            (PROXY, &[b"for=\"2001:db8::9:4711\""], PROXY),
            (PROXY, &[b"for=2001:db8::9"], PROXY),
            (PROXY, &[b"for=\"[2001:db8::9%25eth0]\""], PROXY),
            (PROXY, &[b"for=010.0.0.1"], PROXY),
        ],
    );
}

#[test]
fn single_address_headers() {
    let name = HeaderName::from_static("x-real-ip");
    check(
        &trusted_forwarding().with_header(ForwardedHeader::Single(name)),
        "X-Real-IP",
        &[
            (ATTACKER, &[b"198.51.100.7"], ATTACKER),
            ("::ffff:203.0.113.9", &[b"198.51.100.7"], ATTACKER),
            (PROXY, &[], PROXY),
            (PROXY, &[b"203.0.113.9"], ATTACKER),
            (PROXY, &[b" 203.0.113.9 "], ATTACKER),
            (PROXY, &[b"203.0.113.9:80"], ATTACKER),
            (PROXY, &[b"2001:db8::9"], "2001:db8::9"),
            (PROXY, &[b"[2001:db8::9]:80"], "2001:db8::9"),
            (PROXY, &[b"::ffff:203.0.113.9"], ATTACKER),
            (PROXY, &[b"10.0.0.2"], "10.0.0.2"),
            // Repeated header: one of the two is the attacker's.
            (PROXY, &[b"198.51.100.7", b"203.0.113.9"], PROXY),
            (PROXY, &[b"203.0.113.9", b"198.51.100.7"], PROXY),
            (PROXY, &[b"203.0.113.9", b"203.0.113.9"], PROXY),
            (PROXY, &[b"198.51.100.7, 203.0.113.9"], PROXY),
            (PROXY, &[b"unknown"], PROXY),
            (PROXY, &[b""], PROXY),
        ],
    );
}

#[test]
fn only_the_configured_header_is_read() {
    let real_ip = HeaderName::from_static("x-real-ip");
    let families = [
        ("x-forwarded-for", "198.51.100.7", ForwardedHeader::XForwardedFor),
        ("forwarded", "for=198.51.100.7", ForwardedHeader::Forwarded),
        ("x-real-ip", "198.51.100.7", ForwardedHeader::Single(real_ip)),
        ("cf-connecting-ip", "198.51.100.7", ForwardedHeader::Ignored),
    ];
    for (name, _, header) in &families {
        let forwarding = trusted_forwarding().with_header(header.clone());
        for (other, value, _) in &families {
            let read = name == other && *header != ForwardedHeader::Ignored;
            let expected = if read { FORGED } else { PROXY };
            let alone = headers(&[(other, value.as_bytes())]);
            assert_eq!(client(&forwarding, PROXY, &alone), expected, "{name} {other}");
            assert_eq!(client(&forwarding, ATTACKER, &alone), ATTACKER, "{name} {other}");
        }
        let all = headers(&families.each_ref().map(|(name, value, _)| (*name, value.as_bytes())));
        let expected = if *header == ForwardedHeader::Ignored { PROXY } else { FORGED };
        assert_eq!(client(&forwarding, PROXY, &all), expected);
    }
}

#[test]
fn no_proxy_is_trusted_by_default() {
    let all = headers(&[("x-forwarded-for", b"198.51.100.7"), ("forwarded", b"for=198.51.100.7")]);
    for peer in [ATTACKER, PROXY, "127.0.0.1", "::1", "fe80::1"] {
        assert_eq!(client(&Forwarding::default(), peer, &all), peer);
        assert_eq!(client(&Forwarding::from(TrustedProxies::none()), peer, &all), peer);
    }
}

#[test]
fn presets_trust_their_networks() {
    for (address, loopback, private) in [
        ("127.0.0.1", true, true),
        ("127.255.255.255", true, true),
        ("::1", true, true),
        ("::ffff:127.0.0.1", true, true),
        ("::2", false, false),
        ("10.255.0.1", false, true),
        ("172.15.255.255", false, false),
        ("172.16.0.0", false, true),
        ("172.32.0.0", false, false),
        ("192.168.1.1", false, true),
        ("192.169.0.0", false, false),
        ("::ffff:10.0.0.1", false, true),
        ("fd00::1", false, true),
        ("fc00::1", false, true),
        ("fe80::1", false, false),
        ("169.254.169.254", false, false),
        ("100.64.0.1", false, false),
        ("0.0.0.0", false, false),
        (ATTACKER, false, false),
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(TrustedProxies::loopback().contains(address), loopback, "{address}");
        assert_eq!(TrustedProxies::private().contains(address), private, "{address}");
        assert!(!TrustedProxies::none().contains(address));
    }
    assert!(TrustedProxies::none().is_empty() && !TrustedProxies::loopback().is_empty());
}

#[test]
fn an_invalid_entry_is_named_in_the_error() {
    for (entry, shown) in [
        ("10.0.0.0/33", "'10.0.0.0/33' is not a network"),
        ("::1/129", "'::1/129'"),
        ("10.0.0.0/", "'10.0.0.0/'"),
        ("10.0.0", "'10.0.0'"),
        ("10.0.0.0/+8", "'10.0.0.0/+8'"),
        ("10.0.0.0/8/8", "'10.0.0.0/8/8'"),
        ("fe80::1%eth0", "'fe80::1%eth0'"),
        ("010.0.0.0/8", "'010.0.0.0/8'"),
        ("10.0.0.1-10.0.0.9", "write an address such as 192.0.2.1"),
        ("proxy.example", "a network such as 10.0.0.0/8"),
        ("", "''"),
        ("a\r\nb", r"'a\r\nb'"),
    ] {
        let error = TrustedProxies::parse(["10.0.0.0/8", entry]).unwrap_err().to_string();
        assert!(error.contains(shown), "{error}");
    }
    assert!(TrustedProxies::parse(["x".repeat(10_000)]).unwrap_err().to_string().len() < 200);
    assert!(TrustedProxies::parse([" 10.0.0.0/8 "]).is_ok());
    // Bits beyond the prefix are dropped; a wide IPv6 network contains no IPv4 address.
    assert!(TrustedProxies::parse(["10.1.2.3/8"]).unwrap().contains([10, 9, 9, 9].into()));
    assert!(!TrustedProxies::parse(["::/0"]).unwrap().contains([10, 0, 0, 1].into()));
    assert!(TrustedProxies::parse(["::ffff:0:0/96"]).unwrap().contains([10, 0, 0, 1].into()));
}

#[test]
fn ten_thousand_hops_are_cheap_and_ineffective() {
    let forged = [FORGED; 10_000].join(", ");
    let trusted = ["10.0.0.2"; 10_000].join(", ");
    for (value, expected) in [
        (format!("{forged}, {ATTACKER}"), ATTACKER),
        (format!("{FORGED}, {trusted}"), "10.0.0.2"),
        (",".repeat(100_000), PROXY),
        (format!("{},{ATTACKER}", "x".repeat(100_000)), ATTACKER),
    ] {
        assert_eq!(client(&trusted_forwarding(), PROXY, &headers(&[("x-forwarded-for", value.as_bytes())])), expected);
    }
    let hops = |trusted: usize| format!("{FORGED}, {}", vec!["10.0.0.2"; trusted].join(", "));
    let client_behind =
        |trusted| client(&trusted_forwarding(), PROXY, &headers(&[("x-forwarded-for", hops(trusted).as_bytes())]));
    assert_eq!(client_behind(MAX_HOPS - 1), FORGED);
    assert_eq!(client_behind(MAX_HOPS), "10.0.0.2");

    let forwarding = trusted_forwarding().with_header(ForwardedHeader::Forwarded);
    for (value, expected) in [
        (format!("{}, for={ATTACKER}", ["for=198.51.100.7"; 10_000].join(", ")), ATTACKER),
        (format!("for={FORGED}, {}", ["for=10.0.0.2"; 10_000].join(", ")), "10.0.0.2"),
        (format!("for={FORGED}, {}, for=10.0.0.2", "\"\\".repeat(50_000)), "10.0.0.2"),
        ("\"".repeat(100_000), PROXY),
        (format!("x=\"{}\"", "\\".repeat(100_000)), PROXY),
        (";".repeat(100_000), PROXY),
    ] {
        assert_eq!(client(&forwarding, PROXY, &headers(&[("forwarded", value.as_bytes())])), expected);
    }
}

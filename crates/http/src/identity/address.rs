//! An address as proxies write it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longer than any address with a port is.
const LONGEST: usize = 64;

/// Whether an IPv6 address may stand without brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brackets {
    /// Without them what follows the last colon could be a port.
    Required,
    /// As `X-Forwarded-For` has it: what stands without is all address.
    Optional,
}

/// Reads `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`, `[2001:db8::1]:80` and perhaps `2001:db8::1`, with
/// blanks around. The port is dropped.
///
/// Numbers with leading zeros, in hexadecimal or without all four parts are no addresses: readers differ on
/// what they mean. Neither is one with a zone (`fe80::1%eth0`): only the machine that wrote it knows which
/// link that is.
pub(super) fn parse(text: &[u8], brackets: Brackets) -> Option<IpAddr> {
    let text = trimmed(text);
    if text.len() > LONGEST {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    if let Some(inner) = text.strip_prefix('[') {
        let (address, rest) = inner.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        return (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then(|| address.to_canonical());
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(address.into());
    }
    if let Some((address, port)) = text.split_once(':')
        && let Ok(address) = address.parse::<Ipv4Addr>()
    {
        return is_port(port).then_some(address.into());
    }
    match brackets {
        Brackets::Optional => text.parse().ok().map(|address: Ipv6Addr| address.to_canonical()),
        Brackets::Required => None,
    }
}

/// Without the blanks around it.
pub(super) fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// A number, or the made-up name that RFC 7239 allows in its place.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)),
        None => text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok(),
    }
}

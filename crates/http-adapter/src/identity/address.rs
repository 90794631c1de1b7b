//! Parses IP addresses in forwarded headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Upper bound for an address with a port, in bytes.
const MAX_ADDRESS_BYTES: usize = 64;

/// Bracket rule for IPv6 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brackets {
    /// Without brackets, the part after the last colon could be a port.
    Required,
    /// As in `X-Forwarded-For`: without brackets, all of it is the address.
    Optional,
}

/// Parses `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`, `[2001:db8::1]:80` and optionally `2001:db8::1`, with
/// surrounding blanks. The port is dropped.
///
/// Numbers with leading zeros, in hexadecimal or with fewer than four parts are rejected, because parsers
/// disagree on their meaning. So are addresses with a zone (`fe80::1%eth0`), which only the machine that
/// wrote them can interpret.
pub(super) fn parse(text: &[u8], brackets: Brackets) -> Option<IpAddr> {
    let text = trimmed(text);
    if text.len() > MAX_ADDRESS_BYTES {
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

/// Trims surrounding blanks.
pub(super) fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// A port number, or the obfuscated port that RFC 7239 allows.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)),
        None => text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok(),
    }
}

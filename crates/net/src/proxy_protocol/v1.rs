//! PROXY protocol version 1: a line of text, such as `PROXY TCP4 192.0.2.1 198.51.100.1 51234 443`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::{ParseProgress, ProxyHeader, ProxyProtocolError, client, shares_prefix};

/// Maximum length of a header in bytes, with its line end.
pub(super) const MAX_BYTES: usize = 107;
/// Minimum length of a header in bytes.
pub(super) const MIN_BYTES: usize = b"PROXY UNKNOWN\r\n".len();

const PREFIX: &[u8] = b"PROXY ";
const UNKNOWN: &[u8] = b"UNKNOWN";
/// Number of spaces in a header with addresses.
const SPACES: usize = 5;

/// One reason for all errors: if a header has several, the one found first depends on the chunks it arrives in.
const MALFORMED: ProxyProtocolError = ProxyProtocolError::Malformed(
    "expected `PROXY TCP4|TCP6 source destination port port` or `PROXY UNKNOWN`, ended by CR and LF, in at most 107 \
     bytes",
);

pub(super) fn parse(bytes: &[u8]) -> Result<ParseProgress, ProxyProtocolError> {
    if !shares_prefix(bytes, PREFIX) {
        return Err(ProxyProtocolError::Missing);
    }
    let missing = match bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        None => min_missing_bytes(bytes)?,
        Some(end) => match &bytes[end..] {
            b"\r" => 1,
            b"\r\n" => return parse_complete(bytes.get(PREFIX.len()..end).unwrap_or_default()),
            _ => return Err(MALFORMED),
        },
    };
    if bytes.len() + missing > MAX_BYTES { Err(MALFORMED) } else { Ok(ParseProgress::NeedMore(missing)) }
}

/// Minimum number of bytes still missing from a header that begins like this.
fn min_missing_bytes(bytes: &[u8]) -> Result<usize, ProxyProtocolError> {
    let end = b"\r\n".len();
    if bytes.get(PREFIX.len()).is_none_or(|first| UNKNOWN.starts_with(&[*first])) {
        return Ok(end.max(MIN_BYTES.saturating_sub(bytes.len())));
    }
    let blanks = bytes.iter().filter(|byte| **byte == b' ').count();
    // At least one byte follows each missing space.
    SPACES.checked_sub(blanks).map(|missing| 2 * missing + end).ok_or(MALFORMED)
}

/// Parses the text between the prefix and the line end.
fn parse_complete(text: &[u8]) -> Result<ParseProgress, ProxyProtocolError> {
    let header = match text.strip_prefix(UNKNOWN) {
        Some([] | [b' ', ..]) => ProxyHeader::Peer,
        Some(_) => return Err(MALFORMED),
        None => parse_addresses(text).ok_or(MALFORMED)?,
    };
    Ok(ParseProgress::Complete { header, skip: 0 })
}

fn parse_addresses(text: &[u8]) -> Option<ProxyHeader> {
    let (family, rest) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    match family {
        "TCP4" => parse_source::<Ipv4Addr>(rest),
        "TCP6" => parse_source::<Ipv6Addr>(rest),
        _ => None,
    }
}

/// Parses the source; the destination and both ports must be well-formed as well.
fn parse_source<A: FromStr + Into<IpAddr>>(text: &str) -> Option<ProxyHeader> {
    let mut fields = text.split(' ');
    let mut address = || fields.next()?.parse::<A>().ok();
    let (source, _) = (address()?, address()?);
    let mut number = || parse_port(fields.next()?);
    let (port, _) = (number()?, number()?);
    fields.next().is_none().then(|| client(source, port))
}

/// Parses a number without sign and leading zeros.
fn parse_port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

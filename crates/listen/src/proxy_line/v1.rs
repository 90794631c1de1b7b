//! Version 1: a line of text, such as `PROXY TCP4 192.0.2.1 198.51.100.1 51234 443`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::{Claim, Look, ProxyLineError, begins, client};

/// The most bytes of a line, its end included.
pub(super) const LONGEST: usize = 107;
/// The shortest line there is.
pub(super) const SHORTEST: usize = b"PROXY UNKNOWN\r\n".len();

const START: &[u8] = b"PROXY ";
const UNKNOWN: &[u8] = b"UNKNOWN";
/// How many blanks a line with addresses has.
const BLANKS: usize = 5;

/// One reason for all: which of several things is wrong with a line is seen first depends on how it arrives.
const MALFORMED: ProxyLineError = ProxyLineError::Malformed(
    "it must be `PROXY TCP4|TCP6 source destination port port` or `PROXY UNKNOWN`, ended by CR and LF, in at most 107 \
     bytes",
);

pub(super) fn look(bytes: &[u8]) -> Result<Look, ProxyLineError> {
    if !begins(bytes, START) {
        return Err(ProxyLineError::Missing);
    }
    let missing = match bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        None => least_missing(bytes)?,
        Some(end) => match &bytes[end..] {
            b"\r" => 1,
            b"\r\n" => return whole(bytes.get(START.len()..end).unwrap_or_default()),
            _ => return Err(MALFORMED),
        },
    };
    if bytes.len() + missing > LONGEST { Err(MALFORMED) } else { Ok(Look::More(missing)) }
}

/// How many bytes a line that begins so still has at least.
fn least_missing(bytes: &[u8]) -> Result<usize, ProxyLineError> {
    let end = b"\r\n".len();
    if bytes.get(START.len()).is_none_or(|first| UNKNOWN.starts_with(&[*first])) {
        return Ok(end.max(SHORTEST.saturating_sub(bytes.len())));
    }
    let blanks = bytes.iter().filter(|byte| **byte == b' ').count();
    // Each blank that is missing has at least one byte behind it.
    BLANKS.checked_sub(blanks).map(|missing| 2 * missing + end).ok_or(MALFORMED)
}

/// Reads what is between the start and the end.
fn whole(text: &[u8]) -> Result<Look, ProxyLineError> {
    let claim = match text.strip_prefix(UNKNOWN) {
        Some([] | [b' ', ..]) => Claim::Peer,
        Some(_) => return Err(MALFORMED),
        None => addresses(text).ok_or(MALFORMED)?,
    };
    Ok(Look::Whole { claim, skip: 0 })
}

fn addresses(text: &[u8]) -> Option<Claim> {
    let (family, rest) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    match family {
        "TCP4" => source::<Ipv4Addr>(rest),
        "TCP6" => source::<Ipv6Addr>(rest),
        _ => None,
    }
}

/// The source, if the destination and both ports are well-formed as well.
fn source<A: FromStr + Into<IpAddr>>(text: &str) -> Option<Claim> {
    let mut fields = text.split(' ');
    let mut address = || fields.next()?.parse::<A>().ok();
    let (source, _) = (address()?, address()?);
    let mut number = || port(fields.next()?);
    let (port, _) = (number()?, number()?);
    fields.next().is_none().then(|| client(source, port))
}

/// A number without sign and without zeros before it.
fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

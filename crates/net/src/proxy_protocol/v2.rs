//! PROXY protocol version 2: a 16-byte header with a length, then the addresses and TLVs. TLVs are skipped, the
//! checksum included: TCP has its own.

use super::{ParseProgress, ProxyHeader, ProxyProtocolError, client, shares_prefix};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Length of the fixed header.
const HEADER_BYTES: usize = 16;
/// Maximum length behind the fixed header that is accepted.
const MAX_PAYLOAD_BYTES: usize = 2_048;

/// LOCAL command: the connection is the proxy's own.
const COMMAND_LOCAL: u8 = 0x20;
/// PROXY command: the addresses are the client's.
const COMMAND_PROXY: u8 = 0x21;

pub(super) fn parse(bytes: &[u8]) -> Result<ParseProgress, ProxyProtocolError> {
    if !shares_prefix(bytes, SIGNATURE) {
        return Err(ProxyProtocolError::Missing);
    }
    let Some(([.., command, family, high, low], rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(ParseProgress::NeedMore(HEADER_BYTES - bytes.len()));
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length > MAX_PAYLOAD_BYTES {
        return Err(ProxyProtocolError::Malformed("more than 2048 bytes after the fixed header"));
    }
    let needed = match (*command, *family) {
        (COMMAND_LOCAL, _) => 0,
        (COMMAND_PROXY, 0x00) => 0,
        (COMMAND_PROXY, 0x11 | 0x12) => 12,
        (COMMAND_PROXY, 0x21 | 0x22) => 36,
        // Unix socket addresses have no meaning here.
        (COMMAND_PROXY, 0x31 | 0x32) => 0,
        (COMMAND_PROXY, _) => return Err(ProxyProtocolError::Malformed("unknown address family")),
        _ => return Err(ProxyProtocolError::Malformed("unknown version or command")),
    };
    if length < needed {
        return Err(ProxyProtocolError::Malformed("too short for its addresses"));
    }
    if rest.len() < needed {
        return Ok(ParseProgress::NeedMore(needed - rest.len()));
    }
    Ok(ParseProgress::Complete { header: parse_source(&rest[..needed]), skip: length.saturating_sub(rest.len()) })
}

/// Parses source and destination addresses, followed by their ports in the same order.
fn parse_source(addresses: &[u8]) -> ProxyHeader {
    match *addresses {
        [a, b, c, d, _, _, _, _, high, low, _, _] => client([a, b, c, d], u16::from_be_bytes([high, low])),
        _ => match (addresses.first_chunk::<16>(), addresses.get(32..34)) {
            (Some(address), Some(&[high, low])) => client(*address, u16::from_be_bytes([high, low])),
            _ => ProxyHeader::Peer,
        },
    }
}

//! Version 2: 16 bytes, then as many as they say: the addresses, and further facts (TLVs) that are skipped, the
//! checksum among them: TCP has its own.

use super::{Claim, Look, ProxyLineError, begins, client};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The part that every line has.
const HEAD: usize = 16;
/// The most bytes behind the head that are waited for.
const MOST: usize = 2_048;

/// Whom the addresses are of: nobody but the proxy itself.
const LOCAL: u8 = 0x20;
/// Of the client.
const PROXY: u8 = 0x21;

pub(super) fn look(bytes: &[u8]) -> Result<Look, ProxyLineError> {
    if !begins(bytes, SIGNATURE) {
        return Err(ProxyLineError::Missing);
    }
    let Some(([.., command, family, high, low], rest)) = bytes.split_first_chunk::<HEAD>() else {
        return Ok(Look::More(HEAD - bytes.len()));
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length > MOST {
        return Err(ProxyLineError::Malformed("it has more than 2048 bytes behind its head"));
    }
    let needed = match (*command, *family) {
        (LOCAL, _) => 0,
        (PROXY, 0x00) => 0,
        (PROXY, 0x11 | 0x12) => 12,
        (PROXY, 0x21 | 0x22) => 36,
        // Sockets of Unix have no address that means anything here.
        (PROXY, 0x31 | 0x32) => 0,
        (PROXY, _) => return Err(ProxyLineError::Malformed("there is no such family of addresses")),
        _ => return Err(ProxyLineError::Malformed("there is no such version or command")),
    };
    if length < needed {
        return Err(ProxyLineError::Malformed("it is too short for its addresses"));
    }
    if rest.len() < needed {
        return Ok(Look::More(needed - rest.len()));
    }
    Ok(Look::Whole { claim: source(&rest[..needed]), skip: length.saturating_sub(rest.len()) })
}

/// Behind the addresses of the source and the destination stand their ports, in the same order.
fn source(addresses: &[u8]) -> Claim {
    match *addresses {
        [a, b, c, d, _, _, _, _, high, low, _, _] => client([a, b, c, d], u16::from_be_bytes([high, low])),
        _ => match (addresses.first_chunk::<16>(), addresses.get(32..34)) {
            (Some(address), Some(&[high, low])) => client(*address, u16::from_be_bytes([high, low])),
            _ => Claim::Peer,
        },
    }
}

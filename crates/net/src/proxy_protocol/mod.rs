//! PROXY protocol header, versions 1 and 2: the client address that a load balancer sends first on a connection.
//!
//! [`parse`] is a pure function of the bytes so far. It asks for no more bytes than a well-formed header must
//! still have, so no byte behind the header is read from the connection. At most [`MAX_BUFFERED_BYTES`] are
//! buffered.

mod v1;
mod v2;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum length of a version 1 header; the parsed part of version 2 is shorter.
const MAX_BUFFERED_BYTES: usize = v1::MAX_BYTES;

/// Client named by a PROXY header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyHeader {
    /// The client at this address.
    Client(SocketAddr),
    /// The peer itself: a health check by the proxy, or a client without a usable address.
    Peer,
}

/// Error reading a PROXY header.
#[derive(Debug, Error)]
pub enum ProxyProtocolError {
    /// Closed before the first byte, as load balancers do in TCP health checks.
    #[error("the connection was closed before the PROXY header")]
    Closed,
    /// Closed within the header.
    #[error("the connection was closed within the PROXY header")]
    Truncated,
    /// The connection does not begin with a PROXY header.
    #[error(
        "the connection does not start with a PROXY header: enable it in the proxy, or set proxy_protocol to false"
    )]
    Missing,
    /// The header violates the protocol.
    #[error("malformed PROXY header: {0}")]
    Malformed(&'static str),
    /// The header could not be read.
    #[error("cannot read the PROXY header: {0}")]
    Io(#[from] io::Error),
}

/// Parser state after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParseProgress {
    /// At least this many more bytes belong to the header; never zero.
    NeedMore(usize),
    /// The header is parsed; `skip` more bytes belong to it and are ignored.
    Complete { header: ProxyHeader, skip: usize },
}

fn parse(bytes: &[u8]) -> Result<ParseProgress, ProxyProtocolError> {
    match bytes.first() {
        None => Ok(ParseProgress::NeedMore(v1::MIN_BYTES)),
        Some(b'P') => v1::parse(bytes),
        Some(b'\r') => v2::parse(bytes),
        Some(_) => Err(ProxyProtocolError::Missing),
    }
}

/// Reads the header and not one byte more.
pub(super) async fn read<T: AsyncRead + Unpin>(io: &mut T) -> Result<ProxyHeader, ProxyProtocolError> {
    let mut bytes = [0; MAX_BUFFERED_BYTES];
    let mut length = 0;
    let (header, mut skip) = loop {
        match parse(&bytes[..length])? {
            ParseProgress::Complete { header, skip } => break (header, skip),
            ParseProgress::NeedMore(more) => {
                let free = bytes.get_mut(length..length + more).ok_or(ProxyProtocolError::Malformed("too long"))?;
                match io.read(free).await? {
                    0 if length == 0 => return Err(ProxyProtocolError::Closed),
                    0 => return Err(ProxyProtocolError::Truncated),
                    read => length += read,
                }
            }
        }
    };
    while skip > 0 {
        match io.read(&mut bytes[..skip.min(MAX_BUFFERED_BYTES)]).await? {
            0 => return Err(ProxyProtocolError::Truncated),
            read => skip -= read,
        }
    }
    Ok(header)
}

/// The client at this address; an IPv4-mapped address becomes IPv4.
fn client(address: impl Into<IpAddr>, port: u16) -> ProxyHeader {
    ProxyHeader::Client(SocketAddr::new(address.into().to_canonical(), port))
}

/// True if one of the two is a prefix of the other.
fn shares_prefix(bytes: &[u8], start: &[u8]) -> bool {
    bytes.iter().zip(start).all(|(one, other)| one == other)
}

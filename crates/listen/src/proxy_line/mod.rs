//! The PROXY line: what a load balancer writes before all else to say who the client is, in either of its two
//! versions.
//!
//! [`look`] is a pure function of the bytes so far. It asks for no more bytes than a well-formed line still must
//! have, so nothing behind the line is ever taken from the connection, and what it has not seen it does not hold:
//! at most [`MOST_KEPT`] bytes.

mod v1;
mod v2;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest line of version 1; the part of version 2 that is looked at is shorter.
const MOST_KEPT: usize = v1::LONGEST;

/// Who the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The one at this address.
    Client(SocketAddr),
    /// Whoever made the connection: the proxy itself, which looks whether we are well, or somebody without an
    /// address.
    Peer,
}

/// Why there is no line.
#[derive(Debug, Error)]
pub enum ProxyLineError {
    /// Closed before the first byte, as load balancers do to see whether somebody listens.
    #[error("the connection was closed before the PROXY line")]
    Closed,
    /// Closed within the line.
    #[error("the connection was closed within the PROXY line")]
    Cut,
    /// Something else came.
    #[error("the connection does not begin with a PROXY line: let the proxy send it, or turn proxy_protocol off")]
    Missing,
    /// It is not as the protocol says.
    #[error("the PROXY line is malformed: {0}")]
    Malformed(&'static str),
    /// It could not be read.
    #[error("the PROXY line cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// What is known after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// At least so many bytes more belong to the line, at least one.
    More(usize),
    /// It is read, but for so many bytes that say nothing we need.
    Whole { claim: Claim, skip: usize },
}

fn look(bytes: &[u8]) -> Result<Look, ProxyLineError> {
    match bytes.first() {
        None => Ok(Look::More(v1::SHORTEST)),
        Some(b'P') => v1::look(bytes),
        Some(b'\r') => v2::look(bytes),
        Some(_) => Err(ProxyLineError::Missing),
    }
}

/// Reads the line and not one byte more.
pub(super) async fn read<T: AsyncRead + Unpin>(io: &mut T) -> Result<Claim, ProxyLineError> {
    let mut bytes = [0; MOST_KEPT];
    let mut length = 0;
    let (claim, mut skip) = loop {
        match look(&bytes[..length])? {
            Look::Whole { claim, skip } => break (claim, skip),
            Look::More(more) => {
                let free = bytes.get_mut(length..length + more).ok_or(ProxyLineError::Malformed("it is too long"))?;
                match io.read(free).await? {
                    0 if length == 0 => return Err(ProxyLineError::Closed),
                    0 => return Err(ProxyLineError::Cut),
                    read => length += read,
                }
            }
        }
    };
    while skip > 0 {
        match io.read(&mut bytes[..skip.min(MOST_KEPT)]).await? {
            0 => return Err(ProxyLineError::Cut),
            read => skip -= read,
        }
    }
    Ok(claim)
}

/// The client at this address; a mapped one is the IPv4 address it stands for.
fn client(address: impl Into<IpAddr>, port: u16) -> Claim {
    Claim::Client(SocketAddr::new(address.into().to_canonical(), port))
}

/// Whether one of the two begins with the other.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    bytes.iter().zip(start).all(|(one, other)| one == other)
}

//! The sockets the gateway listens at: one for each thread, all at one address (`SO_REUSEPORT`).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use thiserror::Error;

use super::inherited::Inherited;

/// Why an address cannot be listened at.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Somebody listens there.
    #[error("cannot listen at {address}: somebody else does; stop that program, or choose another port")]
    Taken {
        /// The address.
        address: SocketAddr,
    },
    /// Ports below 1024 are for the privileged.
    #[error(
        "cannot listen at {address}: the system does not permit it; choose a port of 1024 or more, or give the program \
         the right (setcap cap_net_bind_service=+ep, or AmbientCapabilities=CAP_NET_BIND_SERVICE in systemd)"
    )]
    NotPermitted {
        /// The address.
        address: SocketAddr,
    },
    /// The address is another machine's.
    #[error(
        "cannot listen at {address}: this machine does not have that address; `ip addr` lists those it has, and \
         {any}:{port} stands for all of them",
        any = if address.is_ipv4() { "0.0.0.0" } else { "[::]" }, port = address.port()
    )]
    NotHere {
        /// The address.
        address: SocketAddr,
    },
    /// It is asked for more than once.
    #[error("{address} is listed more than once: what is spoken there must be said in one place")]
    Twice {
        /// The address.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("cannot listen at {address}: {source}")]
    Other {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl ListenError {
    fn new(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::Taken { address },
            io::ErrorKind::PermissionDenied => Self::NotPermitted { address },
            io::ErrorKind::AddrNotAvailable => Self::NotHere { address },
            _ => Self::Other { address, source },
        }
    }
}

/// Listens at every address with at least one socket for each thread, and answers in the order of `addresses`.
///
/// What was inherited for an address is used there, all of it: clients may wait in the queue of every such socket, and
/// would be cut off with it. So there can be more sockets than threads; whoever has `n` threads gives the `i`th socket
/// to thread `i % n`. Where fewer were inherited, threads share them. What was inherited for no address is closed.
///
/// Where the port is 0, an inherited socket at the same IP address is taken whatever its port is: after a restart the
/// gateway stays where it was.
pub(crate) fn open(
    addresses: &[SocketAddr],
    threads: NonZeroUsize,
    backlog: u32,
    mut inherited: Inherited,
) -> Result<Vec<Vec<TcpListener>>, ListenError> {
    if let Some((_, &address)) = addresses.iter().enumerate().find(|(index, _)| is_repeated(addresses, *index)) {
        return Err(ListenError::Twice { address });
    }
    let shares = inherited.share_out(addresses);
    for (&address, _) in addresses.iter().zip(&shares).filter(|(_, share)| share.is_empty()) {
        ask_for(address).map_err(|source| ListenError::new(address, source))?;
    }
    let opened = addresses.iter().zip(shares).map(|(&address, share)| {
        let sockets = if share.is_empty() { fresh(address, threads, backlog) } else { shared(share, threads) };
        sockets.map_err(|source| ListenError::new(address, source))
    });
    opened.collect()
}

/// Whether an address has been named before.
fn is_repeated(addresses: &[SocketAddr], index: usize) -> bool {
    addresses[index].port() != 0 && addresses[..index].contains(&addresses[index])
}

/// Asks the system whether somebody listens there. With `SO_REUSEPORT` it does not tell: another program of the same
/// user may listen there already, and each would get a part of the clients.
///
/// All addresses are asked for before any is listened at, so that those that overlap, such as `0.0.0.0:80` and
/// `[::]:80`, are not in each other's way. The system gives a connection to the most exact one.
fn ask_for(address: SocketAddr) -> io::Result<()> {
    if address.port() == 0 { Ok(()) } else { bound(address, false).map(drop) }
}

/// New sockets.
fn fresh(address: SocketAddr, threads: NonZeroUsize, backlog: u32) -> io::Result<Vec<TcpListener>> {
    let first = listening(address, backlog)?;
    let address = first.local_addr()?;
    let others = (1..threads.get()).map(|_| listening(address, backlog));
    std::iter::once(Ok(first)).chain(others).collect()
}

/// At least as many as there are threads, of those that exist.
fn shared(mut sockets: Vec<TcpListener>, threads: NonZeroUsize) -> io::Result<Vec<TcpListener>> {
    for index in 0..threads.get().saturating_sub(sockets.len()) {
        sockets.push(sockets[index].try_clone()?);
    }
    for socket in &sockets {
        socket.set_nonblocking(true)?;
        SockRef::from(socket).set_tcp_nodelay(true)?;
    }
    Ok(sockets)
}

fn listening(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = bound(address, true)?;
    // Connections have it from the socket they came in at, which saves a call for each of them.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

fn bound(address: SocketAddr, reuse_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of an earlier process that are not quite closed are no hindrance.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_the_remedy() {
        let address: SocketAddr = ([0, 0, 0, 0], 80).into();
        let told = |kind: io::ErrorKind| ListenError::new(address, kind.into()).to_string();
        assert!(told(io::ErrorKind::PermissionDenied).contains("choose a port of 1024 or more"));
        assert!(told(io::ErrorKind::AddrInUse).contains("choose another port"));
        assert!(told(io::ErrorKind::OutOfMemory).starts_with("cannot listen at 0.0.0.0:80: out of memory"));
    }
}

//! The sockets a server listens at: one for each thread, all at one address (`SO_REUSEPORT`), or one Unix socket that
//! all threads share.

use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{fs, iter};

use sluicegate_door::{Doorway, FrontDoor};
use socket2::{Domain, Protocol, SockRef, Type};
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
    /// Somebody listens at this Unix socket.
    #[error("cannot listen at {}: somebody else does; stop that program, or choose another name", path.display())]
    TakenUnix {
        /// Its name.
        path: PathBuf,
    },
    /// There is a file of that name, and it is no socket.
    #[error("cannot listen at {}: there is a file of that name, and it is no socket; choose another name", path.display())]
    NoSocket {
        /// Its name.
        path: PathBuf,
    },
    /// A Unix socket that cannot be had for another reason.
    #[error("cannot listen at {}: {source}", path.display())]
    Unix {
        /// Its name.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A socket that cannot be shared between threads.
    #[error("cannot share a socket: {0}")]
    Share(#[from] io::Error),
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
/// to thread `i % n`. Where fewer were inherited, threads share them.
///
/// Where the port is 0, an inherited socket at the same IP address is taken whatever its port is: after a restart the
/// gateway stays where it was.
pub(crate) fn open(
    addresses: &[SocketAddr],
    threads: NonZeroUsize,
    backlog: u32,
    inherited: &mut Inherited,
) -> Result<Sockets, ListenError> {
    if let Some((_, &address)) = addresses.iter().enumerate().find(|(index, _)| is_repeated(addresses, *index)) {
        return Err(ListenError::Twice { address });
    }
    let shares = inherited.share_out(addresses);
    for (&address, _) in addresses.iter().zip(&shares).filter(|(_, share)| share.is_empty()) {
        ask_for(address).map_err(|source| ListenError::new(address, source))?;
    }
    let opened = addresses.iter().zip(shares).map(|(&address, share)| {
        let sockets = if share.is_empty() { fresh(address, threads, backlog) } else { shared(share, threads) };
        let sockets = sockets.map_err(|source| ListenError::new(address, source))?;
        Ok(sockets.into_iter().map(Socket::Tcp).collect())
    });
    opened.collect()
}

/// Listens at a Unix socket, with a socket for each thread. One that was inherited is used; the name that a process
/// which is gone has left behind is taken over.
pub(crate) fn open_unix(
    path: &Path,
    threads: NonZeroUsize,
    backlog: u32,
    inherited: &mut Inherited,
) -> Result<Vec<Socket>, ListenError> {
    let named = || path.to_path_buf();
    let first = match inherited.take_unix(path) {
        Some(socket) => socket,
        None => {
            make_way(path)?;
            fresh_unix(path, backlog).map_err(|source| ListenError::Unix { path: named(), source })?
        }
    };
    first.set_nonblocking(true)?;
    let others = (1..threads.get()).map(|_| first.try_clone()).collect::<io::Result<Vec<_>>>()?;
    Ok(iter::once(first).chain(others).map(Socket::Unix).collect())
}

/// Removes the name that a process which is gone has left behind.
fn make_way(path: &Path) -> Result<(), ListenError> {
    let named = || path.to_path_buf();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(ListenError::Unix { path: named(), source }),
        Ok(file) if !file.file_type().is_socket() => Err(ListenError::NoSocket { path: named() }),
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|source| ListenError::Unix { path: named(), source })
            }
            _ => Err(ListenError::TakenUnix { path: named() }),
        },
    }
}

/// A new Unix socket, for everybody who may enter its folder: whoever cannot write to a socket cannot connect to it, and
/// by its own mask a process would keep all other users out.
fn fresh_unix(path: &Path, backlog: u32) -> io::Result<UnixListener> {
    const FOR_ALL: u32 = 0o666;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The name begins with the socket's own mode, less what the mask takes away: it is never wider than it is to be.
    // Systems other than Linux may refuse this, and lose nothing by it: nobody can connect before it listens.
    let _ = rustix::fs::fchmod(&socket, FOR_ALL.into());
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(FOR_ALL))?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// For each address, its sockets.
pub type Sockets = Vec<Vec<Socket>>;

/// A socket that is listened at.
#[derive(Debug)]
pub enum Socket {
    /// Of the network.
    Tcp(TcpListener),
    /// Of this machine.
    Unix(UnixListener),
}

impl Socket {
    /// The address, if it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
            Self::Unix(socket) => Self::Unix(socket.try_clone()?),
        })
    }

    /// A door at it, in the runtime this is called in.
    pub(crate) fn door(self, doorway: &Doorway) -> Option<FrontDoor> {
        match self {
            Self::Tcp(socket) => tokio::net::TcpListener::from_std(socket).ok().map(|it| doorway.at(it)),
            Self::Unix(socket) => tokio::net::UnixListener::from_std(socket).ok().map(|it| doorway.at_unix(it)),
        }
    }

    /// Takes the name of a Unix socket away.
    pub(crate) fn remove_name(&self) {
        if let Self::Unix(socket) = self
            && let Ok(at) = socket.local_addr()
            && let Some(path) = at.as_pathname()
        {
            // Somebody else may have done so.
            drop(fs::remove_file(path));
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
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

fn bound(address: SocketAddr, reuse_port: bool) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
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

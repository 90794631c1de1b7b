//! Listening sockets: one TCP socket per thread at the same address (`SO_REUSEPORT`), or one Unix socket shared
//! by all threads.

use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{fs, iter};

use crate::listener::{ConnectionLimits, LimitedListener};
use socket2::{Domain, Protocol, SockRef, Type};
use thiserror::Error;

use super::inherited::Inherited;

/// Error opening a listening socket.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Another socket listens at this address.
    #[error("cannot listen at {address}: address already in use; stop the other program, or choose another port")]
    AddressInUse {
        /// Listener address.
        address: SocketAddr,
    },
    /// The port is below 1024 and the process lacks the privilege.
    #[error(
        "cannot listen at {address}: permission denied; choose a port of 1024 or more, or grant the capability \
         (setcap cap_net_bind_service=+ep, or AmbientCapabilities=CAP_NET_BIND_SERVICE in systemd)"
    )]
    NotPermitted {
        /// Listener address.
        address: SocketAddr,
    },
    /// The address does not belong to this machine.
    #[error(
        "cannot listen at {address}: the address is not assigned to this host; `ip addr` lists its addresses, and \
         {any}:{port} listens on all of them",
        any = if address.is_ipv4() { "0.0.0.0" } else { "[::]" }, port = address.port()
    )]
    NotHere {
        /// Listener address.
        address: SocketAddr,
    },
    /// The address is listed more than once.
    #[error("{address} is listed more than once: an address can have only one listener")]
    DuplicateAddress {
        /// Listener address.
        address: SocketAddr,
    },
    /// Any other error.
    #[error("cannot listen at {address}: {source}")]
    Other {
        /// Listener address.
        address: SocketAddr,
        /// The I/O error.
        source: io::Error,
    },
    /// Another process listens at this Unix socket.
    #[error("cannot listen at {}: path already in use; stop the other program, or choose another path", path.display())]
    UnixInUse {
        /// Socket path.
        path: PathBuf,
    },
    /// The path exists and is not a socket.
    #[error("cannot listen at {}: the path exists and is not a socket; choose another path", path.display())]
    NotASocket {
        /// Socket path.
        path: PathBuf,
    },
    /// Any other error with a Unix socket.
    #[error("cannot listen at {}: {source}", path.display())]
    Unix {
        /// Socket path.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A socket cannot be cloned for another thread.
    #[error("cannot share a socket: {0}")]
    Share(#[from] io::Error),
}

impl ListenError {
    fn new(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::AddressInUse { address },
            io::ErrorKind::PermissionDenied => Self::NotPermitted { address },
            io::ErrorKind::AddrNotAvailable => Self::NotHere { address },
            _ => Self::Other { address, source },
        }
    }
}

/// Opens at least one socket per thread for every address; returns them in the order of `addresses`.
///
/// All inherited sockets of an address are used: connections may wait in the queue of each, and would be lost if
/// it were closed. So there can be more sockets than threads; with `n` threads the `i`th socket goes to thread `i
/// % n`. If fewer sockets were inherited, threads share them.
///
/// If the port is 0, an inherited socket at the same IP address is used regardless of its port: after a restart
/// the gateway keeps its port.
pub(crate) fn open(
    addresses: &[SocketAddr],
    threads: NonZeroUsize,
    backlog: u32,
    inherited: &mut Inherited,
) -> Result<Sockets, ListenError> {
    if let Some((_, &address)) = addresses.iter().enumerate().find(|(index, _)| is_repeated(addresses, *index)) {
        return Err(ListenError::DuplicateAddress { address });
    }
    let shares = inherited.assign(addresses);
    for (&address, _) in addresses.iter().zip(&shares).filter(|(_, share)| share.is_empty()) {
        probe_free(address).map_err(|source| ListenError::new(address, source))?;
    }
    let opened = addresses.iter().zip(shares).map(|(&address, share)| {
        let sockets = if share.is_empty() {
            bind_reuseport(address, threads, backlog)
        } else {
            clone_for_threads(share, threads)
        };
        let sockets = sockets.map_err(|source| ListenError::new(address, source))?;
        Ok(sockets.into_iter().map(Socket::Tcp).collect())
    });
    opened.collect()
}

/// Opens a Unix socket, one handle per thread. Uses an inherited socket; replaces a stale path left by a dead
/// process.
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
            remove_stale(path)?;
            bind_unix(path, backlog).map_err(|source| ListenError::Unix { path: named(), source })?
        }
    };
    first.set_nonblocking(true)?;
    let others = (1..threads.get()).map(|_| first.try_clone()).collect::<io::Result<Vec<_>>>()?;
    Ok(iter::once(first).chain(others).map(Socket::Unix).collect())
}

/// Removes a stale path left by a dead process.
fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let named = || path.to_path_buf();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(ListenError::Unix { path: named(), source }),
        Ok(file) if !file.file_type().is_socket() => Err(ListenError::NotASocket { path: named() }),
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|source| ListenError::Unix { path: named(), source })
            }
            _ => Err(ListenError::UnixInUse { path: named() }),
        },
    }
}

/// Binds a new Unix socket that every user with access to its directory can connect to. Connecting needs write
/// permission, and the process's umask would deny it to other users.
fn bind_unix(path: &Path, backlog: u32) -> io::Result<UnixListener> {
    const MODE_ALL: u32 = 0o666;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The path starts with the socket's mode minus the umask, so it is never wider than intended. Systems other than
    // Linux may refuse this; that is harmless, since no client can connect before the socket listens.
    let _ = rustix::fs::fchmod(&socket, MODE_ALL.into());
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(MODE_ALL))?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// Sockets per address.
pub type Sockets = Vec<Vec<Socket>>;

/// A listening socket.
#[derive(Debug)]
pub enum Socket {
    /// TCP socket.
    Tcp(TcpListener),
    /// Unix socket.
    Unix(UnixListener),
}

impl Socket {
    /// Local address; `None` for a Unix socket.
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

    /// Creates a limited listener on this socket, on the current runtime.
    pub(crate) fn listener(self, limits: &ConnectionLimits) -> Option<LimitedListener> {
        match self {
            Self::Tcp(socket) => tokio::net::TcpListener::from_std(socket).ok().map(|it| limits.wrap_tcp(it)),
            Self::Unix(socket) => tokio::net::UnixListener::from_std(socket).ok().map(|it| limits.wrap_unix(it)),
        }
    }

    /// Unlinks the path of a Unix socket.
    pub(crate) fn unlink(&self) {
        if let Self::Unix(socket) = self
            && let Ok(at) = socket.local_addr()
            && let Some(path) = at.as_pathname()
        {
            // The path may already be gone.
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

/// True if the address also occurs earlier in the list.
fn is_repeated(addresses: &[SocketAddr], index: usize) -> bool {
    addresses[index].port() != 0 && addresses[..index].contains(&addresses[index])
}

/// Checks that no other socket listens at the address. `SO_REUSEPORT` hides this: another program of the same
/// user may listen there already, and each would get a part of the connections.
///
/// All addresses are checked before any is bound, so that overlapping ones such as `0.0.0.0:80` and `[::]:80` do
/// not conflict. The kernel gives a connection to the most specific socket.
fn probe_free(address: SocketAddr) -> io::Result<()> {
    if address.port() == 0 { Ok(()) } else { bind(address, false).map(drop) }
}

/// Binds new sockets with `SO_REUSEPORT`.
fn bind_reuseport(address: SocketAddr, threads: NonZeroUsize, backlog: u32) -> io::Result<Vec<TcpListener>> {
    let first = bind_and_listen(address, backlog)?;
    let address = first.local_addr()?;
    let others = (1..threads.get()).map(|_| bind_and_listen(address, backlog));
    std::iter::once(Ok(first)).chain(others).collect()
}

/// Clones existing sockets until there is at least one per thread.
fn clone_for_threads(mut sockets: Vec<TcpListener>, threads: NonZeroUsize) -> io::Result<Vec<TcpListener>> {
    for index in 0..threads.get().saturating_sub(sockets.len()) {
        sockets.push(sockets[index].try_clone()?);
    }
    for socket in &sockets {
        socket.set_nonblocking(true)?;
        SockRef::from(socket).set_tcp_nodelay(true)?;
    }
    Ok(sockets)
}

fn bind_and_listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = bind(address, true)?;
    // Accepted connections inherit the option, which saves a system call for each.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

fn bind(address: SocketAddr, reuse_port: bool) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of an earlier process in TIME_WAIT do not block the bind.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_remedy() {
        let address: SocketAddr = ([0, 0, 0, 0], 80).into();
        let message = |kind: io::ErrorKind| ListenError::new(address, kind.into()).to_string();
        assert!(message(io::ErrorKind::PermissionDenied).contains("choose a port of 1024 or more"));
        assert!(message(io::ErrorKind::AddrInUse).contains("choose another port"));
        assert!(message(io::ErrorKind::OutOfMemory).starts_with("cannot listen at 0.0.0.0:80: out of memory"));
    }
}

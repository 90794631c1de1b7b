//! Inherited listening sockets (socket activation): opened by systemd or by the process that this one replaces.
//!
//! The number of sockets is in `LISTEN_FDS`; they are the file descriptors from 3 on. Sockets are matched by the
//! address they are bound to, so names (`LISTEN_FDNAMES`) are not needed.

use std::env;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;

use listenfd::ListenFd;
use socket2::SockRef;
use thiserror::Error;

/// Maximum number of inherited sockets.
const MAX_SOCKETS: u32 = 4_096;

/// Error using inherited sockets.
#[derive(Debug, Error)]
pub enum InheritedError {
    /// `LISTEN_FDS` is not a valid number.
    #[error("LISTEN_FDS is '{value}': it must be the number of inherited sockets, at most {MAX_SOCKETS}")]
    Count {
        /// Its value, in printable form.
        value: String,
    },
    /// A file descriptor is not a listening socket.
    #[error(
        "file descriptor {file} in LISTEN_FDS is not a listening socket: use only ListenStream= and Accept=no \
         ({reason})"
    )]
    NotListening {
        /// The file descriptor.
        file: usize,
        /// The I/O error.
        reason: io::Error,
    },
}

/// Inherited sockets that are not used yet. Dropping this closes them.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    tcp: Vec<(SocketAddr, TcpListener)>,
    unix: Vec<UnixListener>,
}

impl Inherited {
    /// Creates an empty set.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Takes the sockets named by the environment and removes the variables. Call once, as early as possible: before
    /// a second thread exists, and before another file can get a descriptor that belongs to a socket.
    pub(crate) fn from_env() -> Result<Self, InheritedError> {
        let Some(value) = env::var_os("LISTEN_FDS") else { return Ok(Self::none()) };
        let count = value.to_str().and_then(|value| value.parse::<u32>().ok());
        if count.is_none_or(|count| count > MAX_SOCKETS) {
            return Err(InheritedError::Count { value: value.to_string_lossy().escape_debug().to_string() });
        }
        let mut files = ListenFd::from_env();
        let mut inherited = Self::none();
        for index in 0..files.len() {
            let result = inherited.take(&mut files, index);
            result.map_err(|reason| InheritedError::NotListening { file: index + 3, reason })?;
        }
        Ok(inherited)
    }

    fn take(&mut self, files: &mut ListenFd, index: usize) -> io::Result<()> {
        let not_found = || io::Error::new(io::ErrorKind::NotFound, "it does not exist");
        // A descriptor of another kind is not consumed.
        if let Ok(Some(socket)) = files.take_unix_listener(index) {
            ensure_listening(&SockRef::from(&socket))?;
            self.unix.push(socket);
            return Ok(());
        }
        let socket = files.take_tcp_listener(index)?.ok_or_else(not_found)?;
        ensure_listening(&SockRef::from(&socket))?;
        self.tcp.push((socket.local_addr()?, socket));
        Ok(())
    }

    /// Takes the Unix socket with this path.
    pub(crate) fn take_unix(&mut self, path: &Path) -> Option<UnixListener> {
        let position = self.unix_position(path)?;
        Some(self.unix.swap_remove(position))
    }

    /// True if there is a Unix socket with this path.
    pub(crate) fn has_unix(&self, path: &Path) -> bool {
        self.unix_position(path).is_some()
    }

    fn unix_position(&self, path: &Path) -> Option<usize> {
        let matches_path = |socket: &UnixListener| socket.local_addr().is_ok_and(|at| at.as_pathname() == Some(path));
        self.unix.iter().position(matches_path)
    }

    /// Addresses of the TCP sockets, each once.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<_> = self.tcp.iter().map(|&(address, _)| address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Assigns the sockets to these addresses. Addresses with a port come before port 0, and exact matches before
    /// wildcard matches.
    pub(super) fn assign(&mut self, addresses: &[SocketAddr]) -> Vec<Vec<TcpListener>> {
        let mut shares: Vec<_> = addresses.iter().map(|&address| self.take_at(address)).collect();
        for (address, share) in addresses.iter().zip(&mut shares).filter(|(_, share)| share.is_empty()) {
            if let Some(at) = self.tcp.iter().find(|(at, socket)| covers(*at, socket, *address)).map(|&(at, _)| at) {
                *share = self.take_at(at);
            }
        }
        shares
    }

    fn take_at(&mut self, address: SocketAddr) -> Vec<TcpListener> {
        self.tcp.extract_if(.., |(at, _)| *at == address).map(|(_, socket)| socket).collect()
    }
}

fn ensure_listening(socket: &SockRef<'_>) -> io::Result<()> {
    if socket.is_listener()? {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket is not listening"))
}

/// True if a socket bound to `at` also serves `wanted`, although the addresses differ.
fn covers(at: SocketAddr, socket: &TcpListener, wanted: SocketAddr) -> bool {
    let port = wanted.port() == 0 || wanted.port() == at.port();
    // systemd binds [::] if only a port is given; that socket accepts IPv4 as well.
    let both = at.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        && wanted.is_ipv4()
        && wanted.ip().is_unspecified()
        && SockRef::from(socket).only_v6().is_ok_and(|only| !only);
    port && (at.ip() == wanted.ip() || both)
}

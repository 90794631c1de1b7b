//! Listening sockets that somebody opened for this process: systemd, or the process it takes the place of.
//!
//! Both say how many there are in `LISTEN_FDS`; the sockets are the files from 3 on. Which is which is told by the
//! addresses they are bound to, so names (`LISTEN_FDNAMES`) are not needed.

use std::env;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;

use listenfd::ListenFd;
use socket2::SockRef;
use thiserror::Error;

/// More than anybody hands over.
const MOST: u32 = 4_096;

/// Why sockets that were handed over cannot be used.
#[derive(Debug, Error)]
pub enum InheritedError {
    /// The number of sockets is none.
    #[error("LISTEN_FDS is '{value}': it must be the number of sockets handed over, at most {MOST}")]
    Count {
        /// What it says, in printable form.
        value: String,
    },
    /// A file is something else.
    #[error(
        "file {file} was handed over in LISTEN_FDS but is no listening socket: give only sockets with \
         ListenStream= and Accept=no ({reason})"
    )]
    NotListening {
        /// Its number.
        file: usize,
        /// What the system said.
        reason: io::Error,
    },
}

/// Sockets that were handed over and that nobody has taken yet. Dropping it closes them.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    network: Vec<(SocketAddr, TcpListener)>,
    unix: Vec<UnixListener>,
}

impl Inherited {
    /// None.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Those that the environment tells of, which it then no longer does. To be called once, as early as possible:
    /// before there is a second thread, and before any other file could take a number meant for a socket.
    pub(crate) fn from_env() -> Result<Self, InheritedError> {
        let Some(value) = env::var_os("LISTEN_FDS") else { return Ok(Self::none()) };
        let count = value.to_str().and_then(|value| value.parse::<u32>().ok());
        if count.is_none_or(|count| count > MOST) {
            return Err(InheritedError::Count { value: value.to_string_lossy().escape_debug().to_string() });
        }
        let mut files = ListenFd::from_env();
        let mut inherited = Self::none();
        for index in 0..files.len() {
            let taken = inherited.take(&mut files, index);
            taken.map_err(|reason| InheritedError::NotListening { file: index + 3, reason })?;
        }
        Ok(inherited)
    }

    fn take(&mut self, files: &mut ListenFd, index: usize) -> io::Result<()> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "it is not there");
        // What is of another kind is left where it is.
        if let Ok(Some(socket)) = files.take_unix_listener(index) {
            listens(&SockRef::from(&socket))?;
            self.unix.push(socket);
            return Ok(());
        }
        let socket = files.take_tcp_listener(index)?.ok_or_else(gone)?;
        listens(&SockRef::from(&socket))?;
        self.network.push((socket.local_addr()?, socket));
        Ok(())
    }

    /// The Unix socket of this name.
    pub(crate) fn take_unix(&mut self, path: &Path) -> Option<UnixListener> {
        let position = self.position_of(path)?;
        Some(self.unix.swap_remove(position))
    }

    /// Whether there is a Unix socket of this name.
    pub(crate) fn has_unix(&self, path: &Path) -> bool {
        self.position_of(path).is_some()
    }

    fn position_of(&self, path: &Path) -> Option<usize> {
        let is_it = |socket: &UnixListener| socket.local_addr().is_ok_and(|at| at.as_pathname() == Some(path));
        self.unix.iter().position(is_it)
    }

    /// Where they listen, each address once.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<_> = self.network.iter().map(|&(address, _)| address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// The sockets for each of these addresses. Whoever names a port comes before whoever takes any, and whoever
    /// names the very address before whoever is served by a wider one.
    pub(super) fn share_out(&mut self, addresses: &[SocketAddr]) -> Vec<Vec<TcpListener>> {
        let mut shares: Vec<_> = addresses.iter().map(|&address| self.take_all(address)).collect();
        for (address, share) in addresses.iter().zip(&mut shares).filter(|(_, share)| share.is_empty()) {
            if let Some(at) = self.network.iter().find(|(at, socket)| serves(*at, socket, *address)).map(|&(at, _)| at)
            {
                *share = self.take_all(at);
            }
        }
        shares
    }

    fn take_all(&mut self, address: SocketAddr) -> Vec<TcpListener> {
        self.network.extract_if(.., |(at, _)| *at == address).map(|(_, socket)| socket).collect()
    }
}

fn listens(socket: &SockRef<'_>) -> io::Result<()> {
    if socket.is_listener()? {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a socket, but nobody listens at it"))
}

/// Whether a socket at `at` does for somebody who wants to listen at `wanted`, though that is not the same.
fn serves(at: SocketAddr, socket: &TcpListener, wanted: SocketAddr) -> bool {
    let port = wanted.port() == 0 || wanted.port() == at.port();
    // systemd listens at [::] where only a port is given, and IPv4 comes in there as well.
    let both = at.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        && wanted.is_ipv4()
        && wanted.ip().is_unspecified()
        && SockRef::from(socket).only_v6().is_ok_and(|only| !only);
    port && (at.ip() == wanted.ip() || both)
}

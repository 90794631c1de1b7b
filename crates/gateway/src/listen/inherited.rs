//! Listening sockets that somebody opened for this process: systemd, or the process it takes the place of.
//!
//! Both say how many there are in `LISTEN_FDS`; the sockets are the files from 3 on. Which is which is told by the
//! addresses they are bound to, so names (`LISTEN_FDNAMES`) are not needed.

use std::env;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};

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
        "file {file} was handed over in LISTEN_FDS but is no listening TCP socket: give only sockets with \
         ListenStream=ADDRESS:PORT and Accept=no ({reason})"
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
pub(crate) struct Inherited(Vec<(SocketAddr, TcpListener)>);

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
        let sockets = (0..files.len()).map(|index| {
            let not_listening = |reason| InheritedError::NotListening { file: index + 3, reason };
            take(&mut files, index).map_err(not_listening)
        });
        sockets.collect::<Result<_, _>>().map(Self)
    }

    /// Where they listen, each address once.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<_> = self.0.iter().map(|&(address, _)| address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// The sockets for each of these addresses. Whoever names a port comes before whoever takes any, and whoever
    /// names the very address before whoever is served by a wider one.
    pub(super) fn share_out(&mut self, addresses: &[SocketAddr]) -> Vec<Vec<TcpListener>> {
        let mut shares: Vec<_> = addresses.iter().map(|&address| self.take_all(address)).collect();
        for (address, share) in addresses.iter().zip(&mut shares).filter(|(_, share)| share.is_empty()) {
            if let Some(at) = self.0.iter().find(|(at, socket)| serves(*at, socket, *address)).map(|&(at, _)| at) {
                *share = self.take_all(at);
            }
        }
        shares
    }

    fn take_all(&mut self, address: SocketAddr) -> Vec<TcpListener> {
        self.0.extract_if(.., |(at, _)| *at == address).map(|(_, socket)| socket).collect()
    }
}

fn take(files: &mut ListenFd, index: usize) -> io::Result<(SocketAddr, TcpListener)> {
    let gone = || io::Error::new(io::ErrorKind::NotFound, "it is not there");
    let socket = files.take_tcp_listener(index)?.ok_or_else(gone)?;
    if !SockRef::from(&socket).is_listener()? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a socket, but nobody listens at it"));
    }
    Ok((socket.local_addr()?, socket))
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

//! What is told to whoever started this process: systemd, or the process it takes the place of.
//!
//! Both are told in a datagram to the socket named in `NOTIFY_SOCKET`. A successor is told two such sockets: there its
//! predecessor's, which hears only that it is ready, and in [`SERVICE`] the one of systemd, for everything after that.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// The variable that names the socket to tell.
pub(super) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// The variable that makes a process a successor: the socket of systemd, or nothing if there is none.
pub(super) const SERVICE: &str = "SLUICEGATE_NOTIFY_SOCKET";
/// What says that somebody serves.
const READY: &str = "READY=1";
/// How long a socket may be full. Nobody's ears are worth more of our time.
const PATIENCE: Duration = Duration::from_secs(1);

/// Something worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// This process serves: after it started, and after it read its rules again.
    Ready,
    /// It reads its rules again.
    Reloading,
    /// It stops.
    Stopping,
    /// Another process is the service from now on.
    Successor(u32),
}

/// Tells whoever wants to know. Where nobody does, nothing happens.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Until it has been told.
    predecessor: Mutex<Option<OsString>>,
    service: Option<OsString>,
}

impl Notices {
    /// Those the environment names.
    pub(crate) fn from_env() -> Self {
        Self::new(env::var_os(NOTIFY_SOCKET), env::var_os(SERVICE))
    }

    /// From the values of the two variables.
    pub(super) fn new(notify_socket: Option<OsString>, service: Option<OsString>) -> Self {
        let (predecessor, service) = match service {
            Some(service) => (notify_socket, Some(service)),
            None => (None, notify_socket),
        };
        let named = |name: &OsString| !name.is_empty();
        Self { predecessor: Mutex::new(predecessor.filter(named)), service: service.filter(named) }
    }

    /// The socket of systemd, if there is one.
    pub(super) fn service(&self) -> Option<&OsStr> {
        self.service.as_deref()
    }

    /// Tells. An error means that nobody heard it; there is nothing to be done about it but to say so.
    pub(crate) fn tell(&self, notice: Notice) -> io::Result<()> {
        let predecessor = if notice == Notice::Ready { self.predecessor.lock().take() } else { None };
        match predecessor.as_deref().or(self.service()) {
            Some(socket) => send(socket, &notice.text()),
            None => Ok(()),
        }
    }
}

impl Notice {
    fn text(self) -> String {
        match self {
            Self::Ready => READY.to_owned(),
            Self::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_micros()),
            Self::Stopping => "STOPPING=1".to_owned(),
            Self::Successor(process) => format!("MAINPID={process}"),
        }
    }
}

/// Whether a datagram says that its sender serves.
pub(super) fn says_ready(datagram: &[u8]) -> bool {
    datagram.split(|byte| *byte == b'\n').any(|line| line == READY.as_bytes())
}

fn send(socket: &OsStr, text: &str) -> io::Result<()> {
    let address = address(socket)?;
    let from = UnixDatagram::unbound()?;
    from.set_write_timeout(Some(PATIENCE))?;
    from.send_to_addr(text.as_bytes(), &address).map(drop)
}

/// A path, or with `@` a name in the abstract namespace.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(socket),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "NOTIFY_SOCKET is neither a path nor an @ name")),
    }
}

/// As systemd compares it with the moment at which it asked for the reload.
fn monotonic_micros() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

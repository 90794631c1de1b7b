//! `sd_notify` messages to systemd and to the process that this one replaces.
//!
//! Messages are datagrams to the socket in `NOTIFY_SOCKET`. A successor has two such sockets: `NOTIFY_SOCKET` is
//! its predecessor's, which only receives readiness; [`SERVICE_SOCKET`] names systemd's, for all later messages.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// Variable that names the notification socket.
pub(super) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// Variable that marks a process as a successor: systemd's socket, or empty if there is none.
pub(super) const SERVICE_SOCKET: &str = "SLUICEGATE_NOTIFY_SOCKET";
/// Message that reports readiness.
const READY: &str = "READY=1";
/// Send timeout if the socket buffer is full.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// A state change to notify about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceNotice {
    /// The process serves: after startup, and after a rule reload.
    Ready,
    /// The process reloads its rules.
    Reloading,
    /// The process stops.
    Stopping,
    /// The process with this id is the service's main process from now on.
    Successor(u32),
}

/// Sends notifications to systemd or to the predecessor. Does nothing if neither is set.
#[derive(Debug, Default)]
pub(crate) struct ServiceNotifier {
    /// Set until the predecessor has been notified.
    predecessor: Mutex<Option<OsString>>,
    service: Option<OsString>,
}

impl ServiceNotifier {
    /// Creates a notifier from the environment.
    pub(crate) fn from_env() -> Self {
        Self::new(env::var_os(NOTIFY_SOCKET), env::var_os(SERVICE_SOCKET))
    }

    /// Creates a notifier from the values of the two variables.
    pub(super) fn new(notify_socket: Option<OsString>, service: Option<OsString>) -> Self {
        let (predecessor, service) = match service {
            Some(service) => (notify_socket, Some(service)),
            None => (None, notify_socket),
        };
        let named = |name: &OsString| !name.is_empty();
        Self { predecessor: Mutex::new(predecessor.filter(named)), service: service.filter(named) }
    }

    /// systemd's socket, if there is one.
    pub(super) fn service(&self) -> Option<&OsStr> {
        self.service.as_deref()
    }

    /// Sends a notification. An error means that it was not received.
    pub(crate) fn notify(&self, notice: ServiceNotice) -> io::Result<()> {
        let predecessor = if notice == ServiceNotice::Ready { self.predecessor.lock().take() } else { None };
        match predecessor.as_deref().or(self.service()) {
            Some(socket) => send(socket, &notice.to_message()),
            None => Ok(()),
        }
    }
}

impl ServiceNotice {
    fn to_message(self) -> String {
        match self {
            Self::Ready => READY.to_owned(),
            Self::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_micros()),
            Self::Stopping => "STOPPING=1".to_owned(),
            Self::Successor(process) => format!("MAINPID={process}"),
        }
    }
}

/// True if a datagram reports readiness.
pub(super) fn is_ready_message(datagram: &[u8]) -> bool {
    datagram.split(|byte| *byte == b'\n').any(|line| line == READY.as_bytes())
}

fn send(socket: &OsStr, text: &str) -> io::Result<()> {
    let address = address(socket)?;
    let from = UnixDatagram::unbound()?;
    from.set_write_timeout(Some(SEND_TIMEOUT))?;
    from.send_to_addr(text.as_bytes(), &address).map(drop)
}

/// Parses a path, or a name in the abstract namespace if it begins with `@`.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(socket),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "NOTIFY_SOCKET is neither a path nor an @ name")),
    }
}

/// Monotonic time, which systemd compares with the time of its reload request.
fn monotonic_micros() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

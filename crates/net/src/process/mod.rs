//! The server process: inherited sockets, state of its predecessor, and restart by a successor.
//!
//! - `inherited`: listening sockets passed by systemd or by the previous process (`LISTEN_FDS`)
//! - `sockets`: opens TCP (`SO_REUSEPORT`) and Unix listening sockets
//! - `restart`: socket hand-over to a new process, and `sd_notify` messages

mod inherited;
mod restart;
mod sockets;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{env, fs};

use sluicegate_engine::clock::ClockHandle;
use thiserror::Error;

pub(crate) use inherited::Inherited;
pub use inherited::InheritedError;
use restart::{Executable, STATE_FILE_VAR, ServiceNotifier};
pub use restart::{PrivateDir, RestartError, ServiceNotice};
#[cfg(test)]
pub(crate) use sockets::open as open_sockets;
pub use sockets::{ListenError, Socket, Sockets};

/// Listen backlog of each socket.
const LISTEN_BACKLOG: u32 = 1_024;

/// This process, with its inherited sockets and its means to start a successor.
#[derive(Debug)]
pub struct Process {
    inherited: Inherited,
    executable: Option<Executable>,
    notifier: ServiceNotifier,
    inherited_state: Option<Vec<u8>>,
    /// All listening sockets, to be passed to the successor.
    open_sockets: Vec<Socket>,
    /// Paths of Unix sockets that this process created.
    created_paths: Vec<PathBuf>,
}

/// The inherited sockets are invalid.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ProcessError(#[from] InheritedError);

impl Process {
    /// Takes over listening sockets passed by systemd or by the process that this one replaces. Call once, first
    /// thing in the program, before it has a second thread.
    pub fn from_env() -> Result<Self, ProcessError> {
        Ok(Self {
            inherited: Inherited::from_env()?,
            // A process that does not know its executable cannot be restarted; this is reported at the restart.
            executable: Executable::current().ok(),
            notifier: ServiceNotifier::from_env(),
            inherited_state: read_inherited_state(),
            open_sockets: Vec::new(),
            created_paths: Vec::new(),
        })
    }

    /// A process without inherited sockets that cannot be restarted, for servers embedded in other programs.
    pub fn standalone() -> Self {
        let (inherited, notices) = (Inherited::none(), ServiceNotifier::default());
        Self {
            inherited,
            executable: None,
            notifier: notices,
            inherited_state: None,
            open_sockets: Vec::new(),
            created_paths: Vec::new(),
        }
    }

    /// Takes the state that the previous process passed to [`restart`](Self::restart).
    pub fn take_inherited_state(&mut self) -> Option<Vec<u8>> {
        self.inherited_state.take()
    }

    /// Opens sockets for all addresses, at least one per thread. Inherited sockets are used first.
    pub fn listen(&mut self, addresses: &[SocketAddr], threads: NonZeroUsize) -> Result<Sockets, ListenError> {
        let sockets = sockets::open(addresses, threads, LISTEN_BACKLOG, &mut self.inherited)?;
        self.retain_for_restart(sockets.iter().flatten())?;
        Ok(sockets)
    }

    /// Opens a Unix socket that all threads share.
    pub fn listen_unix(&mut self, path: &Path, threads: NonZeroUsize) -> Result<Vec<Socket>, ListenError> {
        let is_made = !self.inherited.has_unix(path);
        let sockets = sockets::open_unix(path, threads, LISTEN_BACKLOG, &mut self.inherited)?;
        if is_made {
            self.created_paths.push(path.to_path_buf());
        }
        self.retain_for_restart(sockets.first())?;
        Ok(sockets)
    }

    fn retain_for_restart<'s>(&mut self, sockets: impl IntoIterator<Item = &'s Socket>) -> Result<(), ListenError> {
        for socket in sockets {
            self.open_sockets.push(socket.try_clone()?);
        }
        Ok(())
    }

    /// Closes inherited sockets that were not claimed.
    pub fn close_unclaimed(&mut self) {
        self.inherited = Inherited::none();
    }

    /// Notifies the parent (systemd or the previous process). Errors are ignored.
    pub fn notify(&self, notice: ServiceNotice) {
        drop(self.notifier.notify(notice));
    }

    /// Starts this program again on the same sockets and hands `state` over to it. Once the new process serves, the
    /// servers of this one stop with [`Shutdown::HandOver`](crate::Shutdown). If the new process fails, this one
    /// continues. Returns the process id of the new process.
    pub async fn restart(&self, state: &[u8], clock: &ClockHandle) -> Result<u32, RestartError> {
        let Some(program) = &self.executable else { return Err(RestartError::UnknownExecutable) };
        let successor = restart::start_successor(program, &self.open_sockets, &self.notifier, state, clock).await?;
        Ok(successor.pid)
    }

    /// Closes the sockets of servers that will not start. Removes the paths of Unix sockets that this process
    /// created; inherited ones are still served by the process that passed them.
    pub fn abandon_sockets(&mut self) {
        self.open_sockets.clear();
        for path in self.created_paths.drain(..) {
            // The path may already be gone.
            drop(fs::remove_file(path));
        }
    }

    /// Closes the sockets before the process stops. `remove_unix_paths` also unlinks Unix sockets; a successor on the
    /// same sockets still needs the paths.
    pub fn release_sockets(&mut self, remove_unix_paths: bool) {
        for socket in self.open_sockets.drain(..) {
            if remove_unix_paths {
                socket.unlink();
            }
        }
    }
}

/// Reads the state that the previous process left in a file. An unreadable file is ignored: this process starts
/// without it.
fn read_inherited_state() -> Option<Vec<u8>> {
    fs::read(env::var_os(STATE_FILE_VAR)?).ok()
}

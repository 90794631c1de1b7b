//! Starts a successor process, passes it the sockets, and waits until it is ready.

use std::fs;
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use sluicegate_engine::clock::ClockHandle;
use thiserror::Error;
use tokio::net::UnixDatagram;
use tokio::time::{MissedTickBehavior, interval};

use super::executable::Executable;
use super::private_dir::PrivateDir;
use super::sd_notify::{self, NOTIFY_SOCKET, SERVICE_SOCKET, ServiceNotice, ServiceNotifier};

/// Variable that names the file with the predecessor's state.
pub(crate) const STATE_FILE_VAR: &str = "SLUICEGATE_STATE";
/// Maximum time until a successor is ready.
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the checks that the successor still runs.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// First file descriptor that is passed.
const FIRST_HANDED_FD: RawFd = 3;

/// Restart error. This process continues to serve.
#[derive(Debug, Error)]
pub enum RestartError {
    /// This is process 1: if it exits, the container or machine stops.
    #[error("cannot restart: this process has PID 1, and the container ends with it; restart the container")]
    IsInit,
    /// The executable of this process is not known.
    #[error("cannot restart: the executable of this process is unknown")]
    UnknownExecutable,
    /// A resource for the restart could not be created.
    #[error("cannot restart: {step}: {source}")]
    Prepare {
        /// Name of the resource.
        step: &'static str,
        /// The I/O error.
        source: io::Error,
    },
    /// The executable does not start.
    #[error("cannot restart: {} does not start: {source}", program.display())]
    Start {
        /// Path of the executable.
        program: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The successor exited before it was ready.
    #[error(
        "the new process exited before it was ready ({status}): see its output; the old process continues to serve"
    )]
    Ended {
        /// Its exit status.
        status: ExitStatus,
    },
    /// The successor was not ready in time and was stopped.
    #[error("the new process was not ready within {} s and was stopped; the old process continues to serve", READY_TIMEOUT.as_secs())]
    ReadyTimeout,
}

/// The process that replaced this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuccessorProcess {
    /// Process id.
    pub(crate) pid: u32,
}

/// Starts the executable with all listening sockets and the saved state, and waits until it is ready. The caller
/// then stops accepting and drains.
///
/// Dropping the future stops the new process. The caller must not start a second restart while one is in
/// progress.
pub(crate) async fn start_successor<S: AsFd>(
    program: &Executable,
    sockets: &[S],
    notices: &ServiceNotifier,
    saved_state: &[u8],
    clock: &ClockHandle,
) -> Result<SuccessorProcess, RestartError> {
    if process::id() == 1 {
        return Err(RestartError::IsInit);
    }
    let prepare_error = |step| move |source| RestartError::Prepare { step, source };
    let folder =
        PrivateDir::new("restart").map_err(prepare_error("cannot create a directory for the readiness socket"))?;
    let path = folder.path().join("ready");
    let ready_socket = UnixDatagram::bind(&path).map_err(prepare_error("cannot create the readiness socket"))?;

    let mut command = program.command();
    pass_sockets(&mut command, sockets).map_err(prepare_error("cannot pass the listening sockets"))?;
    pass_notify_sockets(&mut command, &path, notices);
    let state = folder.path().join("state");
    fs::write(&state, saved_state).map_err(prepare_error("cannot pass the saved state"))?;
    command.env(STATE_FILE_VAR, &state);
    let child = command.spawn();
    drop(command);
    let child = child.map_err(|source| RestartError::Start { program: program.file.clone(), source })?;

    let started = wait_ready(ChildGuard(Some(child)), &ready_socket, clock).await?;
    let successor = SuccessorProcess { pid: started.release() };
    // The successor serves even if systemd cannot be notified.
    drop(notices.notify(ServiceNotice::Successor(successor.pid)));
    Ok(successor)
}

/// Passes the sockets as file descriptors from 3 on. `LISTEN_PID` is not set: the process id is not known before
/// the process exists.
fn pass_sockets<S: AsFd>(command: &mut Command, sockets: &[S]) -> io::Result<()> {
    let mapping = |(child_fd, socket): (RawFd, &S)| {
        let parent_fd = socket.as_fd().try_clone_to_owned()?;
        Ok(FdMapping { parent_fd, child_fd })
    };
    let mappings = (FIRST_HANDED_FD..).zip(sockets).map(mapping).collect::<io::Result<Vec<_>>>()?;
    command.fd_mappings(mappings).map_err(io::Error::other)?;
    command.env("LISTEN_FDS", sockets.len().to_string());
    for stale in ["LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDNAMES", "LISTEN_FDS_FIRST_FD"] {
        command.env_remove(stale);
    }
    Ok(())
}

/// Sets the notification sockets of the successor.
fn pass_notify_sockets(command: &mut Command, ready_socket: &Path, notices: &ServiceNotifier) {
    command.env(NOTIFY_SOCKET, ready_socket).env(SERVICE_SOCKET, notices.service().unwrap_or_default());
}

async fn wait_ready(
    mut started: ChildGuard,
    ready_socket: &UnixDatagram,
    clock: &ClockHandle,
) -> Result<ChildGuard, RestartError> {
    let prepare_error = |step| move |source| RestartError::Prepare { step, source };
    let mut timeout = clock.sleep(READY_TIMEOUT);
    let mut poll_interval = interval(POLL_INTERVAL);
    poll_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut datagram = [0; 4_096];
    loop {
        let is_ready = tokio::select! {
            biased;
            received = ready_socket.recv(&mut datagram) => {
                let length = received.map_err(prepare_error("cannot read from the readiness socket"))?;
                sd_notify::is_ready_message(&datagram[..length])
            }
            _ = poll_interval.tick() => false,
            () = &mut timeout => return Err(RestartError::ReadyTimeout),
        };
        // A successor that reported readiness may have exited since.
        if let Some(status) =
            started.exit_status().map_err(prepare_error("cannot get the status of the new process"))?
        {
            return Err(RestartError::Ended { status });
        }
        if is_ready {
            return Ok(started);
        }
    }
}

/// Child process that is killed on drop unless released.
struct ChildGuard(Option<Child>);

impl ChildGuard {
    /// Exit status, if the process has exited.
    fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.as_mut().map_or(Ok(None), Child::try_wait)
    }

    /// Keeps the process running and returns its id.
    fn release(mut self) -> u32 {
        let child = self.0.take();
        let process = child.as_ref().map_or(0, Child::id);
        child.into_iter().for_each(reap_in_background);
        process
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // This fails only if the process has exited and was waited for.
            drop(child.kill());
            reap_in_background(child);
        }
    }
}

/// Waits for a process on a separate thread, so that it does not stay a zombie. The wait may outlast this
/// process.
fn reap_in_background(mut child: Child) {
    let wait = move || drop(child.wait());
    // Without a thread, the zombie stays until this process exits.
    drop(thread::Builder::new().name("successor".to_owned()).spawn(wait));
}

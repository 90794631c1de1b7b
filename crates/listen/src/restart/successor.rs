//! Starts a successor, hands it the sockets, and waits until it serves.

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

use super::folder::PrivateFolder;
use super::notices::{self, NOTIFY_SOCKET, Notice, Notices, SERVICE};
use super::program::Program;

/// Names the file with what the rules of the predecessor remembered.
pub(crate) const STATE: &str = "SLUICEGATE_STATE";
/// How long a successor may take until it serves.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether the successor is still there.
const EVERY: Duration = Duration::from_millis(20);
/// The first file that is handed over.
const FIRST: RawFd = 3;

/// Why no other process has taken the place of this one, which goes on.
#[derive(Debug, Error)]
pub enum RestartError {
    /// Everything ends with this process.
    #[error("cannot restart: this process is the first of its container, which ends with it; restart the container")]
    First,
    /// Nobody knows which program this is.
    #[error("cannot restart: it is not known which program this process runs")]
    Unnamed,
    /// Something it takes could not be had.
    #[error("cannot restart: {what}: {source}")]
    Prepare {
        /// What.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The program does not start.
    #[error("cannot restart: {} does not start: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It started, and ended before it served.
    #[error("the new process ended before it served ({status}): what it wrote says why; the old one goes on")]
    Ended {
        /// How it ended.
        status: ExitStatus,
    },
    /// It did not serve in time, and was stopped.
    #[error("the new process did not serve within {} s and was stopped; the old one goes on", PATIENCE.as_secs())]
    Silent,
}

/// The process that has taken the place of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Successor {
    /// Its number.
    pub(crate) process: u32,
}

/// Starts `program` with all listening sockets and what the rules remember, and waits until it serves. Then the caller stops accepting and drains.
///
/// Dropping the future stops what was started. Only one at a time is of use: the caller does not begin a second while
/// the first is under way.
pub(crate) async fn take_over<S: AsFd>(
    program: &Program,
    sockets: &[S],
    notices: &Notices,
    remembered: &[u8],
    clock: &ClockHandle,
) -> Result<Successor, RestartError> {
    if process::id() == 1 {
        return Err(RestartError::First);
    }
    let cannot = |what| move |source| RestartError::Prepare { what, source };
    let folder =
        PrivateFolder::new("restart").map_err(cannot("no folder for the socket the new process answers to"))?;
    let path = folder.path().join("ready");
    let answers = UnixDatagram::bind(&path).map_err(cannot("no socket for the new process to answer to"))?;

    let mut command = program.command();
    hand_over(&mut command, sockets).map_err(cannot("the sockets cannot be handed over"))?;
    introduce(&mut command, &path, notices);
    let state = folder.path().join("state");
    fs::write(&state, remembered).map_err(cannot("what the rules remember cannot be handed over"))?;
    command.env(STATE, &state);
    let child = command.spawn();
    drop(command);
    let child = child.map_err(|source| RestartError::Start { program: program.file.clone(), source })?;

    let started = ready(Started(Some(child)), &answers, clock).await?;
    let successor = Successor { process: started.let_go() };
    // Where systemd cannot be told, the successor serves all the same.
    drop(notices.tell(Notice::Successor(successor.process)));
    Ok(successor)
}

/// The sockets become the files from 3 on. Whose they are is not said (`LISTEN_PID`): the number of a process that
/// does not exist yet is not known.
fn hand_over<S: AsFd>(command: &mut Command, sockets: &[S]) -> io::Result<()> {
    let mapping = |(child_fd, socket): (RawFd, &S)| {
        let parent_fd = socket.as_fd().try_clone_to_owned()?;
        Ok(FdMapping { parent_fd, child_fd })
    };
    let mappings = (FIRST..).zip(sockets).map(mapping).collect::<io::Result<Vec<_>>>()?;
    command.fd_mappings(mappings).map_err(io::Error::other)?;
    command.env("LISTEN_FDS", sockets.len().to_string());
    for stale in ["LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDNAMES", "LISTEN_FDS_FIRST_FD"] {
        command.env_remove(stale);
    }
    Ok(())
}

/// Tells the successor whom to tell.
fn introduce(command: &mut Command, answers: &Path, notices: &Notices) {
    command.env(NOTIFY_SOCKET, answers).env(SERVICE, notices.service().unwrap_or_default());
}

async fn ready(mut started: Started, answers: &UnixDatagram, clock: &ClockHandle) -> Result<Started, RestartError> {
    let cannot = |what| move |source| RestartError::Prepare { what, source };
    let mut patience = clock.sleep(PATIENCE);
    let mut looks = interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut datagram = [0; 4_096];
    loop {
        let is_ready = tokio::select! {
            biased;
            received = answers.recv(&mut datagram) => {
                let length = received.map_err(cannot("the new process cannot be heard"))?;
                notices::says_ready(&datagram[..length])
            }
            _ = looks.tick() => false,
            () = &mut patience => return Err(RestartError::Silent),
        };
        // Also one that said it was ready may have ended since.
        if let Some(status) = started.ended().map_err(cannot("the new process cannot be looked after"))? {
            return Err(RestartError::Ended { status });
        }
        if is_ready {
            return Ok(started);
        }
    }
}

/// A process that is stopped when this is dropped, unless it was let go.
struct Started(Option<Child>);

impl Started {
    /// How it ended, if it did.
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.as_mut().map_or(Ok(None), Child::try_wait)
    }

    /// Lets it live, and answers its number.
    fn let_go(mut self) -> u32 {
        let child = self.0.take();
        let process = child.as_ref().map_or(0, Child::id);
        child.into_iter().for_each(bury);
        process
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It fails only for one that has ended and been waited for.
            drop(child.kill());
            bury(child);
        }
    }
}

/// Waits for a process to end, so that the system can forget it. A thread of its own waits: it may take long, and
/// this process may end before.
fn bury(mut child: Child) {
    let wait = move || drop(child.wait());
    // Without a thread the system forgets it when this process ends.
    drop(thread::Builder::new().name("successor".to_owned()).spawn(wait));
}

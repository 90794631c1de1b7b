//! What this process was given by the one before it, and what it takes to be followed by another.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{env, fs};

use sluicegate_engine::Sluice;
use sluicegate_engine::sluice::SavedRules;
use thiserror::Error;

use crate::inherited::{Inherited, InheritedError};
use crate::restart::{self, Notice, Notices, Program, RestartError, STATE};
use crate::sockets::{self, ListenError, Socket, Sockets};

/// How many connections the kernel may hold at each socket that nobody has taken yet.
const BACKLOG: u32 = 1_024;

/// This process, among its predecessors and successors.
#[derive(Debug)]
pub struct Process {
    inherited: Inherited,
    program: Option<Program>,
    notices: Notices,
    remembered: Option<SavedRules>,
    /// All that servers listen at, to be handed over.
    open: Vec<Socket>,
    /// The names of Unix sockets that were not there before.
    made: Vec<PathBuf>,
}

/// What was handed over makes no sense.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ProcessError(#[from] InheritedError);

impl Process {
    /// Looks at what was handed over: listening sockets, by systemd or by a process that this one takes the
    /// place of. To be called once, first thing in a program, before it has a second thread.
    pub fn begin() -> Result<Self, ProcessError> {
        Ok(Self {
            inherited: Inherited::from_env()?,
            // Who does not know its own name cannot be restarted, which is told when it is tried.
            program: Program::of_this_process().ok(),
            notices: Notices::from_env(),
            remembered: remembered(),
            open: Vec::new(),
            made: Vec::new(),
        })
    }

    /// One that was given nothing, and is not to be followed: for servers within other programs.
    pub fn alone() -> Self {
        let (inherited, notices) = (Inherited::none(), Notices::default());
        Self { inherited, program: None, notices, remembered: None, open: Vec::new(), made: Vec::new() }
    }

    /// What the rules of the process before remembered, if this one takes its place: limits and bans go on.
    pub fn take_remembered(&mut self) -> Option<SavedRules> {
        self.remembered.take()
    }

    /// Sockets for all these addresses, at least one for each thread; those that were handed over come first.
    pub fn listen(&mut self, addresses: &[SocketAddr], threads: NonZeroUsize) -> Result<Sockets, ListenError> {
        let sockets = sockets::open(addresses, threads, BACKLOG, &mut self.inherited)?;
        self.keep(sockets.iter().flatten())?;
        Ok(sockets)
    }

    /// A Unix socket, the same for each thread.
    pub fn listen_unix(&mut self, path: &Path, threads: NonZeroUsize) -> Result<Vec<Socket>, ListenError> {
        let is_made = !self.inherited.has_unix(path);
        let sockets = sockets::open_unix(path, threads, BACKLOG, &mut self.inherited)?;
        if is_made {
            self.made.push(path.to_path_buf());
        }
        self.keep(sockets.first())?;
        Ok(sockets)
    }

    fn keep<'s>(&mut self, sockets: impl IntoIterator<Item = &'s Socket>) -> Result<(), ListenError> {
        for socket in sockets {
            self.open.push(socket.try_clone()?);
        }
        Ok(())
    }

    /// Closes what was handed over and nobody has asked for.
    pub fn close_the_rest(&mut self) {
        self.inherited = Inherited::none();
    }

    /// Tells whoever started this process. Where nobody hears it, it goes on all the same.
    pub fn tell(&self, notice: Notice) {
        drop(self.notices.tell(notice));
    }

    /// Starts this program anew at the same sockets, with what the rules remember at this moment. Once the new process
    /// serves, this one's servers are to stop in its favour ([`Stop::HandOver`](crate::Stop)); if it does not, this one
    /// goes on.
    pub async fn follow(&self, sluice: &Sluice) -> Result<u32, RestartError> {
        let Some(program) = &self.program else { return Err(RestartError::Unnamed) };
        let remembered = sluice.save().to_bytes();
        let successor = restart::take_over(program, &self.open, &self.notices, &remembered, sluice.clock()).await?;
        Ok(successor.process)
    }

    /// Lets go of the sockets of servers that were opened and will not serve. The names of Unix sockets that this process
    /// has made go with them; those that were handed over are still served by whoever handed them over.
    pub fn give_up(&mut self) {
        self.open.clear();
        for path in self.made.drain(..) {
            // Somebody else may have done so.
            drop(fs::remove_file(path));
        }
    }

    /// Lets go of the sockets: this process is about to stop. `for_good` takes the names of Unix sockets away; another
    /// process that goes on at them needs them.
    pub fn let_go(&mut self, for_good: bool) {
        for socket in self.open.drain(..) {
            if for_good {
                socket.remove_name();
            }
        }
    }
}

/// What a predecessor has left in a file, if this process was started by one. What cannot be read is not
/// remembered: then all begins anew, as it would without.
fn remembered() -> Option<SavedRules> {
    let bytes = fs::read(env::var_os(STATE)?).ok()?;
    SavedRules::from_bytes(&bytes).ok()
}

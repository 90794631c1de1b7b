//! The program this process runs, to be started anew.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{self, PathBuf};
use std::process::Command;

/// A program and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(super) file: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

impl Program {
    /// This process's own. To be asked for when it starts: later its file may have been replaced, and what is to be
    /// started then is the new one.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let mut arguments = env::args_os();
        let running = env::current_exe()?;
        // The name it was started by may be a link that leads to another version by then. It counts if it leads here.
        let named = arguments.next().map(PathBuf::from).filter(|name| name.components().count() > 1);
        let named = named.and_then(|name| path::absolute(name).ok());
        let leads_here = |name: &PathBuf| name.canonicalize().is_ok_and(|file| file == running);
        Ok(Self { file: named.filter(leads_here).unwrap_or(running), arguments: arguments.collect() })
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.args(&self.arguments);
        command
    }
}

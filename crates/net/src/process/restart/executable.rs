//! Executable of this process, to start it again.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{self, PathBuf};
use std::process::Command;

/// An executable with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Executable {
    pub(super) file: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

impl Executable {
    /// The executable of this process. Call at startup: the file may be replaced later, and then the new file is to
    /// be started.
    pub(crate) fn current() -> io::Result<Self> {
        let mut arguments = env::args_os();
        let running = env::current_exe()?;
        // The name it was started by may be a symlink to another version later. It is used if it resolves to this file
        // now.
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

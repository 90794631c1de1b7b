//! What this process was given by the one before it, and what it takes to be followed by another.

use thiserror::Error;

use crate::listen::{Inherited, InheritedError};
use crate::restart::{Notices, Program};

/// This process, among its predecessors and successors.
#[derive(Debug)]
pub struct Process {
    pub(crate) inherited: Inherited,
    pub(crate) program: Option<Program>,
    pub(crate) notices: Notices,
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
        })
    }

    /// One that was given nothing, and is not to be followed: for gateways within other programs.
    pub fn alone() -> Self {
        Self { inherited: Inherited::none(), program: None, notices: Notices::default() }
    }
}

//! What this process was given by the one before it, and what it takes to be followed by another.

use std::{env, fs};

use sluicegate_engine::sluice::SavedRules;
use thiserror::Error;

use crate::listen::{Inherited, InheritedError};
use crate::restart::{Notices, Program, STATE};

/// This process, among its predecessors and successors.
#[derive(Debug)]
pub struct Process {
    pub(crate) inherited: Inherited,
    pub(crate) program: Option<Program>,
    pub(crate) notices: Notices,
    remembered: Option<SavedRules>,
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
        })
    }

    /// What the rules of the process before remembered, if this one takes its place: limits and bans go on.
    pub fn take_remembered(&mut self) -> Option<SavedRules> {
        self.remembered.take()
    }

    /// One that was given nothing, and is not to be followed: for gateways within other programs.
    pub fn alone() -> Self {
        Self { inherited: Inherited::none(), program: None, notices: Notices::default(), remembered: None }
    }
}

/// What a predecessor has left in a file, if this process was started by one. What cannot be read is not
/// remembered: then all begins anew, as it would without.
fn remembered() -> Option<SavedRules> {
    let bytes = fs::read(env::var_os(STATE)?).ok()?;
    SavedRules::from_bytes(&bytes).ok()
}

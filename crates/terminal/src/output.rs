//! Command output and exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

/// Output of a command: standard output, standard error and exit code.
pub struct CommandOutput {
    /// Text for standard output.
    pub out: String,
    /// Text for standard error.
    pub err: String,
    /// The exit code.
    pub exit: Exit,
}

/// Exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Success = 0,
    /// The operation failed.
    Failure = 1,
    /// Wrong usage: an unknown command or flag, or an invalid value.
    Usage = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl CommandOutput {
    /// Output of a successful command.
    pub fn done(out: String) -> Self {
        Self { out, err: String::new(), exit: Exit::Success }
    }

    /// Output for a single error.
    pub fn failed(message: &str) -> Self {
        Self { out: String::new(), err: format!("error: {message}\n"), exit: Exit::Failure }
    }

    /// Writes the output.
    pub fn emit(self) -> Exit {
        let written =
            write(&mut io::stderr().lock(), &self.err).and_then(|()| write(&mut io::stdout().lock(), &self.out));
        match written {
            Ok(()) => self.exit,
            // The reader closed the pipe: `sluicegate schema | head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.exit,
            Err(error) => {
                // If this fails too, nothing can be reported.
                let _ = writeln!(io::stderr(), "error: cannot write the output: {error}");
                Exit::Failure
            }
        }
    }
}

fn write(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

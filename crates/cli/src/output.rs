//! Command output and exit codes.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use sluicegate_config::{RenderStyle, Report};

/// Output of a command: standard output, standard error and exit code.
pub(crate) struct CommandOutput {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) exit: Exit,
}

/// Exit code of a command. See the head of `main.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    Failure = 1,
    Usage = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Terminal style: with or without colours.
#[derive(Clone, Copy)]
pub(crate) struct TerminalStyle {
    pub(crate) out: RenderStyle,
    pub(crate) err: RenderStyle,
}

impl TerminalStyle {
    /// Uses colours on a terminal unless `NO_COLOR` is set.
    pub(crate) fn detect() -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let style = |terminal: bool| if terminal && !no_color { RenderStyle::Coloured } else { RenderStyle::Plain };
        Self { out: style(io::stdout().is_terminal()), err: style(io::stderr().is_terminal()) }
    }
}

impl CommandOutput {
    pub(crate) fn done(out: String) -> Self {
        Self { out, err: String::new(), exit: Exit::Success }
    }

    /// Output for invalid rules.
    pub(crate) fn invalid_rules(report: &Report, style: TerminalStyle) -> Self {
        let count = match report.len() {
            1 => "1 error".to_owned(),
            many => format!("{many} errors"),
        };
        let err = format!("{}\n\n{count}: invalid rule file\n", report.render(style.err));
        Self { out: String::new(), err, exit: Exit::Failure }
    }

    /// Output for a single error.
    pub(crate) fn failed(message: &str) -> Self {
        Self { out: String::new(), err: format!("error: {message}\n"), exit: Exit::Failure }
    }

    /// Writes the output.
    pub(crate) fn emit(self) -> Exit {
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

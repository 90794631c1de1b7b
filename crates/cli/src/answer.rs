//! What a command answers, and how it leaves the process.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use sluicegate_config::{Report, Style};

/// Everything a command has to say.
pub(crate) struct Answer {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) exit: Exit,
}

/// How a call ended. See the head of `main.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Bad = 1,
    Usage = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Whether to colour what is written.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) out: Style,
    pub(crate) err: Style,
}

impl Look {
    /// Colours on a terminal, unless `NO_COLOR` is set to anything.
    pub(crate) fn of_this_terminal() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let style = |terminal: bool| if terminal && !unwanted { Style::Coloured } else { Style::Plain };
        Self { out: style(io::stdout().is_terminal()), err: style(io::stderr().is_terminal()) }
    }
}

impl Answer {
    pub(crate) fn done(out: String) -> Self {
        Self { out, err: String::new(), exit: Exit::Done }
    }

    /// The rules cannot be used.
    pub(crate) fn bad_rules(report: &Report, look: Look) -> Self {
        let count = match report.len() {
            1 => "1 error".to_owned(),
            many => format!("{many} errors"),
        };
        let err = format!("{}\n\n{count}: the rules are not usable\n", report.render(look.err));
        Self { out: String::new(), err, exit: Exit::Bad }
    }

    /// One thing is wrong, and this is what.
    pub(crate) fn failed(message: &str) -> Self {
        Self { out: String::new(), err: format!("error: {message}\n"), exit: Exit::Bad }
    }

    /// Writes it all.
    pub(crate) fn give(self) -> Exit {
        let written =
            write(&mut io::stderr().lock(), &self.err).and_then(|()| write(&mut io::stdout().lock(), &self.out));
        match written {
            Ok(()) => self.exit,
            // Whoever reads has seen enough: `sluicegate schema | head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.exit,
            Err(error) => {
                // Nothing is left to say it with if this fails too.
                let _ = writeln!(io::stderr(), "error: the answer could not be written: {error}");
                Exit::Bad
            }
        }
    }
}

fn write(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

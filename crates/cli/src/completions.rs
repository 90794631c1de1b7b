//! `sluicegate completions`: shell completions for commands, flags and values.

use clap::CommandFactory;
use clap_complete::{Generator, shells};
use sluicegate_terminal::CommandOutput;

use crate::args::{Cli, Completions, Shell};

/// Name of the command.
const NAME: &str = "sluicegate";

pub(crate) fn run(args: &Completions) -> CommandOutput {
    let script = match args.shell {
        Shell::Bash => script(shells::Bash),
        Shell::Zsh => script(shells::Zsh),
        Shell::Fish => script(shells::Fish),
    };
    CommandOutput::done(script)
}

fn script(shell: impl Generator) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut bytes);
    // The script consists of names and help texts, which are UTF-8.
    String::from_utf8_lossy(&bytes).into_owned()
}

//! `sluicegate completions`: what a shell must know to complete commands, flags and values.

use clap::CommandFactory;
use clap_complete::{Generator, shells};

use crate::answer::Answer;
use crate::args::{Cli, Completions, Shell};

/// What people type.
const NAME: &str = "sluicegate";

pub(crate) fn run(args: &Completions) -> Answer {
    let script = match args.shell {
        Shell::Bash => script(shells::Bash),
        Shell::Zsh => script(shells::Zsh),
        Shell::Fish => script(shells::Fish),
    };
    Answer::done(script)
}

fn script(shell: impl Generator) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut bytes);
    // It is made of names and help texts, which are UTF-8.
    String::from_utf8_lossy(&bytes).into_owned()
}

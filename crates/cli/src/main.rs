//! The `sluicegate` command.
//!
//! A call passes through in one straight line: raw arguments ([`args`]), what they mean ([`question`],
//! [`rules`]), one module per command that makes the whole [`Answer`], and here the one place where it
//! is written out and becomes an exit code:
//!
//! | code | means |
//! |---|---|
//! | 0 | done; also when the explained request would be refused, for that was the question |
//! | 1 | the rules are bad, the process to watch cannot be, the one asked is not ready, a service has no peak to be found, or the answer could not be written |
//! | 2 | wrong usage: an unknown command or flag, or a value that makes no sense |

mod answer;
mod args;
mod check;
mod completions;
mod connect;
mod demo;
mod describe;
mod explain;
mod greeting;
mod health;
mod import;
mod man;
mod place;
mod playback;
mod probe;
mod question;
mod routing;
mod rules;
mod run;
mod table;
mod top;

use std::process::ExitCode;

use clap::Parser;
use sluicegate_listen::Process;

use answer::{Answer, Exit, Look};
use args::{Cli, Command};

/// Requests come and go by the hundred thousand; so does the memory for them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help and version come this way too. If the message cannot be written, the code still tells.
            let _ = usage.print();
            return if usage.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    run(cli.command, Look::of_this_terminal()).give().into()
}

fn run(command: Command, look: Look) -> Answer {
    match command {
        Command::Run(args) => match Process::begin() {
            Ok(process) => run::run(&args, look, process),
            Err(error) => Answer::failed(&error.to_string()),
        },
        Command::Check(args) => check::run(&args, look),
        Command::Explain(args) => explain::run(&args, look),
        Command::Demo(args) => demo::run(&args, look),
        Command::Top(args) => top::run(&args, look),
        Command::Probe(args) => probe::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Import(args) => import::run(&args, look),
        Command::Schema => Answer::done(format!("{:#}\n", sluicegate_config::schema())),
        Command::Reference => Answer::done(sluicegate_config::reference()),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

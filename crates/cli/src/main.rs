//! The `sluicegate` command-line program.
//!
//! - `args`: command-line arguments.
//! - `check`, `completions`, `demo`, `explain`, `health`, `import`, `man`, `run`: one module per command. `probe` and
//!   `top` are crates: `sluicegate-probe`, `sluicegate-top`.
//! - `request_args`: a request described by flags.
//! - `rules`: loads rule files.
//! - `simulate`: rules in virtual time, for `demo` and `explain`.
//! - `describe_rules`, `describe_routes`, `banner`: text output.
//! - `style`: colours, and diagnostics of invalid rules.
//!
//! A call is parsed ([`args`]), validated ([`request_args`], [`rules`]) and run by the module of its
//! command, which returns a [`CommandOutput`]. Only this file writes it and sets the exit code:
//!
//! | code | means |
//! |---|---|
//! | 0 | success; also if the explained request would be refused |
//! | 1 | the rules are invalid, the process is not reachable or not ready, no peak was found, or the output could not be written |
//! | 2 | wrong usage: an unknown command or flag, or an invalid value |

mod args;
mod banner;
mod check;
mod completions;
mod demo;
mod describe_routes;
mod describe_rules;
mod explain;
mod health;
mod import;
mod man;
mod request_args;
mod rules;
mod run;
mod simulate;
mod style;

use std::process::ExitCode;

use clap::Parser;
use sluicegate_config::RenderStyle;
use sluicegate_net::Process;
use sluicegate_terminal::{CommandOutput, Exit};

use args::{Cli, Command};
use style::TerminalStyle;

/// Allocator with low cost for the many short-lived allocations per request.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help and version are reported this way too. If the message cannot be written, the exit code is still right.
            let _ = usage.print();
            return if usage.use_stderr() { Exit::Usage.into() } else { Exit::Success.into() };
        }
    };
    run(cli.command, TerminalStyle::detect()).emit().into()
}

fn run(command: Command, style: TerminalStyle) -> CommandOutput {
    match command {
        Command::Run(args) => match Process::from_env() {
            Ok(process) => run::run(&args, style, process),
            Err(error) => CommandOutput::failed(&error.to_string()),
        },
        Command::Check(args) => check::run(&args, style),
        Command::Explain(args) => explain::run(&args, style),
        Command::Demo(args) => demo::run(&args, style),
        Command::Top(args) => sluicegate_top::run(&args, style.out == RenderStyle::Coloured),
        Command::Probe(args) => sluicegate_probe::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Import(args) => import::run(&args, style),
        Command::Schema => CommandOutput::done(format!("{:#}\n", sluicegate_config::schema())),
        Command::Reference => CommandOutput::done(sluicegate_config::reference()),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

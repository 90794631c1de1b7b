//! The `sluicegate` command-line program.
//!
//! - `args`: command-line arguments.
//! - `check`, `completions`, `demo`, `explain`, `health`, `import`, `man`, `probe`, `run`, `top`: one module per
//!   command.
//! - `request_args`: a request described by flags.
//! - `rules`: loads rule files.
//! - `simulate`: rules in virtual time, for `demo` and `explain`.
//! - `describe_rules`, `describe_routes`, `banner`, `table`: text output.
//! - `connect`, `endpoint`: client connections for `health`, `probe` and `top`.
//! - `output`: command output and exit codes.
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
mod connect;
mod demo;
mod describe_routes;
mod describe_rules;
mod endpoint;
mod explain;
mod health;
mod import;
mod man;
mod output;
mod probe;
mod request_args;
mod rules;
mod run;
mod simulate;
mod table;
mod top;

use std::process::ExitCode;

use clap::Parser;
use sluicegate_net::Process;

use args::{Cli, Command};
use output::{CommandOutput, Exit, TerminalStyle};

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
        Command::Top(args) => top::run(&args, style),
        Command::Probe(args) => probe::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Import(args) => import::run(&args, style),
        Command::Schema => CommandOutput::done(format!("{:#}\n", sluicegate_config::schema())),
        Command::Reference => CommandOutput::done(sluicegate_config::reference()),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

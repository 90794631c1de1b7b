//! Command-line arguments (clap definitions).

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use sluicegate_http_client::Endpoint;
use sluicegate_probe::ProbeArgs;
use sluicegate_terminal::OutputFormat;
use sluicegate_top::{TopArgs, parse_admin_url};

use crate::request_args::RequestArgs;

/// Rate limiting and overload protection for services: check rules, explain decisions, run the gateway and the
/// server.
#[derive(Debug, Parser)]
#[command(name = "sluicegate", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 failure such as an invalid rule file, 2 usage error.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway, the decision server and the admin API that a rule file configures
    Run(Run),
    /// Validate a rule file, show its rules, and warn about rules that can never match or apply
    Check(Check),
    /// Explain which rules match a request, with which key, and their decisions
    Explain(Box<Explain>),
    /// Simulate a few clients against rules in virtual time
    Demo(Demo),
    Top(TopArgs),
    Probe(Box<ProbeArgs>),
    /// Check whether a running process is ready; the result is the exit code
    Health(Health),
    /// Convert the configuration of another program into a rule file
    #[command(subcommand)]
    Import(Import),
    /// Print the JSON schema of the rule file, for editors
    Schema,
    /// Print the rule file reference in Markdown
    Reference,
    /// Print shell completions
    Completions(Completions),
    /// Print the manual page, or write the manual pages of all commands
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Rule file. Default: a built-in example with a gateway at 127.0.0.1:8080 and a built-in upstream, decision
    /// servers at 8081 (gRPC), 8082 (HTTP) and 6380 (Redis protocol), and a dashboard at 9900
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Rule file; - reads standard input
    pub(crate) file: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) format: OutputFormat,
    /// Exit with code 1 if there are warnings
    #[arg(long)]
    pub(crate) deny_warnings: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Rule file; - reads standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// Explain the Nth of N identical requests at the same instant; the earlier ones are still in flight
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_REPEATS))]
    pub(crate) repeat: u32,
}

/// Maximum of --repeat: each earlier request is kept in flight.
const MAX_REPEATS: i64 = 100_000;

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Rule file; - reads standard input. Default: the built-in rules of a small shop
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// URL of the admin API; no token is needed
    #[arg(default_value = "http://127.0.0.1:9900", value_parser = parse_admin_url)]
    pub(crate) url: Endpoint,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// Convert an nginx configuration: limits, upstreams, servers and locations
    Nginx(ImportNginx),
}

#[derive(Debug, Args)]
pub(crate) struct ImportNginx {
    /// nginx configuration file; included files are read too
    pub(crate) file: PathBuf,
    /// Rule file to write. Default: standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Write nothing and exit with code 1 if anything cannot be converted
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to generate completions for
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Directory for the pages, one per command; created if missing
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

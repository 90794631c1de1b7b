//! The arguments as they are typed.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use http::Method;

use crate::place::Place;
use crate::probe::settings;
use crate::question::{self, Line};
use crate::top::target;

/// Flow control for services: check rules, ask what they would do, see them at work.
#[derive(Debug, Parser)]
#[command(name = "sluicegate", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 the rules are bad, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run what a rule file says: the gateway, the decision server, or both
    Run(Run),
    /// Show what a rule file says, and warn of what cannot match or cannot happen
    Check(Check),
    /// Show which rules match a request, with which key, and what they would decide
    Explain(Box<Explain>),
    /// Show rules at work: a few clients, some seconds, in virtual time
    Demo(Demo),
    /// Show what a running process does, live, from its admin API
    Top(Top),
    /// Find a service's peak by a load test, and propose a limit below it
    Probe(Box<Probe>),
    /// Ask a running process whether it is ready to serve: the exit code tells
    Health(Health),
    /// Make a rule file of another program's configuration
    #[command(subcommand)]
    Import(Import),
    /// Print the JSON schema of the rule file, for editors
    Schema,
    /// Print the reference of the rule file, in Markdown
    Reference,
    /// Print completions for a shell
    Completions(Completions),
    /// Print the manual page, or write those of all commands
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The rule file; without it, a gateway at 127.0.0.1:8080 before a built-in program, decisions at 8081
    /// (gRPC), 8082 (HTTP) and 6380 (Redis protocol), and a dashboard at 9900
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The rule file; - reads from standard input
    pub(crate) file: PathBuf,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// End with exit code 1 if there are warnings
    #[arg(long)]
    pub(crate) deny_warnings: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The rule file; - reads from standard input
    pub(crate) file: PathBuf,
    /// Method and path, with or without a query: 'POST /api/orders?draft=1'
    #[arg(long, value_name = "METHOD PATH", value_parser = question::line, required_unless_present = "descriptor")]
    pub(crate) request: Option<Line>,
    /// An entry of a descriptor, as a proxy sends it to the decision server; may be given several times. The
    /// domain is given with --service
    #[arg(long = "descriptor", value_name = "KEY=VALUE", value_parser = question::entry, conflicts_with_all = ["request", "outbound"])]
    pub(crate) descriptor: Vec<(String, String)>,
    /// The client's address
    #[arg(long, value_parser = question::ip)]
    pub(crate) ip: Option<IpAddr>,
    /// A header; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = question::header)]
    pub(crate) headers: Vec<(String, String)>,
    /// A cookie; may be given several times
    #[arg(long = "cookie", value_name = "NAME=VALUE", value_parser = question::cookie)]
    pub(crate) cookies: Vec<(String, String)>,
    /// Any other attribute that rules name; may be given several times
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = question::attribute)]
    pub(crate) attributes: Vec<(String, String)>,
    /// The host asked for; also taken from a header of that name
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// The service called
    #[arg(long)]
    pub(crate) service: Option<String>,
    /// The request goes out: ask the rules of the calling side
    #[arg(long)]
    pub(crate) outbound: bool,
    /// What the request costs, before rules multiply it
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true, value_parser = question::cost)]
    pub(crate) cost: u64,
    /// Explain the Nth of so many identical requests at the same instant; the ones before it are
    /// still under way
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_REPEATS))]
    pub(crate) repeat: u32,
}

/// Each earlier request is kept under way, so there is a most.
const MOST_REPEATS: i64 = 100_000;

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// A rule file of your own; without it, a small shop's. - reads from standard input
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Where its admin API is
    #[arg(default_value = "http://127.0.0.1:9900", value_parser = target::place)]
    pub(crate) url: Place,
    /// A file with the token to give, as `admin.token` names one; without it, SLUICEGATE_TOKEN is the token
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print one table and end; so too where the output is no terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// How often to show new figures: from 1s to 1h
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = target::interval)]
    pub(crate) interval: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// What to load: http://127.0.0.1:8080/path
    #[arg(value_parser = settings::url)]
    pub(crate) url: Place,
    /// The first rate, in requests per second
    #[arg(long, default_value = "10/s", value_name = "RATE", value_parser = settings::rate)]
    pub(crate) from: f64,
    /// The highest rate
    #[arg(long, default_value = "100000/s", value_name = "RATE", value_parser = settings::rate)]
    pub(crate) to: f64,
    /// How many times the step before each step is, until one is not good
    #[arg(long, default_value = "1.5", value_name = "FACTOR", value_parser = settings::grow)]
    pub(crate) grow: f64,
    /// How long each step is; its first fifth is warm-up and does not count
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = settings::step)]
    pub(crate) step: Duration,
    /// How long everything together may take
    #[arg(long, default_value = "3m", value_name = "TIME", value_parser = settings::max_time)]
    pub(crate) max_time: Duration,
    /// How long one request may take, from when it is due
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = settings::timeout)]
    pub(crate) timeout: Duration,
    /// How many requests may be under way at once; more are held back, which counts as failed
    #[arg(long, default_value_t = 2_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_in_flight: u32,
    /// The p99 that a good step may have; without it, three times that at the lowest rates, 10ms at least
    #[arg(long, value_name = "TIME", value_parser = settings::timeout)]
    pub(crate) p99: Option<Duration>,
    /// How late requests may leave (p99) before the load generator is to blame, and not the service
    #[arg(long, default_value = "10ms", value_name = "TIME", value_parser = settings::timeout)]
    pub(crate) max_late: Duration,
    /// The method; without it, GET, or POST with --data
    #[arg(short = 'X', long, value_parser = settings::method)]
    pub(crate) method: Option<Method>,
    /// A header; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = question::header)]
    pub(crate) headers: Vec<(String, String)>,
    /// The body of each request
    #[arg(long, value_name = "TEXT")]
    pub(crate) data: Option<String>,
    /// The host to ask for, if not the URL's
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// How far below the peak the proposed limit is
    #[arg(long, default_value = "20%", value_name = "PERCENT", value_parser = settings::buffer)]
    pub(crate) buffer: f64,
    /// Write the proposed rule to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) rule: Option<PathBuf>,
    /// Write a picture to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write a page with picture, table and rule to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write everything that was measured to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// The target is not this machine, and you may load it; takes --yes-load too
    #[arg(long)]
    pub(crate) target_is_mine: bool,
    /// The target's host once more, as the URL names it; takes --target-is-mine too
    #[arg(long, value_name = "HOST")]
    pub(crate) yes_load: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Where its admin API is; no token is needed
    #[arg(default_value = "http://127.0.0.1:9900", value_parser = target::place)]
    pub(crate) url: Place,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// Of nginx's: limits, upstreams, servers and locations
    Nginx(ImportNginx),
}

#[derive(Debug, Args)]
pub(crate) struct ImportNginx {
    /// nginx's file; what it includes is read too
    pub(crate) file: PathBuf,
    /// Where to write the rule file; without it, to standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Write nothing and end with exit code 1 if anything is not carried over
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
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
    /// The folder for the pages, one for each command; made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

//! Command-line arguments (clap definitions).

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use http::Method;

use crate::endpoint::Endpoint;
use crate::probe::settings;
use crate::request_args::{self, RequestLine};
use crate::top::target;

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
    /// Show live statistics of a running process from its admin API
    Top(Top),
    /// Load-test a service to find its peak rate, and propose a limit below it
    Probe(Box<Probe>),
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
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Exit with code 1 if there are warnings
    #[arg(long)]
    pub(crate) deny_warnings: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable table
    Table,
    /// JSON
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Rule file; - reads standard input
    pub(crate) file: PathBuf,
    /// Method and path, optionally with a query: 'POST /api/orders?draft=1'
    #[arg(long, value_name = "METHOD PATH", value_parser = request_args::parse_request_line, required_unless_present = "descriptor")]
    pub(crate) request: Option<RequestLine>,
    /// Descriptor entry, as a proxy sends it to the decision server; may be repeated. Set the domain with --service
    #[arg(long = "descriptor", value_name = "KEY=VALUE", value_parser = request_args::parse_descriptor_entry, conflicts_with_all = ["request", "outbound"])]
    pub(crate) descriptor: Vec<(String, String)>,
    /// Client IP address
    #[arg(long, value_parser = request_args::parse_ip)]
    pub(crate) ip: Option<IpAddr>,
    /// Request header; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = request_args::parse_header)]
    pub(crate) headers: Vec<(String, String)>,
    /// Cookie; may be repeated
    #[arg(long = "cookie", value_name = "NAME=VALUE", value_parser = request_args::parse_cookie)]
    pub(crate) cookies: Vec<(String, String)>,
    /// Any other attribute that rules use; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = request_args::parse_attribute)]
    pub(crate) attributes: Vec<(String, String)>,
    /// Host of the request; also taken from a Host header
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Name of the called service
    #[arg(long)]
    pub(crate) service: Option<String>,
    /// Explain an outbound call, with the client-side rules
    #[arg(long)]
    pub(crate) outbound: bool,
    /// Cost of the request, before rules multiply it
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true, value_parser = request_args::parse_cost)]
    pub(crate) cost: u64,
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
pub(crate) struct Top {
    /// URL of the admin API
    #[arg(default_value = "http://127.0.0.1:9900", value_parser = target::parse_endpoint)]
    pub(crate) url: Endpoint,
    /// File with the access token, in the format of `admin.token_file`. Default: the token in SLUICEGATE_TOKEN
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print one table and exit; this is the default if the output is not a terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// Refresh interval, from 1s to 1h
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = target::parse_interval)]
    pub(crate) interval: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// URL to load: http://127.0.0.1:8080/path
    #[arg(value_parser = settings::url)]
    pub(crate) url: Endpoint,
    /// First rate, in requests per second
    #[arg(long, default_value = "10/s", value_name = "RATE", value_parser = settings::rate)]
    pub(crate) from: f64,
    /// Maximum rate
    #[arg(long, default_value = "100000/s", value_name = "RATE", value_parser = settings::rate)]
    pub(crate) to: f64,
    /// Growth factor of the rate from step to step, until a step fails
    #[arg(long, default_value = "1.5", value_name = "FACTOR", value_parser = settings::grow)]
    pub(crate) grow: f64,
    /// Duration of each step; the first fifth is warm-up and not measured
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = settings::step)]
    pub(crate) step: Duration,
    /// Maximum duration of the test
    #[arg(long, default_value = "3m", value_name = "TIME", value_parser = settings::max_time)]
    pub(crate) max_time: Duration,
    /// Request timeout, from the scheduled send time
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = settings::timeout)]
    pub(crate) timeout: Duration,
    /// Maximum number of requests in flight; further requests are not sent and count as failed
    #[arg(long, default_value_t = 2_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_in_flight: u32,
    /// Maximum p99 latency of a good step. Default: three times the p99 at the lowest rates, at least 10ms
    #[arg(long, value_name = "TIME", value_parser = settings::timeout)]
    pub(crate) p99: Option<Duration>,
    /// Maximum send delay (p99) before the load generator, not the service, is considered the bottleneck
    #[arg(long, default_value = "10ms", value_name = "TIME", value_parser = settings::timeout)]
    pub(crate) max_late: Duration,
    /// HTTP method. Default: GET, or POST with --data
    #[arg(short = 'X', long, value_parser = settings::method)]
    pub(crate) method: Option<Method>,
    /// Request header; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = request_args::parse_header)]
    pub(crate) headers: Vec<(String, String)>,
    /// Request body
    #[arg(long, value_name = "TEXT")]
    pub(crate) data: Option<String>,
    /// Host header, if it differs from the URL's host
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Safety margin of the proposed limit below the peak
    #[arg(long, default_value = "20%", value_name = "PERCENT", value_parser = settings::buffer)]
    pub(crate) buffer: f64,
    /// Write the proposed rule to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) rule: Option<PathBuf>,
    /// Write an SVG plot to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write an HTML report with plot, table and rule to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write all measurements to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Confirm that you may load a target on another machine; also needs --yes-load
    #[arg(long)]
    pub(crate) target_is_mine: bool,
    /// Repeat the target's host as in the URL; also needs --target-is-mine
    #[arg(long, value_name = "HOST")]
    pub(crate) yes_load: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// URL of the admin API; no token is needed
    #[arg(default_value = "http://127.0.0.1:9900", value_parser = target::parse_endpoint)]
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

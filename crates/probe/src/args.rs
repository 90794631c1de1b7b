//! Command-line arguments (clap definitions). The doc comments are the help texts.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::Method;
use sluicegate_http_client::{Endpoint, parse_header};
use sluicegate_terminal::OutputFormat;

use crate::value_parser;

/// Load-test a service to find its peak rate, and propose a limit below it
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// URL to load: http://127.0.0.1:8080/path
    #[arg(value_parser = value_parser::url)]
    pub(crate) url: Endpoint,
    /// First rate, in requests per second
    #[arg(long, default_value = "10/s", value_name = "RATE", value_parser = value_parser::rate)]
    pub(crate) from: f64,
    /// Maximum rate
    #[arg(long, default_value = "100000/s", value_name = "RATE", value_parser = value_parser::rate)]
    pub(crate) to: f64,
    /// Growth factor of the rate from step to step, until a step fails
    #[arg(long, default_value = "1.5", value_name = "FACTOR", value_parser = value_parser::grow)]
    pub(crate) grow: f64,
    /// Duration of each step; the first fifth is warm-up and not measured
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = value_parser::step)]
    pub(crate) step: Duration,
    /// Maximum duration of the test
    #[arg(long, default_value = "3m", value_name = "TIME", value_parser = value_parser::max_time)]
    pub(crate) max_time: Duration,
    /// Request timeout, from the scheduled send time
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = value_parser::timeout)]
    pub(crate) timeout: Duration,
    /// Maximum number of requests in flight; further requests are not sent and count as failed
    #[arg(long, default_value_t = 2_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_in_flight: u32,
    /// Maximum p99 latency of a good step. Default: three times the p99 at the lowest rates, at least 10ms
    #[arg(long, value_name = "TIME", value_parser = value_parser::timeout)]
    pub(crate) p99: Option<Duration>,
    /// Maximum send delay (p99) before the load generator, not the service, is considered the bottleneck
    #[arg(long, default_value = "10ms", value_name = "TIME", value_parser = value_parser::timeout)]
    pub(crate) max_late: Duration,
    /// HTTP method. Default: GET, or POST with --data
    #[arg(short = 'X', long, value_parser = value_parser::method)]
    pub(crate) method: Option<Method>,
    /// Request header; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    pub(crate) headers: Vec<(String, String)>,
    /// Request body
    #[arg(long, value_name = "TEXT")]
    pub(crate) data: Option<String>,
    /// Host header, if it differs from the URL's host
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Safety margin of the proposed limit below the peak
    #[arg(long, default_value = "20%", value_name = "PERCENT", value_parser = value_parser::buffer)]
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
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) format: OutputFormat,
    /// Confirm that you may load a target on another machine; also needs --yes-load
    #[arg(long)]
    pub(crate) target_is_mine: bool,
    /// Repeat the target's host as in the URL; also needs --target-is-mine
    #[arg(long, value_name = "HOST")]
    pub(crate) yes_load: Option<String>,
}

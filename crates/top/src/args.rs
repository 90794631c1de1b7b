//! Command-line arguments (clap definitions). The doc comments are the help texts.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sluicegate_http_client::Endpoint;

use crate::value_parser::{parse_admin_url, parse_interval};

/// Show live statistics of a running process from its admin API
#[derive(Debug, Args)]
pub struct TopArgs {
    /// URL of the admin API
    #[arg(default_value = "http://127.0.0.1:9900", value_parser = parse_admin_url)]
    pub(crate) url: Endpoint,
    /// File with the access token, in the format of `admin.token_file`. Default: the token in SLUICEGATE_TOKEN
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print one table and exit; this is the default if the output is not a terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// Refresh interval, from 1s to 1h
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_interval)]
    pub(crate) interval: Duration,
}

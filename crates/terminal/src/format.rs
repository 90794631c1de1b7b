//! Output formats.

use clap::ValueEnum;

/// Output format of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Human-readable table
    Table,
    /// JSON
    Json,
}

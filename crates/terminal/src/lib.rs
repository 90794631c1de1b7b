//! Output of the commands of the `sluicegate` program.
//!
//! - `format`: output formats.
//! - `output`: output of a command and its exit code.
//! - [`table`]: text tables.

mod format;
mod output;
pub mod table;

pub use format::OutputFormat;
pub use output::{CommandOutput, Exit};

//! `log`.

use super::fields::Fields;
use crate::settings::{LineFormat, Log, LogLevel};

/// Reads `log`.
pub(crate) fn log(fields: &Fields<'_>) -> Log {
    let format = match fields.word("format") {
        Some("json") => LineFormat::Json,
        _ => LineFormat::Text,
    };
    let level = match fields.word("level") {
        Some("error") => LogLevel::Error,
        Some("warn") => LogLevel::Warn,
        Some("debug") => LogLevel::Debug,
        _ => LogLevel::Info,
    };
    Log { format, level }
}

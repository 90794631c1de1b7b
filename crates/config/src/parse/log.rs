//! Parses `log`.

use super::map::FieldMap;
use crate::settings::{Log, LogLevel, ProcessLogFormat};

/// Parses `log`.
pub(crate) fn log(fields: &FieldMap<'_>) -> Log {
    let format = match fields.keyword("format") {
        Some("json") => ProcessLogFormat::Json,
        _ => ProcessLogFormat::Text,
    };
    let level = match fields.keyword("level") {
        Some("error") => LogLevel::Error,
        Some("warn") => LogLevel::Warn,
        Some("debug") => LogLevel::Debug,
        _ => LogLevel::Info,
    };
    Log { format, level }
}

//! Dispatch by log format.

use http::Version;
use sluicegate_config::settings::AccessLogFormat;

use super::buffer::DroppedLines;
use super::entry::LogEntry;
use super::{common, json};

/// Appends a line, with its newline.
pub(super) fn write_entry(format: AccessLogFormat, out: &mut Vec<u8>, entry: &LogEntry<'_>) {
    match format {
        AccessLogFormat::Json => json::write_entry(out, entry),
        AccessLogFormat::Common => common::write_entry(out, entry),
    }
}

/// Appends the summary line for dropped lines.
pub(super) fn write_dropped(format: AccessLogFormat, out: &mut Vec<u8>, dropped: &DroppedLines) {
    match format {
        AccessLogFormat::Json => json::write_dropped(out, dropped),
        AccessLogFormat::Common => common::write_dropped(out, dropped),
    }
}

pub(super) const fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

//! The formats a line can have.

use http::Version;
use sluicegate_config::settings::LogFormat;

use super::buffer::Lost;
use super::line::Line;
use super::{common, json};

/// Appends a line, its end included.
pub(super) fn line(format: LogFormat, out: &mut Vec<u8>, line: &Line<'_>) {
    match format {
        LogFormat::Json => json::line(out, line),
        LogFormat::Common => common::line(out, line),
    }
}

/// Appends the line that stands in place of lost ones.
pub(super) fn lost(format: LogFormat, out: &mut Vec<u8>, lost: &Lost) {
    match format {
        LogFormat::Json => json::lost(out, lost),
        LogFormat::Common => common::lost(out, lost),
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

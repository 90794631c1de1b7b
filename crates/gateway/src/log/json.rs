//! JSON format: one object per line. Absent and false members are omitted.

use std::time::{Duration, SystemTime};

use super::buffer::DroppedLines;
use super::entry::{LogEntry, LogVerdict};
use super::{escape, format, format_number, timestamp};

/// Text before a member's value: a comma, its name and a colon.
macro_rules! member {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

pub(super) fn write_entry(out: &mut Vec<u8>, entry: &LogEntry<'_>) {
    time(out, entry.time);
    text(out, member!("request_id"), entry.request_id.as_bytes());
    quoted(out, member!("client"), |out| format_number::address(out, entry.client));
    if entry.peer != entry.client {
        quoted(out, member!("peer"), |out| format_number::address(out, entry.peer));
    }
    flag(out, member!("tls"), entry.tls);
    text(out, member!("method"), entry.method.as_bytes());
    text(out, member!("host"), entry.host.as_bytes());
    text(out, member!("target"), entry.target.as_bytes());
    text(out, member!("version"), format::version(entry.version).as_bytes());
    optional_text(out, member!("referer"), entry.referer);
    optional_text(out, member!("user_agent"), entry.user_agent);
    integer(out, member!("request_bytes"), entry.request_bytes);
    integer(out, member!("status"), entry.status);
    integer(out, member!("response_bytes"), entry.response_bytes);
    seconds(out, member!("duration"), entry.duration);
    seconds(out, member!("wait"), entry.wait);
    if let Some(served_by) = &entry.served_by {
        text(out, member!("upstream"), served_by.upstream.as_bytes());
        optional_text(out, member!("server"), served_by.server.map(str::as_bytes));
        if let Some(time) = served_by.time {
            seconds(out, member!("upstream_time"), time);
        }
        integer(out, member!("attempts"), served_by.attempts);
    }
    text(out, member!("verdict"), entry.verdict.as_str().as_bytes());
    if let LogVerdict::Failed(reason) = entry.verdict {
        text(out, member!("failure"), reason.as_bytes());
    }
    optional_text(out, member!("rule"), entry.rule.map(str::as_bytes));
    if let Some(hash) = entry.key_hash {
        text(out, member!("key_hash"), &format_number::hex(hash));
    }
    optional_text(out, member!("shadow"), entry.shadow.map(str::as_bytes));
    flag(out, member!("degraded"), entry.degraded);
    flag(out, member!("aborted"), entry.aborted);
    out.extend_from_slice(b"}\n");
}

/// Summary line in place of dropped lines.
pub(super) fn write_dropped(out: &mut Vec<u8>, dropped: &DroppedLines) {
    time(out, dropped.last);
    integer(out, member!("dropped_lines"), dropped.lines);
    quoted(out, member!("dropped_since"), |out| timestamp::rfc3339(out, dropped.first));
    out.extend_from_slice(b"}\n");
}

/// Writes the first member of an object.
fn time(out: &mut Vec<u8>, time: SystemTime) {
    quoted(out, "{\"time\":", |out| timestamp::rfc3339(out, time));
}

fn quoted(out: &mut Vec<u8>, member: &str, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(member.as_bytes());
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn text(out: &mut Vec<u8>, member: &str, value: &[u8]) {
    quoted(out, member, |out| escape::json(out, value));
}

fn optional_text(out: &mut Vec<u8>, member: &str, value: Option<&[u8]>) {
    if let Some(value) = value {
        text(out, member, value);
    }
}

fn integer(out: &mut Vec<u8>, member: &str, value: impl itoa::Integer) {
    out.extend_from_slice(member.as_bytes());
    format_number::integer(out, value);
}

fn seconds(out: &mut Vec<u8>, member: &str, value: Duration) {
    out.extend_from_slice(member.as_bytes());
    format_number::seconds(out, value);
}

fn flag(out: &mut Vec<u8>, member: &str, value: bool) {
    if value {
        out.extend_from_slice(member.as_bytes());
        out.extend_from_slice(b"true");
    }
}

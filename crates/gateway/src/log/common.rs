//! Combined log format, with the decision appended as `key=value` fields.
//!
//! ```text
//! client - - [time] "request line" status bytes "referer" "user agent" id= verdict= rule= wait= rt= key= ...
//! ```

use super::buffer::DroppedLines;
use super::entry::{LogEntry, LogVerdict};
use super::{escape, format, format_number, timestamp};

pub(super) fn write_entry(out: &mut Vec<u8>, entry: &LogEntry<'_>) {
    format_number::address(out, entry.client);
    out.extend_from_slice(b" - - [");
    timestamp::common(out, entry.time);
    out.extend_from_slice(b"] \"");
    escape::quoted(out, entry.method.as_bytes());
    out.push(b' ');
    escape::quoted(out, entry.target.as_bytes());
    out.push(b' ');
    out.extend_from_slice(format::version(entry.version).as_bytes());
    out.extend_from_slice(b"\" ");
    format_number::integer(out, entry.status);
    out.push(b' ');
    format_number::integer(out, entry.response_bytes);
    quoted(out, entry.referer);
    quoted(out, entry.user_agent);

    bare(out, b"id", Some(entry.request_id));
    bare(out, b"verdict", Some(entry.verdict.as_str()));
    if let LogVerdict::Failed(reason) = entry.verdict {
        out.push(b':');
        escape::bare(out, reason.as_bytes());
    }
    bare(out, b"rule", entry.rule);
    name(out, b"wait");
    format_number::seconds(out, entry.wait);
    name(out, b"rt");
    format_number::seconds(out, entry.duration);
    name(out, b"key");
    out.extend_from_slice(entry.key_hash.map(format_number::hex).as_ref().map_or(b"-", |hash| hash));
    bare(out, b"upstream", entry.served_by.map(|it| it.upstream));
    bare(out, b"server", entry.served_by.and_then(|it| it.server));
    name(out, b"ut");
    match entry.served_by.and_then(|it| it.time) {
        Some(time) => format_number::seconds(out, time),
        None => out.push(b'-'),
    }
    if entry.shadow.is_some() {
        bare(out, b"shadow", entry.shadow);
    }
    for (is_so, word) in [(entry.degraded, b" degraded".as_slice()), (entry.aborted, b" aborted")] {
        if is_so {
            out.extend_from_slice(word);
        }
    }
    out.push(b'\n');
}

/// Summary line in place of dropped lines.
pub(super) fn write_dropped(out: &mut Vec<u8>, dropped: &DroppedLines) {
    out.extend_from_slice(b"- - - [");
    timestamp::common(out, dropped.last);
    out.extend_from_slice(b"] \"-\" 000 0 \"-\" \"-\" dropped_lines=");
    format_number::integer(out, dropped.lines);
    name(out, b"dropped_since");
    timestamp::rfc3339(out, dropped.first);
    out.push(b'\n');
}

fn name(out: &mut Vec<u8>, name: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(name);
    out.push(b'=');
}

fn bare(out: &mut Vec<u8>, key: &[u8], value: Option<&str>) {
    name(out, key);
    escape::bare(out, value.filter(|value| !value.is_empty()).unwrap_or("-").as_bytes());
}

fn quoted(out: &mut Vec<u8>, value: Option<&[u8]>) {
    out.extend_from_slice(b" \"");
    escape::quoted(out, value.unwrap_or(b"-"));
    out.push(b'"');
}

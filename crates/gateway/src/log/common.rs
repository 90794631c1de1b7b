//! A line in the combined form of the common log format, with what Sluicegate decided behind it.
//!
//! ```text
//! client - - [time] "request line" status bytes "referer" "user agent" id= verdict= rule= wait= rt= key= ...
//! ```

use super::buffer::Lost;
use super::line::{Line, Verdict};
use super::{escape, format, moment, number};

pub(super) fn line(out: &mut Vec<u8>, line: &Line<'_>) {
    number::address(out, line.client);
    out.extend_from_slice(b" - - [");
    moment::common(out, line.time);
    out.extend_from_slice(b"] \"");
    escape::quoted(out, line.method.as_bytes());
    out.push(b' ');
    escape::quoted(out, line.target.as_bytes());
    out.push(b' ');
    out.extend_from_slice(format::version(line.version).as_bytes());
    out.extend_from_slice(b"\" ");
    number::integer(out, line.status);
    out.push(b' ');
    number::integer(out, line.response_bytes);
    quoted(out, line.referer);
    quoted(out, line.user_agent);

    bare(out, b"id", Some(line.request_id));
    bare(out, b"verdict", Some(line.verdict.word()));
    if let Verdict::Failed(reason) = line.verdict {
        out.push(b':');
        escape::bare(out, reason.as_bytes());
    }
    bare(out, b"rule", line.rule);
    name(out, b"wait");
    number::seconds(out, line.wait);
    name(out, b"rt");
    number::seconds(out, line.duration);
    name(out, b"key");
    out.extend_from_slice(line.key_hash.map(number::hex).as_ref().map_or(b"-", |hash| hash));
    bare(out, b"upstream", line.served_by.map(|it| it.upstream));
    bare(out, b"server", line.served_by.and_then(|it| it.server));
    name(out, b"ut");
    match line.served_by.and_then(|it| it.time) {
        Some(time) => number::seconds(out, time),
        None => out.push(b'-'),
    }
    if line.shadow.is_some() {
        bare(out, b"shadow", line.shadow);
    }
    for (is_so, word) in [(line.store_lost, b" store_lost".as_slice()), (line.aborted, b" aborted")] {
        if is_so {
            out.extend_from_slice(word);
        }
    }
    out.push(b'\n');
}

/// In place of lines that were lost.
pub(super) fn lost(out: &mut Vec<u8>, lost: &Lost) {
    out.extend_from_slice(b"- - - [");
    moment::common(out, lost.last);
    out.extend_from_slice(b"] \"-\" 000 0 \"-\" \"-\" lost_lines=");
    number::integer(out, lost.lines);
    name(out, b"lost_since");
    moment::rfc3339(out, lost.first);
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

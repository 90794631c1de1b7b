//! A line as a JSON object. What is not there is left out, and so is what is false.

use std::time::{Duration, SystemTime};

use super::buffer::Lost;
use super::line::{Line, Verdict};
use super::{escape, format, moment, number};

/// What stands before a member's value: a comma, its name and a colon.
macro_rules! member {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

pub(super) fn line(out: &mut Vec<u8>, line: &Line<'_>) {
    time(out, line.time);
    text(out, member!("request_id"), line.request_id.as_bytes());
    quoted(out, member!("client"), |out| number::address(out, line.client));
    if line.peer != line.client {
        quoted(out, member!("peer"), |out| number::address(out, line.peer));
    }
    flag(out, member!("tls"), line.tls);
    text(out, member!("method"), line.method.as_bytes());
    text(out, member!("host"), line.host.as_bytes());
    text(out, member!("target"), line.target.as_bytes());
    text(out, member!("version"), format::version(line.version).as_bytes());
    given(out, member!("referer"), line.referer);
    given(out, member!("user_agent"), line.user_agent);
    integer(out, member!("request_bytes"), line.request_bytes);
    integer(out, member!("status"), line.status);
    integer(out, member!("response_bytes"), line.response_bytes);
    seconds(out, member!("duration"), line.duration);
    seconds(out, member!("wait"), line.wait);
    if let Some(served_by) = &line.served_by {
        text(out, member!("upstream"), served_by.upstream.as_bytes());
        given(out, member!("server"), served_by.server.map(str::as_bytes));
        if let Some(time) = served_by.time {
            seconds(out, member!("upstream_time"), time);
        }
        integer(out, member!("attempts"), served_by.attempts);
    }
    text(out, member!("verdict"), line.verdict.word().as_bytes());
    if let Verdict::Failed(reason) = line.verdict {
        text(out, member!("failure"), reason.as_bytes());
    }
    given(out, member!("rule"), line.rule.map(str::as_bytes));
    if let Some(hash) = line.key_hash {
        text(out, member!("key_hash"), &number::hex(hash));
    }
    given(out, member!("shadow"), line.shadow.map(str::as_bytes));
    flag(out, member!("store_lost"), line.store_lost);
    flag(out, member!("aborted"), line.aborted);
    out.extend_from_slice(b"}\n");
}

/// In place of lines that were lost.
pub(super) fn lost(out: &mut Vec<u8>, lost: &Lost) {
    time(out, lost.last);
    integer(out, member!("lost_lines"), lost.lines);
    quoted(out, member!("lost_since"), |out| moment::rfc3339(out, lost.first));
    out.extend_from_slice(b"}\n");
}

/// The first member of each object.
fn time(out: &mut Vec<u8>, time: SystemTime) {
    quoted(out, "{\"time\":", |out| moment::rfc3339(out, time));
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

fn given(out: &mut Vec<u8>, member: &str, value: Option<&[u8]>) {
    if let Some(value) = value {
        text(out, member, value);
    }
}

fn integer(out: &mut Vec<u8>, member: &str, value: impl itoa::Integer) {
    out.extend_from_slice(member.as_bytes());
    number::integer(out, value);
}

fn seconds(out: &mut Vec<u8>, member: &str, value: Duration) {
    out.extend_from_slice(member.as_bytes());
    number::seconds(out, value);
}

fn flag(out: &mut Vec<u8>, member: &str, value: bool) {
    if value {
        out.extend_from_slice(member.as_bytes());
        out.extend_from_slice(b"true");
    }
}

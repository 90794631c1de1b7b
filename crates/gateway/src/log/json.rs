//! A line as a JSON object. What is not there is left out, and so is what is false.

use std::time::{Duration, SystemTime};

use super::buffer::Lost;
use super::line::{Line, Verdict};
use super::{escape, format, moment, number};

pub(super) fn line(out: &mut Vec<u8>, line: &Line<'_>) {
    time(out, line.time);
    text(out, b"request_id", line.request_id.as_bytes());
    name(out, b"client");
    quoted(out, |out| number::address(out, line.client));
    if line.peer != line.client {
        name(out, b"peer");
        quoted(out, |out| number::address(out, line.peer));
    }
    flag(out, b"tls", line.tls);
    text(out, b"method", line.method.as_bytes());
    text(out, b"host", line.host.as_bytes());
    text(out, b"target", line.target.as_bytes());
    text(out, b"version", format::version(line.version).as_bytes());
    given(out, b"referer", line.referer);
    given(out, b"user_agent", line.user_agent);
    integer(out, b"request_bytes", line.request_bytes);
    integer(out, b"status", line.status);
    integer(out, b"response_bytes", line.response_bytes);
    seconds(out, b"duration", line.duration);
    seconds(out, b"wait", line.wait);
    if let Some(served_by) = &line.served_by {
        text(out, b"upstream", served_by.upstream.as_bytes());
        given(out, b"server", served_by.server.map(str::as_bytes));
        if let Some(time) = served_by.time {
            seconds(out, b"upstream_time", time);
        }
        integer(out, b"attempts", served_by.attempts);
    }
    text(out, b"verdict", line.verdict.word().as_bytes());
    if let Verdict::Failed(reason) = line.verdict {
        text(out, b"failure", reason.as_bytes());
    }
    given(out, b"rule", line.rule.map(str::as_bytes));
    if let Some(hash) = line.key_hash {
        text(out, b"key_hash", &number::hex(hash));
    }
    given(out, b"shadow", line.shadow.map(str::as_bytes));
    flag(out, b"store_lost", line.store_lost);
    flag(out, b"aborted", line.aborted);
    out.extend_from_slice(b"}\n");
}

/// In place of lines that were lost.
pub(super) fn lost(out: &mut Vec<u8>, lost: &Lost) {
    time(out, lost.last);
    integer(out, b"lost_lines", lost.lines);
    name(out, b"lost_since");
    quoted(out, |out| moment::rfc3339(out, lost.first));
    out.extend_from_slice(b"}\n");
}

/// The first member of each object.
fn time(out: &mut Vec<u8>, time: SystemTime) {
    out.extend_from_slice(b"{\"time\":");
    quoted(out, |out| moment::rfc3339(out, time));
}

fn name(out: &mut Vec<u8>, name: &[u8]) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":");
}

fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn text(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    name(out, key);
    quoted(out, |out| escape::json(out, value));
}

fn given(out: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    if let Some(value) = value {
        text(out, key, value);
    }
}

fn integer(out: &mut Vec<u8>, key: &[u8], value: impl itoa::Integer) {
    name(out, key);
    number::integer(out, value);
}

fn seconds(out: &mut Vec<u8>, key: &[u8], value: Duration) {
    name(out, key);
    number::seconds(out, value);
}

fn flag(out: &mut Vec<u8>, key: &[u8], value: bool) {
    if value {
        name(out, key);
        out.extend_from_slice(b"true");
    }
}

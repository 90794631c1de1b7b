//! `INFO`, `PING`, `CONFIG` and other commands that clients expect of any Redis server.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::REDIS_VERSION;
use super::command::{CommandContext, CommandResult};

/// Settings that clients query, as of a server without persistence.
const SETTINGS: &[(&str, &str)] =
    &[("appendonly", "no"), ("databases", "1"), ("maxmemory", "0"), ("maxmemory-policy", "noeviction"), ("save", "")];

pub(super) fn ping(call: &mut CommandContext<'_>) -> CommandResult {
    match call.command.len() {
        1 => call.replies.status("PONG"),
        2 => call.replies.bulk(call.command.word(1)),
        _ => return call.wrong_arity("ping"),
    }
    CommandResult::Done
}

pub(super) fn echo(call: &mut CommandContext<'_>) -> CommandResult {
    call.replies.bulk(call.command.word(1));
    CommandResult::Done
}

pub(super) fn quit(call: &mut CommandContext<'_>) -> CommandResult {
    call.replies.status("OK");
    CommandResult::Close
}

/// `SELECT`: accepts database 0 only; there is no data.
pub(super) fn select(call: &mut CommandContext<'_>) -> CommandResult {
    match str::from_utf8(call.command.word(1)).ok().and_then(|index| index.parse::<i64>().ok()) {
        Some(0) => call.ok(),
        Some(_) => call.error("ERR DB index is out of range"),
        None => call.error("ERR value is not an integer or out of range"),
    }
}

pub(super) fn time(call: &mut CommandContext<'_>) -> CommandResult {
    let now = call.resp.clock.now().to_unix();
    call.replies.array(2);
    call.replies.bulk(itoa::Buffer::new().format(now.as_secs()).as_bytes());
    call.replies.bulk(itoa::Buffer::new().format(now.subsec_micros()).as_bytes());
    CommandResult::Done
}

pub(super) fn cluster(call: &mut CommandContext<'_>) -> CommandResult {
    call.error("ERR This instance has cluster support disabled")
}

/// `CONFIG GET` for a few fixed settings; all configuration is in the rule file.
pub(super) fn config(call: &mut CommandContext<'_>) -> CommandResult {
    if !call.command.is(1, "get") {
        return call.unknown_subcommand("CONFIG", &["get"]);
    }
    if call.command.len() < 3 {
        return call.wrong_arity("config|get");
    }
    let is_requested = |name: &str| {
        call.command.words_from(2).any(|pattern| pattern == b"*" || pattern.eq_ignore_ascii_case(name.as_bytes()))
    };
    let requested = SETTINGS.iter().filter(|(name, _)| is_requested(name));
    call.replies.map(requested.clone().count());
    for (name, value) in requested {
        call.replies.bulk(name.as_bytes());
        call.replies.bulk(value.as_bytes());
    }
    CommandResult::Done
}

/// Writes one section of the `INFO` reply.
type Section = fn(&CommandContext<'_>, &mut String);

pub(super) fn info(call: &mut CommandContext<'_>) -> CommandResult {
    let sections: [(&str, Section); 4] =
        [("Server", server), ("Persistence", persistence), ("Stats", stats), ("Replication", replication)];
    let all = call.command.len() == 1;
    let is_requested = |name: &str| {
        let names_all =
            |word: &[u8]| [b"all".as_slice(), b"default", b"everything"].contains(&&*word.to_ascii_lowercase());
        all || call.command.words_from(1).any(|word| names_all(word) || word.eq_ignore_ascii_case(name.as_bytes()))
    };
    let mut text = String::new();
    for (name, write) in sections.into_iter().filter(|(name, _)| is_requested(name)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let _ = write!(text, "# {name}\r\n");
        write(call, &mut text);
    }
    call.replies.verbatim(&text);
    CommandResult::Done
}

fn server(call: &CommandContext<'_>, text: &mut String) {
    let now = call.resp.clock.now();
    let _ = write!(
        text,
        "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\nsluicegate_version:{}\r\nprocess_id:{}\r\n\
         server_time_usec:{}\r\nuptime_in_seconds:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        now.to_unix().as_micros(),
        (now - call.resp.started).as_secs(),
    );
}

/// Clients wait until loading is done.
fn persistence(_: &CommandContext<'_>, text: &mut String) {
    text.push_str("loading:0\r\n");
}

fn stats(call: &CommandContext<'_>, text: &mut String) {
    let received = call.resp.connections.load(Ordering::Relaxed);
    let _ = write!(
        text,
        "total_connections_received:{received}\r\nadhoc_bytes:{}\r\nadhoc_evicted:{}\r\n",
        call.resp.adhoc.bytes(),
        call.resp.adhoc.early_evictions(),
    );
}

fn replication(_: &CommandContext<'_>, text: &mut String) {
    text.push_str("role:master\r\nconnected_slaves:0\r\n");
}

//! `COMMAND`: the commands, described so that clients find the key in each.

use super::command::{Argument, COMMANDS, Call, Kind, Known, Step};
use super::reply::Replies;

const SUBCOMMANDS: &[&str] = &["count", "docs", "getkeys", "info", "list"];

pub(super) fn command(call: &mut Call<'_>) -> Step {
    let command = call.command;
    let named = || command.words_from(2).map(Known::find);
    if command.len() == 1 || (command.is(1, "info") && command.len() == 2) {
        call.replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|known| describe(known, call.replies));
    } else if command.is(1, "count") && command.len() == 2 {
        call.replies.integer(COMMANDS.len() as i64);
    } else if command.is(1, "list") && command.len() == 2 {
        call.replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|known| call.replies.bulk(known.name.as_bytes()));
    } else if command.is(1, "info") {
        call.replies.array(named().len());
        for known in named() {
            match known {
                Some(known) => describe(known, call.replies),
                None => call.replies.null(),
            }
        }
    } else if command.is(1, "docs") {
        let all = command.len() == 2;
        let documented = || COMMANDS.iter().filter(|known| all || named().flatten().any(|it| it.name == known.name));
        call.replies.map(documented().count());
        documented().for_each(|known| document(known, call.replies));
    } else if command.is(1, "getkeys") && command.len() > 2 {
        return get_keys(call);
    } else {
        return call.unknown_subcommand("COMMAND", SUBCOMMANDS);
    }
    Step::Done
}

fn get_keys(call: &mut Call<'_>) -> Step {
    match Known::find(call.command.word(2)) {
        None => call.error("ERR Invalid command specified"),
        Some(known) if !known.has_key() => call.error("ERR The command has no key arguments"),
        Some(known) if call.command.len() < 4 || !known.takes(call.command.len() - 2) => {
            call.error("ERR Invalid number of arguments specified for command")
        }
        Some(_) => {
            call.replies.array(1);
            call.replies.bulk(call.command.word(3));
            Step::Done
        }
    }
}

/// A command as `COMMAND INFO` tells of it: ten things.
fn describe(known: &Known, replies: &mut Replies) {
    let key = i64::from(known.has_key());
    replies.array(10);
    replies.bulk(known.name.as_bytes());
    replies.integer(known.arity);
    replies.set(known.flags.len());
    known.flags.iter().for_each(|flag| replies.status(flag));
    // The first key, the last one, and the step between them.
    (0..3).for_each(|_| replies.integer(key));
    // Categories, then hints.
    replies.set(0);
    replies.array(0);
    replies.set(known.has_key().into());
    if known.has_key() {
        describe_key(replies);
    }
    // Subcommands.
    replies.array(0);
}

/// Where the key is, as newer clients read it: the second word, and no other.
fn describe_key(replies: &mut Replies) {
    replies.map(3);
    replies.bulk(b"flags");
    replies.set(3);
    ["RW", "access", "update"].iter().for_each(|flag| replies.status(flag));
    replies.bulk(b"begin_search");
    replies.map(2);
    replies.bulk(b"type");
    replies.bulk(b"index");
    replies.bulk(b"spec");
    replies.map(1);
    replies.bulk(b"index");
    replies.integer(1);
    replies.bulk(b"find_keys");
    replies.map(2);
    replies.bulk(b"type");
    replies.bulk(b"range");
    replies.bulk(b"spec");
    replies.map(3);
    for (name, value) in [("lastkey", 0), ("keystep", 1), ("limit", 0)] {
        replies.bulk(name.as_bytes());
        replies.integer(value);
    }
}

/// A command as `COMMAND DOCS` tells of it.
fn document(known: &Known, replies: &mut Replies) {
    replies.bulk(known.name.as_bytes());
    replies.map(4);
    for (name, value) in [("summary", known.summary), ("group", "module"), ("complexity", "O(1)")] {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"arguments");
    replies.array(known.arguments.len());
    known.arguments.iter().for_each(|argument| document_argument(argument, replies));
}

fn document_argument(argument: &Argument, replies: &mut Replies) {
    replies.map(2 + usize::from(argument.optional) + usize::from(argument.kind == Kind::Key));
    replies.bulk(b"name");
    replies.bulk(argument.name.as_bytes());
    replies.bulk(b"type");
    replies.bulk(match argument.kind {
        Kind::Key => b"key",
        Kind::Text => b"string",
        Kind::Number => b"integer",
    });
    if argument.kind == Kind::Key {
        replies.bulk(b"key_spec_index");
        replies.integer(0);
    }
    if argument.optional {
        replies.bulk(b"flags");
        replies.set(1);
        replies.status("optional");
    }
}

//! `COMMAND`: command metadata, from which clients find the key of each command.

use super::command::{Argument, ArgumentKind, COMMANDS, CommandContext, CommandResult, CommandSpec};
use super::reply::ReplyBuffer;

const SUBCOMMANDS: &[&str] = &["count", "docs", "getkeys", "info", "list"];

pub(super) fn command(call: &mut CommandContext<'_>) -> CommandResult {
    let command = call.command;
    let named = || command.words_from(2).map(CommandSpec::find);
    if command.len() == 1 || (command.is(1, "info") && command.len() == 2) {
        call.replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|known| command_info(known, call.replies));
    } else if command.is(1, "count") && command.len() == 2 {
        call.replies.integer(COMMANDS.len() as i64);
    } else if command.is(1, "list") && command.len() == 2 {
        call.replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|known| call.replies.bulk(known.name.as_bytes()));
    } else if command.is(1, "info") {
        call.replies.array(named().len());
        for known in named() {
            match known {
                Some(known) => command_info(known, call.replies),
                None => call.replies.null(),
            }
        }
    } else if command.is(1, "docs") {
        let all = command.len() == 2;
        let documented = || COMMANDS.iter().filter(|known| all || named().flatten().any(|it| it.name == known.name));
        call.replies.map(documented().count());
        documented().for_each(|known| command_doc(known, call.replies));
    } else if command.is(1, "getkeys") && command.len() > 2 {
        return get_keys(call);
    } else {
        return call.unknown_subcommand("COMMAND", SUBCOMMANDS);
    }
    CommandResult::Done
}

fn get_keys(call: &mut CommandContext<'_>) -> CommandResult {
    match CommandSpec::find(call.command.word(2)) {
        None => call.error("ERR Invalid command specified"),
        Some(known) if !known.has_key() => call.error("ERR The command has no key arguments"),
        Some(known) if call.command.len() < 4 || !known.accepts_words(call.command.len() - 2) => {
            call.error("ERR Invalid number of arguments specified for command")
        }
        Some(_) => {
            call.replies.array(1);
            call.replies.bulk(call.command.word(3));
            CommandResult::Done
        }
    }
}

/// The ten elements of a `COMMAND INFO` reply.
fn command_info(known: &CommandSpec, replies: &mut ReplyBuffer) {
    let key = i64::from(known.has_key());
    replies.array(10);
    replies.bulk(known.name.as_bytes());
    replies.integer(known.arity);
    replies.set(known.flags.len());
    known.flags.iter().for_each(|flag| replies.status(flag));
    // First key, last key and step.
    (0..3).for_each(|_| replies.integer(key));
    // ACL categories, then tips.
    replies.set(0);
    replies.array(0);
    replies.set(known.has_key().into());
    if known.has_key() {
        key_spec(replies);
    }
    // Subcommands.
    replies.array(0);
}

/// The key specification: the second word.
fn key_spec(replies: &mut ReplyBuffer) {
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

/// The `COMMAND DOCS` entry of a command.
fn command_doc(known: &CommandSpec, replies: &mut ReplyBuffer) {
    replies.bulk(known.name.as_bytes());
    replies.map(4);
    for (name, value) in [("summary", known.summary), ("group", "module"), ("complexity", "O(1)")] {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"arguments");
    replies.array(known.arguments.len());
    known.arguments.iter().for_each(|argument| argument_doc(argument, replies));
}

fn argument_doc(argument: &Argument, replies: &mut ReplyBuffer) {
    replies.map(2 + usize::from(argument.optional) + usize::from(argument.kind == ArgumentKind::Key));
    replies.bulk(b"name");
    replies.bulk(argument.name.as_bytes());
    replies.bulk(b"type");
    replies.bulk(match argument.kind {
        ArgumentKind::Key => b"key",
        ArgumentKind::Text => b"string",
        ArgumentKind::Number => b"integer",
    });
    if argument.kind == ArgumentKind::Key {
        replies.bulk(b"key_spec_index");
        replies.integer(0);
    }
    if argument.optional {
        replies.bulk(b"flags");
        replies.set(1);
        replies.status("optional");
    }
}

//! `CLIENT`: connection name, id and information.

use super::command::{CommandContext, CommandResult};
use super::reply::InputExcerpt;

const SUBCOMMANDS: &[&str] = &["getname", "id", "info", "list", "no-evict", "no-touch", "reply", "setinfo", "setname"];

pub(super) fn client(call: &mut CommandContext<'_>) -> CommandResult {
    let command = call.command;
    let is = |subcommand: &str, words: usize| command.is(1, subcommand) && command.len() == words;
    if is("setinfo", 4) {
        return set_info(call);
    }
    if is("setname", 3) {
        return match call.session.set_name(command.word(2)) {
            Ok(()) => call.ok(),
            Err(error) => call.error(error),
        };
    }
    if is("getname", 2) {
        match &*call.session.name {
            [] => call.replies.null(),
            name => call.replies.bulk(name),
        }
        return CommandResult::Done;
    }
    if is("id", 2) {
        call.replies.integer(call.session.id);
        return CommandResult::Done;
    }
    if is("info", 2) || command.is(1, "list") {
        let line = line(call);
        call.replies.verbatim(&line);
        return CommandResult::Done;
    }
    if is("no-evict", 3) || is("no-touch", 3) {
        return if command.is(2, "on") || command.is(2, "off") { call.ok() } else { call.error("ERR syntax error") };
    }
    if is("reply", 3) {
        return if command.is(2, "on") { call.ok() } else { call.error("ERR only CLIENT REPLY ON is supported") };
    }
    match SUBCOMMANDS.iter().find(|known| command.is(1, known)) {
        Some(known) => call.wrong_arity(&format!("client|{known}")),
        None => call.unknown_subcommand("CLIENT", SUBCOMMANDS),
    }
}

/// `CLIENT SETINFO`: accepts the library name and version, and ignores them.
fn set_info(call: &mut CommandContext<'_>) -> CommandResult {
    let (option, value) = (call.command.word(2), call.command.word(3));
    let Some(option) = ["lib-name", "lib-ver"].into_iter().find(|known| option.eq_ignore_ascii_case(known.as_bytes()))
    else {
        let option = InputExcerpt(option);
        return call.error(format_args!("ERR Unrecognized option '{option}'"));
    };
    if !value.iter().all(u8::is_ascii_graphic) {
        return call.error(format_args!("ERR {option} cannot contain spaces, newlines or special characters."));
    }
    call.ok()
}

/// The line of this connection, the only one listed.
fn line(call: &CommandContext<'_>) -> String {
    let version = if call.replies.is_resp3 { 3 } else { 2 };
    let name = String::from_utf8_lossy(&call.session.name);
    format!("id={} name={name} flags=N db=0 user=default resp={version}\n", call.session.id)
}

//! `CLIENT`: what a connection tells of itself and is told about itself.

use super::command::{Call, Step};
use super::reply::Shown;

const SUBCOMMANDS: &[&str] = &["getname", "id", "info", "list", "no-evict", "no-touch", "reply", "setinfo", "setname"];

pub(super) fn client(call: &mut Call<'_>) -> Step {
    let command = call.command;
    let is = |subcommand: &str, words: usize| command.is(1, subcommand) && command.len() == words;
    if is("setinfo", 4) {
        return set_info(call);
    }
    if is("setname", 3) {
        return match call.session.rename(command.word(2)) {
            Ok(()) => call.ok(),
            Err(bad) => call.error(bad),
        };
    }
    if is("getname", 2) {
        match &*call.session.name {
            [] => call.replies.null(),
            name => call.replies.bulk(name),
        }
        return Step::Done;
    }
    if is("id", 2) {
        call.replies.integer(call.session.id);
        return Step::Done;
    }
    if is("info", 2) || command.is(1, "list") {
        let line = line(call);
        call.replies.text(&line);
        return Step::Done;
    }
    if is("no-evict", 3) || is("no-touch", 3) {
        return if command.is(2, "on") || command.is(2, "off") { call.ok() } else { call.error("ERR syntax error") };
    }
    if is("reply", 3) {
        return if command.is(2, "on") { call.ok() } else { call.error("ERR every command is answered here") };
    }
    match SUBCOMMANDS.iter().find(|known| command.is(1, known)) {
        Some(known) => call.wrong_number(&format!("client|{known}")),
        None => call.unknown_subcommand("CLIENT", SUBCOMMANDS),
    }
}

/// Clients say which library they are. That is good to know and of no consequence.
fn set_info(call: &mut Call<'_>) -> Step {
    let (option, value) = (call.command.word(2), call.command.word(3));
    let Some(option) = ["lib-name", "lib-ver"].into_iter().find(|known| option.eq_ignore_ascii_case(known.as_bytes()))
    else {
        let option = Shown(option);
        return call.error(format_args!("ERR Unrecognized option '{option}'"));
    };
    if !value.iter().all(u8::is_ascii_graphic) {
        return call.error(format_args!("ERR {option} cannot contain spaces, newlines or special characters."));
    }
    call.ok()
}

/// The connection in a line, the only one it is told of.
fn line(call: &Call<'_>) -> String {
    let version = if call.replies.third { 3 } else { 2 };
    let name = String::from_utf8_lossy(&call.session.name);
    format!("id={} name={name} flags=N db=0 user=default resp={version}\n", call.session.id)
}
